//! The shared part of functions that score steps by the scoring model.

use std::any::Any;
use std::sync::Arc;

use asap_lm::{Left, Over, QuestionAndSteps, Reading, Scored, Scores, Wanted};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, ListArray};
use datafusion::arrow::datatypes::{DataType, Float32Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;

use super::needs::{SessionModels, equal_by_models};
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, Columns, NoValue, nullable};
use crate::cores;
use crate::declaration::{Arg, Argument, Declaration};
use crate::function::{AsyncCall, CallRows, Prepare};
use crate::models::failed;
use crate::output::list_of;
use crate::settings::{OnError, Settings};

/// Rows that wait for the model at the same time: enough to fill its batches.
const ROWS_IN_FLIGHT: usize = 64;

pub(crate) const WHAT_IS_ASKED: Argument = Argument::new(
    "question",
    Arg::Asked,
    "The question that the chain answers: a text, or a conversation such as `cot_prompt` returns, with its system prompt. It is inserted into `asap.scorer.prompt`.",
);

pub(crate) const QUESTION_AND_STEPS: &[Argument] = &[
    WHAT_IS_ASKED,
    Argument::new(
        "steps",
        Arg::TextList,
        "The steps of a chain of thought. The model reads them joined by a blank line, a NULL step as an empty one.",
    ),
];

pub(crate) const QUESTION_STEPS_AND_ANSWER: &[Argument] = &[
    WHAT_IS_ASKED,
    Argument::new("steps", Arg::TextList, "The steps of a chain of thought, joined by a blank line."),
    Argument::new("answer", Arg::Text, "The answer, as it stands after `</think>`; an empty one gives NULL."),
];

pub(crate) fn answer_reading(row: Args, left: Left) -> Cell<Vec<Reading>> {
    let (chain, answer) = (QuestionAndSteps { question: row.asked(0)?, steps: row.texts(1)? }, row.text(2)?);
    if answer.is_empty() {
        Err(NoValue::Null)
    } else {
        Ok(vec![Reading::Answer { chain, answer, left, over: Over::Answer }])
    }
}

/// A score for each step. NULL if an argument is NULL, the chain is longer than the model's window, or the model
/// produces NaN or infinite values.
pub(crate) trait StepScore: Send + Sync + 'static {
    const DECLARATION: Declaration;
    const WANTED: Wanted;

    /// Returns what the model reads for a row: by default a chain after its question.
    fn readings(row: Args) -> Cell<Vec<Reading>> {
        Ok(vec![Reading::Chain(QuestionAndSteps { question: row.asked(0)?, steps: row.texts(1)? })])
    }

    /// Returns the score of each step of one reading. Results of a row's readings are concatenated in order.
    fn pick(scores: &Scores) -> Vec<Option<f32>>;
}

pub(crate) fn scores_type() -> DataType {
    list_of(DataType::Float32)
}

pub(crate) struct ByScore<F> {
    pub session: SessionModels,
    pub function: std::marker::PhantomData<F>,
}

equal_by_models!(ByScore<F: StepScore>);

impl<F: StepScore> ByScore<F> {
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

impl<F: StepScore> Prepare for ByScore<F> {
    fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        self.session.models.scorer(config).map(drop)
    }
}

#[async_trait]
impl<F: StepScore> AsyncCall for ByScore<F> {
    fn window(&self, _: &ConfigOptions) -> usize {
        ROWS_IN_FLIGHT
    }

    fn scores(&self) -> bool {
        true
    }

    fn reach(&self) -> u8 {
        u8::from(F::WANTED == Wanted::AllTokens)
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        // While the model is held, the same settings find it again. If there is none, the first call reports why.
        let scorer = self.session.models.scorer(context.session_config().options()).ok()?;
        Some(scorer)
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let scorer = self.session.models.scorer(rows.config())?;
        let (tokenising, columns) = (Arc::clone(&scorer), rows.columns.clone());
        let (counts, behind_questions, prepared) = cores::run(move || {
            let rows = readings::<F>(&columns)?;
            let counts: Vec<Option<usize>> = rows.iter().map(|readings| readings.as_ref().map(Vec::len)).collect();
            let readings: Vec<Reading> = rows.into_iter().flatten().flatten().collect();
            let behind_questions = readings.iter().all(|reading| matches!(reading, Reading::Chain(_)));
            let prepared = tokenising.prepare(&readings, F::WANTED).map_err(failed)?;
            Ok::<_, datafusion::common::DataFusionError>((counts, behind_questions, prepared))
        })
        .await??;
        metrics.add_calls(prepared.calls());
        metrics.add_cache_hits(prepared.remembered());
        metrics.add_tokens(prepared.tokens(), 0);
        let scored = scorer.score(prepared).await.map_err(failed)?;
        if behind_questions {
            self.judge(&scored, scorer.chance());
        }
        let mut scored = scored.into_iter();
        self.session.count_remembered(&rows.context);
        let fail = Settings::of(rows.config())?.on_error == OnError::Fail;
        let lists = counts.into_iter().map(|count| {
            let Some(count) = count else { return Ok(None) };
            let picked = scored.by_ref().take(count).map(|scored| match scored {
                Scored::Steps(scores) => Ok(F::pick(&scores)),
                none => Err(none),
            });
            // Takes all readings of the row, even after one without scores, so that the iterator stays aligned with the
            // rows.
            match picked.collect::<Vec<_>>().into_iter().collect::<std::result::Result<Vec<_>, _>>() {
                Ok(scores) => Ok(Some(scores.concat())),
                Err(none) => {
                    metrics.add_failed(1);
                    if fail { exec_err!("{}", why(F::DECLARATION.name, &none)) } else { Ok(None) }
                }
            }
        });
        let lists = lists.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)))
    }
}

pub(super) fn why(function: &str, scored: &Scored) -> String {
    match scored {
        Scored::TooLong(why) => format!("{function} was given a chain of {why}"),
        Scored::NoPrompt(why) => format!("{function}: the model's chat template: {why}"),
        Scored::NotFinite | Scored::Steps(_) => {
            format!("{function}: the model produced NaN or infinite values for a chain (overflow of its dtype)")
        }
    }
}

fn readings<F: StepScore>(columns: &Columns) -> Result<Vec<Option<Vec<Reading<'_>>>>> {
    (0..columns.rows()).map(|row| nullable(F::readings(columns.row(row)))).collect()
}
