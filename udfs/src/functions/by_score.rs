//! The shared part of functions that score steps by the scoring model.

use std::sync::Arc;

use asap_lm::backend::Asks;
use asap_lm::{Reading, Scored, Scores, Wanted};
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, nullable};
use crate::declaration::{Argument, Declaration};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::losses::reason;
use crate::models::failed;
use crate::needs::SessionModels;
use crate::output::IntoArray;
use crate::settings::{OnError, Settings};
use crate::{cores, llm};

/// Rows that wait for the model at the same time: enough to fill its batches.
pub(super) const ROWS_IN_FLIGHT: usize = 64;

/// Returns what the model reads for a row.
pub(super) type Readings = fn(Args) -> Cell<Vec<Reading>>;

/// A score of type `T` for each step. NULL if an argument is NULL, the chain is longer than the model's window, or the model
/// produces NaN or infinite values.
pub(super) struct StepScore<T = f32> {
    pub name: &'static str,
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub example: &'static str,
    pub wanted: Wanted,
    /// Whether it picks entropies.
    pub entropies: bool,
    pub readings: Readings,
    /// Returns the score of each step of one reading. Results of a row's readings are concatenated in order.
    pub pick: fn(&Scores) -> Vec<Option<T>>,
}

struct ByScore<T> {
    session: SessionModels,
    score: StepScore<T>,
}

impl<T: IntoArray + 'static> StepScore<T> {
    pub(super) fn of(self, session: &SessionModels) -> Result<Function> {
        let Self { name, about, arguments, example, .. } = self;
        let declaration = Declaration { name, about, arguments, example };
        let call = ByScore { session: session.clone(), score: self };
        Ok(Function::of_calls(declaration, <Vec<Option<T>>>::data_type()?, call))
    }
}

#[async_trait]
impl<T: IntoArray + 'static> AsyncCall for ByScore<T> {
    fn asking(&self) -> Asking<'_> {
        Asking {
            scorer: Some(&self.session),
            of_scorer: Asks { entropies: self.score.entropies, ..Asks::default() },
            rows_in_flight: ROWS_IN_FLIGHT,
            reach: self.score.wanted as u8,
            ..Asking::default()
        }
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let StepScore { name, wanted, readings, pick, .. } = self.score;
        let scored = score_rows(&self.session, name, wanted, readings, rows, metrics).await?.into_iter();
        let pick = |readings: Vec<Arc<Scores>>| readings.iter().flat_map(|scores| pick(scores)).collect::<Vec<_>>();
        IntoArray::array(scored.map(|row| row.map(pick)).collect())
    }
}

/// Returns the scores of each row's readings; None if an argument is NULL or a reading has no scores.
pub(super) async fn score_rows(
    session: &SessionModels,
    function: &str,
    wanted: Wanted,
    readings: Readings,
    rows: &CallRows,
    metrics: &CallMetrics,
) -> Result<Vec<Option<Vec<Arc<Scores>>>>> {
    let scorer = session.models.scorer(rows.config())?;
    let (tokenising, columns) = (Arc::clone(&scorer), rows.columns.clone());
    let (counts, follow_questions, prepared) = cores::run(move || {
        let rows = columns.read(readings)?;
        let counts: Vec<Option<usize>> = rows.iter().map(|readings| readings.as_ref().map(Vec::len)).collect();
        let readings: Vec<Reading> = rows.into_iter().flatten().flatten().collect();
        let follow_questions = readings.iter().all(|reading| matches!(reading, Reading::Chain(_)));
        let prepared = tokenising.prepare(&readings, wanted).map_err(failed)?;
        Ok::<_, DataFusionError>((counts, follow_questions, prepared))
    })
    .await
    .map_err(llm::failed)??;
    metrics.calls.add(prepared.calls());
    metrics.cache_hits.add(prepared.remembered());
    metrics.add_tokens(prepared.tokens(), 0);
    let scored = scorer.score(prepared).await.map_err(failed)?;
    if follow_questions {
        judge(session, &scored, scorer.chance());
    }
    session.count_remembered(&rows.context);
    let mut scored = scored.into_iter();
    let each = counts.into_iter().enumerate().map(|(row, count)| {
        let Some(count) = count else { return Ok(None) };
        let own = scored.by_ref().take(count).map(|scored| match scored {
            Scored::Steps(scores) => Ok(scores),
            none => Err(none),
        });
        // Takes all readings of the row, even after one without scores, so that the iterator stays aligned with the
        // rows.
        match own.collect::<Vec<_>>().into_iter().collect() {
            Ok(scores) => Ok(Some(scores)),
            Err(none) => {
                let readings = nullable(readings(rows.columns.row(row)))?.unwrap_or_default();
                lost(session, function, &none, readings.iter().flat_map(Reading::steps).copied(), rows, metrics)
            }
        }
    });
    each.collect()
}

fn judge(session: &SessionModels, scored: &[Scored], chance: f32) {
    let steps = scored.iter().filter_map(|row| if let Scored::Steps(scores) = row { Some(scores) } else { None });
    let (mut all, mut above) = (0, 0);
    for token in steps.flat_map(|scores| &scores.first).flatten() {
        all += 1;
        above += u64::from(token.surprisal > chance);
    }
    session.count_chance(all, above, chance);
}

/// Counts a row without a result, and returns NULL for it, or an error if `asap.on_error` is `fail`. The reason is
/// remembered for `cot_no_score`.
pub(super) fn lost<'a, T>(
    session: &SessionModels,
    function: &str,
    none: &Scored,
    steps: impl Iterator<Item = &'a str>,
    rows: &CallRows,
    metrics: &CallMetrics,
) -> Result<Option<T>> {
    metrics.failed.add(1);
    let settings = Settings::of(rows.config())?;
    session.models.losses().remember(steps, none, settings);
    match settings.on_error {
        OnError::Reject => Ok(None),
        OnError::Fail => Err(no_scores(function, none, settings)),
    }
}

/// Returns the error of a row without scores.
pub(super) fn no_scores(function: &str, none: &Scored, settings: &Settings) -> DataFusionError {
    match none {
        Scored::TooLong(why) => exec_datafusion_err!("{function} was given a chain of {why}"),
        none => exec_datafusion_err!("{function}: {}", reason(none, settings.scorer_backend)),
    }
}
