//! Tables of several evaluations: methods by benchmarks, and budgets by methods.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Evaluation;
use super::row::Row;
use super::summary::{AtBudget, by_problem, is_correct, tokens};
use crate::failure::Failure;
use crate::output::count;
use crate::statistics::{Estimate, mean};

/// The quantile of the normal distribution for a two-sided 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// A method on a benchmark at a budget.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub method: String,
    pub bench: String,
    pub budget: i64,
    pub problems: usize,
    /// Problems without a response. They are in no other figure.
    pub failed: usize,
    pub accuracy: Option<Estimate>,
    /// The mean tokens of a response.
    pub tokens: f64,
    /// Wall-clock seconds of the requests by the number of problems. None for an evaluation of several budgets.
    pub seconds_per_problem: Option<f64>,
    /// The most requests in flight.
    pub concurrency: Option<u32>,
    /// None without a base, and for the base itself.
    pub change: Option<Change>,
}

/// The change to the base, over the problems that both have.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    /// The difference in accuracy, as a share.
    pub accuracy: Estimate,
    /// The ratio of the mean tokens, minus 1.
    pub tokens: Estimate,
    /// The ratio of the seconds, minus 1.
    pub seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tables {
    /// In the order in which they were named.
    pub methods: Vec<String>,
    pub base: Option<String>,
    pub cells: Vec<Cell>,
    /// Methods that lack a benchmark or a budget that another method has.
    pub missing: Vec<String>,
}

type Key = (String, i64);
/// An evaluation and its rows of one benchmark at one budget.
type Answered<'a> = (&'a Evaluation, Vec<&'a Row>);
/// The ids of problems, with their answers.
type Problems<'a> = BTreeSet<(&'a str, Option<&'a str>)>;

/// # Errors
/// If two evaluations of a method have the same benchmark and budget, or two methods have different problems.
pub(crate) fn tables(named: &[(String, Evaluation)], base: Option<&str>) -> Result<Tables, Failure> {
    let mut methods: Vec<String> = Vec::new();
    let mut found: BTreeMap<(usize, Key), Answered> = BTreeMap::new();
    for (name, evaluation) in named {
        let method = methods.iter().position(|held| held == name).unwrap_or_else(|| {
            methods.push(name.clone());
            methods.len() - 1
        });
        let keys: BTreeSet<Key> = evaluation.rows.iter().map(|row| (row.bench.clone(), row.budget)).collect();
        for key in keys {
            let rows = evaluation.rows.iter().filter(|row| row.bench == key.0 && row.budget == key.1).collect();
            if let Some((earlier, _)) = found.insert((method, key.clone()), (evaluation, rows)) {
                return Err(Failure::Usage(format!(
                    "{name} has {} at {} tokens twice, in {} and {}: name one of them",
                    key.0,
                    count(key.1.unsigned_abs()),
                    earlier.location,
                    evaluation.location
                )));
            }
        }
    }
    if let Some(base) = base.filter(|base| !methods.iter().any(|method| method == base)) {
        return Err(Failure::Usage(format!("--base {base} is not a method of --table: it has {}", methods.join(", "))));
    }
    same_problems(&found)?;
    let base_index = base.and_then(|base| methods.iter().position(|method| method == base));
    let mut cells: Vec<Cell> = found.iter().map(|((method, key), held)| cell(&methods[*method], key, held)).collect();
    let changes: Vec<Option<Change>> = found
        .iter()
        .map(|((method, key), held)| {
            let base = base_index.filter(|base| base != method)?;
            Some(change(found.get(&(base, key.clone()))?, held))
        })
        .collect();
    for (cell, change) in cells.iter_mut().zip(changes) {
        cell.change = change;
    }
    let keys: BTreeSet<&Key> = found.keys().map(|(_, key)| key).collect();
    let lacks = |method: usize, key: &Key| !found.contains_key(&(method, key.clone()));
    let missing = methods.iter().enumerate().flat_map(|(index, method)| {
        let lacking = keys.iter().filter(move |key| lacks(index, key));
        lacking.map(move |(bench, budget)| format!("{method} on {bench} at {}", count(budget.unsigned_abs())))
    });
    let missing = missing.collect();
    Ok(Tables { base: base.map(str::to_string), cells, missing, methods })
}

fn same_problems(found: &BTreeMap<(usize, Key), Answered>) -> Result<(), Failure> {
    let mut first: BTreeMap<&Key, (&str, Problems)> = BTreeMap::new();
    for ((_, key), (evaluation, rows)) in found {
        let problems: Problems = rows.iter().map(|row| (row.id.as_str(), row.gold.as_deref())).collect();
        let (location, held) = first.entry(key).or_insert_with(|| (&evaluation.location, problems.clone()));
        if *held != problems {
            return Err(Failure::Usage(format!(
                "{location} and {} have different problems of {}: evaluate both with the same files and --limit",
                evaluation.location, key.0
            )));
        }
    }
    Ok(())
}

fn cell(method: &str, key: &Key, (evaluation, rows): &Answered) -> Cell {
    let at = AtBudget::of(key.1, rows);
    Cell {
        method: method.to_string(),
        bench: key.0.clone(),
        budget: key.1,
        problems: at.problems,
        failed: at.failed,
        accuracy: at.accuracy,
        tokens: at.tokens,
        seconds_per_problem: evaluation.seconds_per_problem(),
        concurrency: evaluation.asking.map(|asking| asking.concurrency),
        change: None,
    }
}

fn change(base: &Answered, of: &Answered) -> Change {
    let pairs = |value: fn(&Row) -> Option<f64>| {
        let [base, of] = [&base.1, &of.1].map(|rows| by_problem(rows, value).into_iter().collect::<BTreeMap<_, _>>());
        base.iter().filter_map(|(id, a)| Some((*a, *of.get(id)?))).collect::<Vec<(f64, f64)>>()
    };
    let differences: Vec<f64> = pairs(is_correct).iter().map(|(a, b)| b - a).collect();
    let reach = Z * error_of_mean(&differences);
    let value = mean(&differences);
    let accuracy = Estimate { value, low: value - reach, high: value + reach };
    let seconds = base.0.seconds_per_problem().zip(of.0.seconds_per_problem()).map(|(a, b)| b / a - 1.0);
    Change { accuracy, tokens: ratio(&pairs(tokens)), seconds }
}

/// The ratio of the means of pairs, minus 1, with the interval of its linearization (Cochran 1977, section 6.3).
fn ratio(pairs: &[(f64, f64)]) -> Estimate {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (base, ratio) = (mean(&a), mean(&b) / mean(&a));
    let residuals: Vec<f64> = pairs.iter().map(|(a, b)| b - ratio * a).collect();
    let reach = Z * error_of_mean(&residuals) / base;
    Estimate { value: ratio - 1.0, low: ratio - 1.0 - reach, high: ratio - 1.0 + reach }
}

fn error_of_mean(values: &[f64]) -> f64 {
    let (n, middle) = (values.len() as f64, mean(values));
    (values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (n - 1.0).max(1.0) / n.max(1.0)).sqrt()
}
