//! The figures of an evaluation.

use std::collections::BTreeMap;

use asap_kernels::health;
use serde::Serialize;

use super::row::Graded;
use crate::output::{count, table};
use crate::statistics::{Estimate, mean, quantile, share};

/// The figures of one budget.
#[derive(Debug, Serialize)]
pub(crate) struct AtBudget {
    pub budget: i64,
    pub problems: usize,
    pub responses: usize,
    /// Responses that are correct, as a share.
    pub accuracy: Option<Estimate>,
    /// The mean number of tokens of a response.
    pub tokens: f64,
    /// Responses that were cut off at the budget.
    pub truncated: usize,
    /// Responses without an answer or a program.
    pub unanswered: usize,
    /// Calls that failed. They are in no other figure.
    pub failed: usize,
    /// The time of a request: its median, and the time that 95 % of the requests do not exceed.
    pub request_seconds: f64,
    pub request_seconds_p95: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub bench: String,
    pub model: String,
    pub to: String,
    pub temperature: f64,
    pub samples: u32,
    pub concurrency: u32,
    /// Wall-clock seconds of all requests by the number of problems, over all commands of this evaluation. None for
    /// several budgets.
    pub seconds_per_problem: Option<f64>,
    /// Problems whose reference program fails its tests. The model was not asked them.
    pub left_out: Vec<String>,
    pub budgets: Vec<AtBudget>,
}

/// The mean correctness of each problem at one budget, in the order of the rows. Rows whose call failed do not count.
fn by_problem<'a>(rows: &[&'a Graded], value: impl Fn(&Graded) -> Option<f64>) -> Vec<(&'a str, f64)> {
    let mut found: Vec<(&str, Vec<f64>)> = Vec::new();
    for row in rows {
        let Some(value) = value(row) else { continue };
        match found.last_mut().filter(|(id, _)| *id == row.id) {
            Some((_, values)) => values.push(value),
            None => found.push((&row.id, vec![value])),
        }
    }
    found.into_iter().map(|(id, values)| (id, mean(&values))).collect()
}

/// The values of both at each problem that both have, in the order of the ids.
pub(crate) fn pairs(a: &[&Graded], b: &[&Graded], value: fn(&Graded) -> Option<f64>) -> Vec<(f64, f64)> {
    let [a, b] = [a, b].map(|rows| by_problem(rows, value).into_iter().collect::<BTreeMap<_, _>>());
    a.iter().filter_map(|(id, a)| Some((*a, *b.get(id)?))).collect()
}

pub(crate) fn is_correct(row: &Graded) -> Option<f64> {
    row.correct.map(|correct| f64::from(u8::from(correct)))
}

pub(crate) fn tokens(row: &Graded) -> Option<f64> {
    row.tokens.map(|tokens| tokens as f64)
}

impl AtBudget {
    /// The rows of a problem follow each other.
    pub(crate) fn of(budget: i64, rows: &[&Graded]) -> Self {
        let answered: Vec<&Graded> = rows.iter().copied().filter(|row| row.correct.is_some()).collect();
        let (correct, tokens) = (by_problem(&answered, is_correct), by_problem(&answered, tokens));
        let values = |found: &[(&str, f64)]| found.iter().map(|(_, value)| *value).collect::<Vec<_>>();
        let with = |test: &dyn Fn(&Graded) -> bool| answered.iter().filter(|row| test(row)).count();
        let mut seconds: Vec<f64> = answered.iter().filter_map(|row| row.seconds).collect();
        Self {
            budget,
            problems: correct.len(),
            responses: answered.len(),
            accuracy: (!correct.is_empty()).then(|| share(&values(&correct), answered.len())),
            tokens: mean(&values(&tokens)),
            truncated: with(&|row| row.finish_reason.as_deref().and_then(health::is_cut_off) == Some(true)),
            unanswered: with(&|row| row.answer.is_none()),
            failed: rows.len() - answered.len(),
            request_seconds: quantile(&mut seconds, 0.5),
            request_seconds_p95: quantile(&mut seconds, 0.95),
        }
    }
}

impl Summary {
    pub(crate) fn table(&self) -> String {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let rows = self.budgets.iter().map(|at| {
            let (accuracy, interval) = match at.accuracy {
                Some(Estimate { value, low, high }) => {
                    (format!("{} %", percent(value)), format!("{}–{} %", percent(low), percent(high)))
                }
                None => ("-".to_string(), "-".to_string()),
            };
            [
                count(at.budget.unsigned_abs()),
                count(at.problems as u64),
                accuracy,
                interval,
                format!("{:.0}", at.tokens),
                count(at.truncated as u64),
                count(at.unanswered as u64),
                format!("{:.1}", at.request_seconds),
                format!("{:.1}", at.request_seconds_p95),
            ]
        });
        let header =
            "budget | problems | accuracy | 95 % interval | tokens | truncated | unanswered | median s | p95 s"
                .split(" | ");
        let Self { bench, model, to, samples, temperature, concurrency, seconds_per_problem, .. } = self;
        let mut lines = vec![format!("{bench}, {model} -> {to}\n"), table(header, rows), String::new()];
        let responses = match samples {
            1 => "one response to each problem".to_string(),
            samples => format!("{samples} responses to each problem"),
        };
        let sampled = if *temperature == 0.0 { "greedy".to_string() } else { format!("temperature {temperature}") };
        let time = seconds_per_problem.map_or(String::new(), |seconds| {
            format!("; {seconds:.2} s of wall clock for a problem, with at most {concurrency} requests in flight")
        });
        lines.push(format!("{responses}, {sampled}{time}"));
        if !self.left_out.is_empty() {
            let left_out = self.left_out.join(", ");
            lines.push(format!(
                "left out, because their reference programs fail their tests on this machine: {left_out}"
            ));
        }
        lines.join("\n")
    }
}
