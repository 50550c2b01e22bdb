//! Tables of several evaluations: methods by benchmarks, and budgets by methods.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use serde::Serialize;

use super::bench::Bench;
use super::published::{Figures, File, PrintedRow, Published};
use super::row::Graded;
use super::summary::{AtBudget, is_correct, pairs, tokens};
use super::{Evaluation, left_out};
use crate::failure::Failure;
use crate::output::count;
use crate::statistics::{Estimate, Z, holm, mcnemar, mean, p_value};

/// A method on a benchmark at a budget: the mean over its evaluations, which are its seeds.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub method: String,
    pub bench: String,
    pub budget: i64,
    pub problems: usize,
    /// Responses that are missing. A problem without any is in no figure of any method.
    pub failed: usize,
    pub accuracy: Option<Estimate>,
    pub seeds: usize,
    /// The standard deviation of the accuracy over seeds. None for one seed.
    pub deviation: Option<f64>,
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
    pub accuracy: Option<Estimate>,
    /// McNemar's exact test of the accuracy; with several responses to a problem, by the bootstrap.
    pub p_value: f64,
    /// The p-value with Holm's correction for all cells of the table of methods by benchmarks. None for other cells.
    pub p_holm: Option<f64>,
    /// The ratio of the mean tokens, minus 1.
    pub tokens: Estimate,
    /// The ratio of the seconds, minus 1.
    pub seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tables {
    /// In the order in which they were named, as the benchmarks are.
    pub methods: Vec<String>,
    pub benches: Vec<String>,
    pub base: Option<String>,
    pub cells: Vec<Cell>,
    /// What the tables of methods by benchmarks and by budgets lack.
    pub missing: Vec<String>,
    /// Which problems are left out of all methods, in sentences.
    pub left_out: Vec<String>,
    /// Why the cells have no accuracy.
    pub no_accuracy: Option<String>,
    /// Printed values next to those of the cells.
    pub published: Option<Published>,
}

type Key = (String, i64);
/// Evaluations and their rows of one benchmark at one budget.
type Seeds<'a> = Vec<(&'a Evaluation, Vec<&'a Graded>)>;
/// The ids of problems, with their answers.
type Problems<'a> = BTreeSet<(&'a str, Option<&'a str>)>;

/// # Errors
/// If a method has an evaluation twice, or two methods have different problems.
pub(crate) fn tables(
    named: &[(String, Evaluation)],
    base: Option<&str>,
    no_accuracy: Option<&str>,
) -> Result<Tables, Failure> {
    let (mut methods, mut benches): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut found: BTreeMap<(usize, Key), Seeds> = BTreeMap::new();
    for (name, evaluation) in named {
        let method = methods.iter().position(|held| held == name).unwrap_or_else(|| {
            methods.push(name.clone());
            methods.len() - 1
        });
        let keys: BTreeSet<Key> = evaluation.rows.iter().map(|row| (row.bench.clone(), row.budget)).collect();
        for key in keys {
            if !benches.contains(&key.0) {
                benches.push(key.0.clone());
            }
            let rows = evaluation.rows.iter().filter(|row| row.bench == key.0 && row.budget == key.1).collect();
            let seeds = found.entry((method, key)).or_default();
            if seeds.iter().any(|(earlier, _)| earlier.location == evaluation.location) {
                return Err(Failure::Usage(format!("{name} has {} twice: name it once", evaluation.location)));
            }
            seeds.push((evaluation, rows));
        }
    }
    if let Some(base) = base.filter(|base| !methods.iter().any(|method| method == base)) {
        return Err(Failure::Usage(format!("--base {base} is not a method of --table: it has {}", methods.join(", "))));
    }
    same_problems(&found)?;
    let failed: Vec<usize> = found.values().map(missing_responses).collect();
    let left_out = one_denominator(&mut found);
    let base_index = base.and_then(|base| methods.iter().position(|method| method == base));
    let mut cells: Vec<Cell> = found.iter().map(|((method, key), held)| cell(&methods[*method], key, held)).collect();
    cells.iter_mut().zip(failed).for_each(|(cell, failed)| cell.failed = failed);
    let places: Vec<&(usize, Key)> = found.keys().collect();
    for (place, (seeds, (method, key))) in found.values().zip(&places).enumerate() {
        let Some(base) = base_index.filter(|base| base != method) else { continue };
        let Ok(of_base) = places.binary_search(&&(base, key.clone())) else { continue };
        let mut change = change(&found[places[of_base]], seeds);
        change.seconds =
            cells[of_base].seconds_per_problem.zip(cells[place].seconds_per_problem).map(|(a, b)| b / a - 1.0);
        cells[place].change = Some(change);
    }
    for cell in cells.iter_mut().filter(|_| no_accuracy.is_some()) {
        (cell.accuracy, cell.deviation) = (None, None);
        cell.change.iter_mut().for_each(|change| change.accuracy = None);
    }
    let place = |names: &[String], name: &str| names.iter().position(|held| held == name);
    cells.sort_by_key(|cell| (place(&methods, &cell.method), place(&benches, &cell.bench), cell.budget));
    let [base, no_accuracy] = [base, no_accuracy].map(|text| text.map(str::to_string));
    let missing = Vec::new();
    let mut tables = Tables { base, cells, missing, methods, benches, left_out, no_accuracy, published: None };
    tables.missing = tables.lacking();
    tables.correct();
    Ok(tables)
}

impl Tables {
    pub(super) fn put(&mut self, printed: File) {
        let row = |cell: &Cell| {
            let tokens = (cell.problems > 0).then_some(cell.tokens);
            let accuracy = cell.accuracy.map(|accuracy| accuracy.value);
            PrintedRow::new(
                &cell.method,
                &cell.bench,
                cell.budget,
                Figures { accuracy, tokens, seconds: cell.seconds_per_problem },
            )
        };
        self.published = Some(printed.printed_rows(self.cells.iter().map(row).collect()));
    }

    /// The budget of a benchmark in the table of methods by benchmarks: its default if a method has that, else the largest
    /// of those that most methods have.
    pub(super) fn main_budget(&self, bench: &str) -> Option<i64> {
        let of_bench = || self.cells.iter().filter(|cell| cell.bench == bench).map(|cell| cell.budget);
        let default = Bench::from_str(bench, false).map(|bench| i64::from(bench.budget()));
        of_bench()
            .max_by_key(|&budget| (default == Ok(budget), of_bench().filter(|held| *held == budget).count(), budget))
    }

    fn correct(&mut self) {
        let is_main = |cell: &Cell| cell.change.is_some() && self.main_budget(&cell.bench) == Some(cell.budget);
        let main: Vec<bool> = self.cells.iter().map(is_main).collect();
        let cells = self.cells.iter_mut().zip(main).filter(|(_, is_main)| *is_main);
        let changes: Vec<&mut Change> = cells.filter_map(|(cell, _)| cell.change.as_mut()).collect();
        let p_values: Vec<f64> = changes.iter().map(|change| change.p_value).collect();
        for (change, p_value) in changes.into_iter().zip(holm(&p_values)) {
            change.p_holm = Some(p_value);
        }
    }
}

/// A benchmark and its budget as a reader knows them.
pub(super) fn at(bench: &str, budget: i64) -> String {
    format!("{} at {}", title(bench), count(budget.unsigned_abs()))
}

pub(super) fn title(bench: &str) -> &str {
    Bench::from_str(bench, false).map_or(bench, |bench| bench.title())
}

/// Checks that all evaluations have the same ids, and that each method has the problems of a seed of the first. Seeds may
/// have different problems.
fn same_problems(found: &BTreeMap<(usize, Key), Seeds>) -> Result<(), Failure> {
    let mut first: BTreeMap<&Key, &Seeds> = BTreeMap::new();
    for ((_, key), seeds) in found {
        let held = *first.entry(key).or_insert(seeds);
        let ids = |rows: &[&'_ Graded]| rows.iter().map(|row| row.id.clone()).collect::<BTreeSet<_>>();
        let other = seeds.iter().find(|(_, rows)| ids(rows) != ids(&held[0].1));
        let shares_none = common(seeds, held).is_empty();
        if let Some((evaluation, _)) = other.or(seeds.first().filter(|_| shares_none)) {
            return Err(Failure::Usage(format!(
                "{} and {} have different problems of {}: evaluate both with the same files and --limit",
                held[0].0.location, evaluation.location, key.0
            )));
        }
    }
    Ok(())
}

fn missing_responses(seeds: &Seeds) -> usize {
    seeds.iter().flat_map(|(_, rows)| rows).filter(|row| row.correct.is_none()).count()
}

/// Leaves problems to which an evaluation has no response out of all evaluations at this budget. Returns sentences.
fn one_denominator(found: &mut BTreeMap<(usize, Key), Seeds>) -> Vec<String> {
    let keys: BTreeSet<Key> = found.keys().map(|(_, key)| key.clone()).collect();
    let of_key = keys.into_iter().filter_map(|key| {
        let seeds = found.iter_mut().filter(|((_, other), _)| *other == key);
        let mut rows: Vec<&mut Vec<&Graded>> = seeds.flat_map(|(_, seeds)| seeds).map(|(_, rows)| rows).collect();
        left_out::without_response(&key.0, key.1, &mut rows)
    });
    of_key.collect()
}

/// The rows of the seeds whose problems are those of a seed of `other`, with the rows of a problem next to each other.
fn common<'a>(of: &Seeds<'a>, other: &Seeds) -> Vec<&'a Graded> {
    fn problems<'a>(rows: &[&'a Graded]) -> Problems<'a> {
        rows.iter().map(|row| (row.id.as_str(), row.gold.as_deref())).collect()
    }
    let held: Vec<Problems> = other.iter().map(|(_, rows)| problems(rows)).collect();
    let shared = of.iter().filter(|(_, rows)| held.contains(&problems(rows)));
    let mut rows: Vec<&Graded> = shared.flat_map(|(_, rows)| rows).copied().collect();
    rows.sort_by_key(|row| &row.id);
    rows
}

fn cell(method: &str, key: &Key, seeds: &Seeds) -> Cell {
    let at = AtBudget::of(key.1, &common(seeds, seeds));
    let accuracies = seeds.iter().filter_map(|(_, rows)| AtBudget::of(key.1, rows).accuracy);
    let accuracies: Vec<f64> = accuracies.map(|accuracy| accuracy.value).collect();
    let seconds: Option<Vec<f64>> = seeds.iter().map(|(evaluation, _)| evaluation.seconds_per_problem).collect();
    Cell {
        method: method.to_string(),
        bench: key.0.clone(),
        budget: key.1,
        problems: at.problems,
        failed: 0,
        accuracy: at.accuracy,
        seeds: seeds.len(),
        deviation: (accuracies.len() > 1).then(|| deviation(&accuracies)),
        tokens: at.tokens,
        seconds_per_problem: seconds.map(|seconds| mean(&seconds)),
        concurrency: seeds.iter().filter_map(|(evaluation, _)| Some(evaluation.asking?.concurrency)).max(),
        change: None,
    }
}

fn change(base: &Seeds, of: &Seeds) -> Change {
    let rows = [common(base, of), common(of, base)];
    let differences: Vec<f64> = pairs(&rows[0], &rows[1], is_correct).iter().map(|(a, b)| b - a).collect();
    let reach = Z * error_of_mean(&differences);
    let value = mean(&differences);
    let accuracy = Some(Estimate { value, low: value - reach, high: value + reach });
    let are = |value: f64| differences.iter().filter(|difference| **difference == value).count() as u64;
    let is_single = rows.iter().all(|rows| rows.windows(2).all(|pair| pair[0].id != pair[1].id));
    let p_value = if is_single { mcnemar(are(1.0), are(-1.0)) } else { p_value(&differences) };
    Change { accuracy, p_value, p_holm: None, tokens: ratio(&pairs(&rows[0], &rows[1], tokens)), seconds: None }
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
    deviation(values) / (values.len() as f64).max(1.0).sqrt()
}

fn deviation(values: &[f64]) -> f64 {
    let (n, middle) = (values.len() as f64, mean(values));
    (values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt()
}
