use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;

use super::by_score::{WHAT_IS_ASKED, lost};
use super::needs::SessionModels;
use super::survival::{Expected, Judged, check};
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::function::{AsyncCall, CallRows};
use crate::output::structs;

/// Rows that wait for the model at the same time. Each is its own piece, so that several calls for one row reach the
/// model together, and the rows of one question follow each other.
const ROWS_IN_FLIGHT: usize = 8;

pub(crate) struct CotSurvives {
    pub session: SessionModels,
}

impl CotSurvives {
    pub(crate) const DECLARATION: Declaration = Declaration {
        name: "cot_survives",
        about: "Whether the answer survives pruning: whether the scoring model (`asap.scorer.model`) still states it after reading only some steps of a chain. The model reads the question, the kept steps, `</think>` and `The final answer is \\boxed{`. The result is a struct of `log_probability`, `stated` and `survives`. `log_probability` is the mean ln P of the answer's tokens, at most 0. `stated` is the text that the model writes up to the closing brace, by greedy decoding, at most 64 tokens. `survives` is true if `stated` equals the answer by the rules of `cot_verify`. The answer is the text that `cot_answer` finds in the argument `answer`, or else the whole argument if it is one line. Any other argument is a program, and so is an argument with a fenced block of code and no `\\boxed`. For a program, the model reads only `</think>` after the steps, `log_probability` covers the whole argument, and `stated` and `survives` are NULL. Kept steps are joined by a blank line. Empty steps are left out. If consecutive rows have the same question, the model reads the shared beginning of their texts only once. An empty answer, and a number in `kept` that no step has, give NULL. A chain longer than the model's window gives NULL.",
        arguments: &[
            WHAT_IS_ASKED,
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
            Argument::new("kept", Arg::IntList, "The numbers of the steps that the model reads, from 1."),
            Argument::new("answer", Arg::Text, "The answer, or a response that states it as `cot_answer` finds it."),
        ],
        example: "select cot_survives('2 + 2?', ['Hm.', '2 + 2 is 4.', 'Done.'], [2], '4')['survives'];",
    };

    pub(crate) fn data_type() -> Result<DataType> {
        Ok(structs(Judged::columns(&[]), None)?.data_type().clone())
    }
}

/// What is checked for a row.
struct Row<'a> {
    question: asap_lm::Asked<'a>,
    kept: Vec<&'a str>,
    expected: Expected<'a>,
}

fn row(row: Args) -> Cell<Row> {
    let (question, steps, answer) = (row.asked(0)?, row.texts(1)?, row.text(3)?);
    let kept = row.indices(2, steps.len())?.into_iter().map(|step| steps[step]).collect();
    if answer.trim().is_empty() {
        return Err(NoValue::Null);
    }
    Ok(Row { question, kept, expected: Expected::of(answer) })
}

#[async_trait]
impl AsyncCall for CotSurvives {
    fn scorer_of(&self) -> Option<&SessionModels> {
        Some(&self.session)
    }

    fn window(&self, _: &ConfigOptions) -> usize {
        ROWS_IN_FLIGHT
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let scorer = self.session.models.scorer(rows.config())?;
        let read = rows.columns.read(row)?;
        let readings: Vec<_> =
            read.iter().flatten().map(|row| row.expected.reading(row.question, row.kept.iter().copied())).collect();
        let mut found = check(&scorer, &readings, metrics).await?.into_iter();
        let judge = |row: &Option<Row>| match (row, row.as_ref().and_then(|_| found.next())) {
            (Some(row), Some(Ok(survival))) => Ok(Some(row.expected.judge(&survival))),
            (_, Some(Err(none))) => lost(Self::DECLARATION.name, &none, rows, metrics),
            _ => Ok(None),
        };
        let judged = read.iter().map(judge).collect::<Result<Vec<_>>>()?;
        self.session.count_remembered(&rows.context);
        let valid = judged.iter().map(Option::is_some).collect();
        structs(Judged::columns(&judged.iter().map(Option::as_ref).collect::<Vec<_>>()), Some(valid))
    }
}
