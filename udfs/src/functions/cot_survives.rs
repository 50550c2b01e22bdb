//! Whether an answer survives when only some steps of a chain are kept.

use std::borrow::Cow;
use std::sync::Arc;

use asap_lm::backend::{Asks, Continued};
use asap_lm::{QuestionAndSteps, Reading, Scored, Scorer, Wanted};
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::arguments::{QUESTION, STATED_ANSWER, STEPS};
use super::by_score::lost;
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Declaration, argument};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::models::failed;
use crate::needs::SessionModels;
use crate::output::{IntoArray, struct_output};

/// Rows that wait for the model at the same time. Each is its own piece, so that several calls for one row reach the
/// model together, and the rows of one question follow each other.
const ROWS_IN_FLIGHT: usize = 8;

const DECLARATION: Declaration = Declaration {
    name: "cot_survives",
    about: "Whether the answer survives pruning: whether the scoring model (`asap.scorer.model`) still states it after reading only some steps of a chain. The model reads the question, the kept steps, `</think>` and `The final answer is \\boxed{`. The result is a struct of `log_probability` (the mean ln P of the answer's tokens), `stated` (what the model writes up to the closing brace, by greedy decoding, at most 64 tokens) and `survives` (whether `stated` equals the answer by the rules of `cot_verify`). The answer is the text that `cot_answer` finds in the argument `answer`, or else the whole argument if it is one line. Any other argument is a program, and so is one with a fenced block of code and no `\\boxed`. For a program, the model reads only `</think>` after the steps, `log_probability` covers the whole argument, and `stated` and `survives` are NULL. Kept steps are joined by a blank line. Empty steps are left out. An empty answer, and a number in `kept` that no step has, give NULL.",
    arguments: &[
        QUESTION,
        STEPS,
        argument!(kept: IntList, "The numbers of the steps that the model reads, from 1."),
        STATED_ANSWER,
    ],
    example: "select cot_survives('2 + 2?', ['Hm.', '2 + 2 is 4.', 'Done.'], [2], '4')['survives'];",
};

struct CotSurvives(SessionModels);

pub(super) fn cot_survives(session: &SessionModels) -> Result<Function> {
    Ok(Function::of_calls(DECLARATION, Judged::data_type()?, CotSurvives(session.clone())))
}

/// What is checked for a row.
struct SurvivalRow<'a> {
    chain: QuestionAndSteps<'a>,
    kept: Vec<usize>,
    expected: Expected<'a>,
}

fn row(row: Args) -> Cell<SurvivalRow> {
    let (chain, answer) = (row.chain(0, 1)?, row.text(3)?);
    let kept = row.indices(2, chain.steps.len())?;
    if answer.trim().is_empty() {
        return Err(NoValue::Null);
    }
    Ok(SurvivalRow { chain, kept, expected: Expected::of(answer) })
}

#[async_trait]
impl AsyncCall for CotSurvives {
    fn asking(&self) -> Asking<'_> {
        let of_scorer = Asks { continuations: true, ..Asks::default() };
        Asking { scorer: Some(&self.0), of_scorer, rows_in_flight: ROWS_IN_FLIGHT, ..Asking::default() }
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let scorer = self.0.models.scorer(rows.config())?;
        let read = rows.columns.read(row)?;
        let readings: Vec<_> = read.iter().flatten().map(|row| row.expected.reading(&row.chain, &row.kept)).collect();
        let mut found = check(&scorer, &readings, metrics).await?.into_iter();
        let judge = |row: &Option<SurvivalRow>| match (row, row.as_ref().and_then(|_| found.next())) {
            (Some(row), Some(Ok(survival))) => Ok(Some(row.expected.judge(&survival))),
            (Some(row), Some(Err(none))) => {
                lost(&self.0, DECLARATION.name, &none, row.chain.steps.iter().copied(), rows, metrics)
            }
            _ => Ok(None),
        };
        let judged = read.iter().map(judge).collect::<Result<Vec<_>>>()?;
        self.0.count_remembered(&rows.context);
        IntoArray::array(judged)
    }
}

/// An answer as far as the model may state it in a box.
#[derive(Debug, Clone)]
pub(super) struct Expected<'a> {
    text: Cow<'a, str>,
    /// A program is not stated in a box and not compared.
    is_program: bool,
}

impl<'a> Expected<'a> {
    pub(crate) fn of(answer: &'a str) -> Self {
        let Some(stated) = asap_verify::comparable(answer) else {
            return Self { text: Cow::Borrowed(answer), is_program: true };
        };
        // In a box, a formula has no marks.
        let formula = stated.strip_prefix('$').and_then(|rest| rest.strip_suffix('$'));
        match formula.map(|formula| formula.trim_matches('$').trim()).filter(|formula| !formula.contains('$')) {
            Some(formula) => Self { text: Cow::Owned(formula.to_string()), is_program: false },
            None => Self { text: stated, is_program: false },
        }
    }

    pub(crate) fn is_program(&self) -> bool {
        self.is_program
    }

    /// What the model reads after some steps of a chain; steps without text are left out.
    pub(crate) fn reading<'b>(&'b self, chain: &QuestionAndSteps<'b>, kept: &[usize]) -> Reading<'b> {
        let kept: Vec<usize> = kept.iter().copied().filter(|step| !chain.steps[*step].trim().is_empty()).collect();
        Reading::Survival { chain: chain.with_steps(&kept), answer: &self.text, states: !self.is_program }
    }

    pub(crate) fn judge(&self, survival: &Continued) -> Judged {
        let survives = survival.stated.as_ref().map(|stated| asap_verify::equal(&self.text, stated));
        Judged { log_probability: survival.log_probability, stated: survival.stated.clone(), survives }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub log_probability: f64,
    pub stated: Option<String>,
    pub survives: Option<bool>,
}

struct_output!(judged: Judged =>
    "log_probability": Some(judged.log_probability),
    "stated": judged.stated.as_deref(),
    "survives": judged.survives,
);

/// Checks answers, and adds the calls, cache hits and tokens to `metrics`. An inner `Err` says why a row has no result.
pub(super) async fn check(
    scorer: &Scorer,
    readings: &[Reading<'_>],
    metrics: &CallMetrics,
) -> Result<Vec<std::result::Result<Continued, Scored>>> {
    let prepared = scorer.prepare(readings, Wanted::AllTokens).map_err(failed)?;
    metrics.calls.add(prepared.calls());
    metrics.cache_hits.add(prepared.remembered());
    let found = scorer.score(prepared).await.map_err(failed)?.into_iter();
    Ok(found
        .map(|scored| match scored {
            Scored::Steps(scores) => scores.survival.clone().ok_or(Scored::NotFinite),
            none => Err(none),
        })
        .inspect(|found| {
            if let Ok(survival) = found {
                metrics.add_tokens(survival.tokens_read, survival.tokens_written);
            }
        })
        .collect())
}
