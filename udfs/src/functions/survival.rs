//! The shared part of functions that check whether an answer survives.

use std::borrow::Cow;
use std::sync::Arc;

use asap_lm::{Asked, QuestionAndSteps, Reading, Scored, Scorer, Survival, Wanted};
use datafusion::arrow::array::{ArrayRef, BooleanArray, Float64Array, StringArray};
use datafusion::common::Result;

use crate::call_metrics::CallMetrics;
use crate::models::failed;

/// An answer as far as the model may state it in a box.
#[derive(Debug, Clone)]
pub(crate) struct Expected<'a> {
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

    /// What the model reads after these steps; steps without text are left out.
    pub(crate) fn reading<'b>(&'b self, question: Asked<'b>, steps: impl Iterator<Item = &'b str>) -> Reading<'b> {
        let steps = steps.filter(|step| !step.trim().is_empty()).collect();
        let chain = QuestionAndSteps { question, steps };
        Reading::Survival { chain, answer: &self.text, states: !self.is_program }
    }

    pub(crate) fn judge(&self, survival: &Survival) -> Judged {
        let survives = survival.stated.as_ref().map(|stated| asap_verify::equal(&self.text, stated));
        Judged { log_probability: survival.log_probability, stated: survival.stated.clone(), survives }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    pub log_probability: f64,
    pub stated: Option<String>,
    pub survives: Option<bool>,
}

impl Judged {
    pub(crate) fn columns(rows: &[Option<&Self>]) -> Vec<(&'static str, ArrayRef)> {
        let log_probability = rows.iter().map(|row| row.map(|row| row.log_probability));
        let stated = rows.iter().map(|row| row.and_then(|row| row.stated.as_deref()));
        let survives = rows.iter().map(|row| row.and_then(|row| row.survives));
        vec![
            ("log_probability", Arc::new(Float64Array::from_iter(log_probability))),
            ("stated", Arc::new(StringArray::from_iter(stated))),
            ("survives", Arc::new(BooleanArray::from_iter(survives))),
        ]
    }
}

/// Checks answers, and adds the calls, cache hits and tokens to `metrics`. An inner `Err` says why a row has no result.
pub(crate) async fn check(
    scorer: &Scorer,
    readings: &[Reading<'_>],
    metrics: &CallMetrics,
) -> Result<Vec<std::result::Result<Survival, Scored>>> {
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
