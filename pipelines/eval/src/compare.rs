//! Compares two evaluations of the same problems.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde::Serialize;

use super::row::Graded;
use super::summary::{is_correct, pairs, tokens};
use crate::failure::Failure;
use crate::output::{count, table};
use crate::statistics::{Estimate, SIGNIFICANT, mcnemar, mean, p_value, paired};

/// B compared with A at one budget, over the problems that both have.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub budget: i64,
    pub problems: usize,
    pub accuracy_a: f64,
    pub accuracy_b: f64,
    /// The accuracy of B minus that of A.
    pub accuracy: Estimate,
    /// Problems that only A solves, and only B. None with several responses to a problem.
    pub only_a: Option<u64>,
    pub only_b: Option<u64>,
    /// McNemar's exact test. With several responses, the share of bootstrap resamples on the rarer side of 0, twice.
    pub p_value: f64,
    pub tokens_a: f64,
    pub tokens_b: f64,
    /// The tokens of B minus those of A.
    pub tokens: Estimate,
    /// Problems without a response in one of the two. They are left out.
    pub failed: usize,
    pub verdict: String,
}

/// # Errors
/// If the two evaluations differ in bench, problems or budgets.
pub(crate) fn compare(a: &[Graded], b: &[Graded]) -> Result<Vec<Compared>, Failure> {
    same("benches", a, b, |row| row.bench.clone())?;
    same("budgets", a, b, |row| row.budget)?;
    same("problems", a, b, |row| match &row.gold {
        Some(gold) => format!("{} with the answer {gold}", row.id),
        None => row.id.clone(),
    })?;
    let budgets: BTreeSet<i64> = a.iter().map(|row| row.budget).collect();
    Ok(budgets.into_iter().map(|budget| at_budget(budget, a, b)).collect())
}

fn same<T: Ord + Display>(what: &str, a: &[Graded], b: &[Graded], of: impl Fn(&Graded) -> T) -> Result<(), Failure> {
    let [of_a, of_b] = [a, b].map(|rows| rows.iter().map(&of).collect::<BTreeSet<T>>());
    if of_a == of_b {
        return Ok(());
    }
    let only = [("A", of_a.difference(&of_b)), ("B", of_b.difference(&of_a))].map(|(name, mut only)| {
        let first = only.next()?;
        Some(format!("{} only in {name}, such as {first}", 1 + only.count()))
    });
    let only = only.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let what = format!("the two evaluations have different {what}: {only}");
    Err(Failure::Usage(format!("{what}. Evaluate both with the same files and flags")))
}

fn at_budget(budget: i64, a: &[Graded], b: &[Graded]) -> Compared {
    let [a, b] = [a, b].map(|rows| rows.iter().filter(|row| row.budget == budget).collect::<Vec<_>>());
    let (correct, tokens) = (pairs(&a, &b, is_correct), pairs(&a, &b, tokens));
    let means = |pairs: &[(f64, f64)]| {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        (mean(&a), mean(&b))
    };
    let differences = |pairs: &[(f64, f64)]| pairs.iter().map(|(a, b)| b - a).collect::<Vec<_>>();
    let more = |test: fn(&(f64, f64)) -> bool| correct.iter().filter(|pair| test(pair)).count() as u64;
    let is_single = a.iter().chain(&b).all(|row| row.sample == 0);
    let (only_a, only_b) = (more(|(a, b)| a > b), more(|(a, b)| b > a));
    let p_value = if is_single { mcnemar(only_a, only_b) } else { p_value(&differences(&correct)) };
    let ((accuracy_a, accuracy_b), (tokens_a, tokens_b)) = (means(&correct), means(&tokens));
    let problems: BTreeSet<&str> = a.iter().map(|row| row.id.as_str()).collect();
    let mut compared = Compared {
        budget,
        problems: correct.len(),
        accuracy_a,
        accuracy_b,
        accuracy: paired(&differences(&correct)),
        only_a: is_single.then_some(only_a),
        only_b: is_single.then_some(only_b),
        p_value,
        tokens_a,
        tokens_b,
        tokens: paired(&differences(&tokens)),
        failed: problems.len() - correct.len(),
        verdict: String::new(),
    };
    compared.verdict = compared.sentence();
    compared
}

impl Compared {
    fn sentence(&self) -> String {
        let Self { budget, problems, accuracy, tokens, p_value, .. } = self;
        let (points, p) = (100.0 * accuracy.value, named(*p_value));
        let accurate = match *p_value < SIGNIFICANT {
            true if points > 0.0 => format!("B is more accurate than A by {points:.1} points ({p})"),
            true => format!("B is less accurate than A by {:.1} points ({p})", -points),
            false => format!("no difference in accuracy is shown ({points:+.1} points, {p})"),
        };
        let shorter = match tokens.excludes_zero() {
            true if tokens.value < 0.0 => format!("B uses {:.0} fewer tokens for a problem", -tokens.value),
            true => format!("B uses {:.0} more tokens for a problem", tokens.value),
            false => "no difference in tokens is shown".to_string(),
        };
        format!("At {} tokens, on {problems} problems, {accurate}, and {shorter}.", count(budget.unsigned_abs()))
    }
}

fn shown(p_value: f64) -> String {
    if p_value < 0.001 { "<0.001".to_string() } else { format!("{p_value:.3}") }
}

fn named(p_value: f64) -> String {
    if p_value < 0.001 { "p < 0.001".to_string() } else { format!("p = {p_value:.3}") }
}

/// `left_out` are sentences, and `seconds` the wall-clock seconds for a problem, of A and of B.
pub(crate) fn tables(compared: &[Compared], left_out: &[String], seconds: [Option<f64>; 2]) -> String {
    let rows = compared.iter().map(|at| {
        [
            count(at.budget.unsigned_abs()),
            count(at.problems as u64),
            format!("{:.1} %", 100.0 * at.accuracy_a),
            format!("{:.1} %", 100.0 * at.accuracy_b),
            at.accuracy.signed(100.0, 1),
            at.only_a.map_or("-".to_string(), count),
            at.only_b.map_or("-".to_string(), count),
            shown(at.p_value),
            format!("{:.0}", at.tokens_a),
            format!("{:.0}", at.tokens_b),
            at.tokens.signed(1.0, 0),
        ]
    });
    let header =
        "budget | problems | A | B | B − A, points | only A | only B | p | tokens A | tokens B | B − A, tokens"
            .split(" | ");
    let mut lines = vec![table(header, rows), String::new()];
    for at in compared {
        lines.push(at.verdict.clone());
        if at.failed > 0 {
            lines.push(format!("{} problems lack a response in A or B and are left out.", at.failed));
        }
    }
    lines.extend(left_out.iter().cloned());
    if let [Some(a), Some(b)] = seconds {
        lines.push(format!("Wall clock for a problem: {a:.2} s in A, {b:.2} s in B."));
    }
    lines.join("\n")
}
