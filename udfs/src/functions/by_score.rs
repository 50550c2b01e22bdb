//! The shared part of functions that score steps by the scoring model.

use std::sync::Arc;

use asap_lm::{Reading, Scored, Scores, Wanted};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, ListArray};
use datafusion::arrow::datatypes::{DataType, Float32Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};

use super::needs::SessionModels;
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell};
use crate::cores;
use crate::declaration::{Argument, Declaration};
use crate::function::{AsyncCall, CallRows, Function};
use crate::llm;
use crate::models::failed;
use crate::output::list_of;
use crate::settings::{OnError, Settings};

/// Rows that wait for the model at the same time: enough to fill its batches.
const ROWS_IN_FLIGHT: usize = 64;

/// A score for each step. NULL if an argument is NULL, the chain is longer than the model's window, or the model
/// produces NaN or infinite values.
#[derive(Clone, Copy)]
pub(super) struct StepScore {
    pub name: &'static str,
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub example: &'static str,
    pub wanted: Wanted,
    /// Returns what the model reads for a row.
    pub readings: fn(Args) -> Cell<Vec<Reading>>,
    /// Returns the score of each step of one reading. Results of a row's readings are concatenated in order.
    pub pick: fn(&Scores) -> Vec<Option<f32>>,
}

struct ByScore {
    session: SessionModels,
    score: StepScore,
}

impl StepScore {
    pub(super) fn of(self, session: &SessionModels) -> Function {
        let Self { name, about, arguments, example, .. } = self;
        let declaration = Declaration { name, about, arguments, example };
        Function::of_calls(declaration, list_of(DataType::Float32), ByScore { session: session.clone(), score: self })
    }
}

impl ByScore {
    fn judge(&self, scored: &[Scored], chance: f32) {
        let steps = scored.iter().filter_map(|row| if let Scored::Steps(scores) = row { Some(scores) } else { None });
        let (mut all, mut above) = (0, 0);
        for token in steps.flat_map(|scores| &scores.first).flatten() {
            all += 1;
            above += u64::from(token.surprisal > chance);
        }
        self.session.count_chance(all, above, chance);
    }
}

#[async_trait]
impl AsyncCall for ByScore {
    fn scorer_of(&self) -> Option<&SessionModels> {
        Some(&self.session)
    }

    fn window(&self, _: &ConfigOptions) -> usize {
        ROWS_IN_FLIGHT
    }

    fn reach(&self) -> u8 {
        u8::from(self.score.wanted == Wanted::AllTokens)
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let StepScore { name, wanted, readings, pick, .. } = self.score;
        let scorer = self.session.models.scorer(rows.config())?;
        let (tokenising, columns) = (Arc::clone(&scorer), rows.columns.clone());
        let (counts, follow_questions, prepared) = cores::run(move || {
            let rows = columns.read(readings)?;
            let counts: Vec<Option<usize>> = rows.iter().map(|readings| readings.as_ref().map(Vec::len)).collect();
            let readings: Vec<Reading> = rows.into_iter().flatten().flatten().collect();
            let follow_questions = readings.iter().all(|reading| matches!(reading, Reading::Chain(_)));
            let prepared = tokenising.prepare(&readings, wanted).map_err(failed)?;
            Ok::<_, datafusion::common::DataFusionError>((counts, follow_questions, prepared))
        })
        .await
        .map_err(llm::failed)??;
        metrics.calls.add(prepared.calls());
        metrics.cache_hits.add(prepared.remembered());
        metrics.add_tokens(prepared.tokens(), 0);
        let scored = scorer.score(prepared).await.map_err(failed)?;
        if follow_questions {
            self.judge(&scored, scorer.chance());
        }
        let mut scored = scored.into_iter();
        self.session.count_remembered(&rows.context);
        let lists = counts.into_iter().map(|count| {
            let Some(count) = count else { return Ok(None) };
            let picked = scored.by_ref().take(count).map(|scored| match scored {
                Scored::Steps(scores) => Ok(pick(&scores)),
                none => Err(none),
            });
            // Takes all readings of the row, even after one without scores, so that the iterator stays aligned with the
            // rows.
            match picked.collect::<Vec<_>>().into_iter().collect::<std::result::Result<Vec<_>, _>>() {
                Ok(scores) => Ok(Some(scores.concat())),
                Err(none) => lost(name, &none, rows, metrics),
            }
        });
        let lists = lists.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)))
    }
}

/// Counts a row without a result, and returns NULL for it, or an error if `asap.on_error` is `fail`.
pub(super) fn lost<T>(function: &str, none: &Scored, rows: &CallRows, metrics: &CallMetrics) -> Result<Option<T>> {
    metrics.failed.add(1);
    match (Settings::of(rows.config())?.on_error, none) {
        (OnError::Reject, _) => Ok(None),
        (OnError::Fail, Scored::TooLong(why)) => exec_err!("{function} was given a chain of {why}"),
        (OnError::Fail, Scored::NoPrompt(why)) => exec_err!("{function}: the model's chat template failed: {why}"),
        (OnError::Fail, Scored::NotFinite | Scored::Steps(_)) => {
            exec_err!(
                "{function}: the model produced NaN or infinite values for a chain; if asap.scorer.dtype is not f32, use f32"
            )
        }
    }
}
