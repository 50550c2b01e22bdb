//! What an experiment shows: each arm next to random steps and a random block.

use serde::{Deserialize, Serialize};

use super::arms::{Arm, BLOCK, RANDOM};
use super::preset::Preset;
use crate::statistics::{Estimate, against_controls, grouped, grouped_p_value, holm, mean};

/// The base model of a seed.
#[derive(Debug, Serialize)]
pub(super) struct Base {
    pub seed: u64,
    pub parameters: u64,
    /// The tokens of its training.
    pub trained_tokens: u64,
    /// The share of the held-out problems that it solves.
    pub accuracy: f64,
}

/// A response to a held-out problem.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub id: String,
    pub budget: u64,
    pub correct: Option<bool>,
    pub tokens: Option<u64>,
    pub finish_reason: Option<String>,
}

/// An arm of one seed.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub seed: u64,
    /// The largest budget, which leaves room for the longest chain.
    pub budget: u64,
    /// None if the arm trains no model.
    pub examples: Option<u64>,
    /// The share of the tokens of a chain that it trained on.
    pub kept: Option<f64>,
    /// Empty if there is no example to train on.
    pub rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub arm: String,
    pub role: &'static str,
    /// Examples of each seed, on average.
    pub examples: Option<f64>,
    pub kept: Option<f64>,
    /// None if no seed had an example to train on.
    pub accuracy: Option<Estimate>,
    /// The mean tokens of a response.
    pub tokens: Option<f64>,
    /// The share of the responses that were cut off at the budget.
    pub cut_off: Option<f64>,
    /// The accuracy minus that of the controls, as a share.
    pub over_random: Option<Estimate>,
    pub over_block: Option<Estimate>,
    /// The tokens of a response minus those of random steps.
    pub tokens_over_random: Option<Estimate>,
    /// Of the accuracy, adjusted for the number of comparisons by Holm's method.
    pub p_random: Option<f64>,
    pub p_block: Option<f64>,
    /// The accuracy at a quarter, at half and at all of the budget.
    pub at_budgets: Vec<f64>,
    pub verdict: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub preset: Preset,
    pub share: f64,
    pub bases: Vec<Base>,
    pub lines: Vec<Line>,
    #[serde(skip)]
    found: Vec<(Arm, Vec<Found>)>,
}

impl Report {
    pub(super) fn new(preset: Preset, share: f64) -> Self {
        Self { preset, share, bases: vec![], lines: vec![], found: vec![] }
    }

    pub(super) fn add_base(&mut self, base: Base) {
        self.bases.push(base);
    }

    pub(super) fn add(&mut self, arm: &Arm, found: Found) {
        match self.found.iter_mut().find(|(other, _)| other == arm) {
            Some((_, seeds)) => seeds.push(found),
            None => self.found.push((arm.clone(), vec![found])),
        }
    }

    pub(super) fn finish(mut self) -> Self {
        let of = |name: &str| self.found.iter().find(|(arm, _)| arm.name() == name).map(|(_, seeds)| seeds.as_slice());
        let controls = [RANDOM, BLOCK].map(|name| of(name).unwrap_or_default());
        self.lines = self.found.iter().map(|(arm, seeds)| line(arm, seeds, controls)).collect();
        self.judge(controls_p(&self.found, controls));
        self
    }

    /// Adds the p-values, adjusted over all comparisons, and the verdicts.
    fn judge(&mut self, p_values: Vec<(usize, [f64; 2])>) {
        let flat: Vec<f64> = p_values.iter().flat_map(|(_, pair)| *pair).collect();
        for ((place, _), adjusted) in p_values.iter().zip(holm(&flat).chunks(2)) {
            let line = &mut self.lines[*place];
            (line.p_random, line.p_block) = (Some(adjusted[0]), Some(adjusted[1]));
            line.verdict = against_controls([line.over_random, line.over_block], adjusted);
        }
    }
}

/// The p-values of each compared arm, by its place.
fn controls_p(found: &[(Arm, Vec<Found>)], controls: [&[Found]; 2]) -> Vec<(usize, [f64; 2])> {
    let compared = found.iter().enumerate().filter(|(_, (arm, _))| !arm.is_control());
    compared
        .filter_map(|(place, (_, seeds))| {
            let [random, block] = controls.map(|control| differences(seeds, control, accuracy));
            let is_compared = !random.is_empty() && !block.is_empty();
            is_compared.then(|| (place, [grouped_p_value(&random), grouped_p_value(&block)]))
        })
        .collect()
}

fn line(arm: &Arm, seeds: &[Found], controls: [&[Found]; 2]) -> Line {
    let of_seeds = |value: &dyn Fn(&Found) -> Option<f64>| {
        let found: Vec<f64> = seeds.iter().filter_map(value).collect();
        (!found.is_empty()).then(|| mean(&found))
    };
    let over = |control: &[Found], value: Value| {
        let found = differences(seeds, control, value);
        (!found.is_empty() && !arm.is_control()).then(|| grouped(&found))
    };
    let [random, block] = controls;
    let of_rows = |value: Value, part: f64| values(seeds, value, part);
    let means = |value: Value| {
        let all = of_rows(value, 1.0).concat();
        (!all.is_empty()).then(|| mean(&all))
    };
    let correct = of_rows(accuracy, 1.0);
    let is_trained = !correct.is_empty();
    Line {
        arm: arm.name(),
        role: arm.role(),
        examples: of_seeds(&|found| Some(found.examples? as f64)),
        kept: of_seeds(&|found| found.kept),
        accuracy: is_trained.then(|| grouped(&correct)),
        tokens: means(tokens),
        cut_off: means(cut_off),
        over_random: over(random, accuracy),
        over_block: over(block, accuracy),
        tokens_over_random: over(random, tokens),
        p_random: None,
        p_block: None,
        at_budgets: [0.25, 0.5, 1.0].map(|part| mean(&of_rows(accuracy, part).concat())).to_vec(),
        verdict: match (is_trained, arm.is_control()) {
            (false, _) => "no example to train on".to_string(),
            (true, true) => "control".to_string(),
            (true, false) => "not compared".to_string(),
        },
    }
}

type Value = fn(&Row) -> Option<f64>;

fn accuracy(row: &Row) -> Option<f64> {
    row.correct.map(|correct| f64::from(u8::from(correct)))
}

fn tokens(row: &Row) -> Option<f64> {
    row.tokens.map(|tokens| tokens as f64)
}

fn cut_off(row: &Row) -> Option<f64> {
    Some(f64::from(u8::from(row.finish_reason.as_deref() == Some("length"))))
}

/// The rows of one seed at a part of the largest budget.
fn at(found: &Found, part: f64) -> impl Iterator<Item = &Row> {
    let budget = (found.budget as f64 * part).ceil() as u64;
    found.rows.iter().filter(move |row| row.budget == budget)
}

/// The values of each seed that has any.
fn values(seeds: &[Found], value: Value, part: f64) -> Vec<Vec<f64>> {
    let of_seed = |found: &Found| at(found, part).filter_map(value).collect::<Vec<_>>();
    seeds.iter().map(of_seed).filter(|values| !values.is_empty()).collect()
}

/// The differences of two arms on the problems of each seed that has both.
fn differences(seeds: &[Found], control: &[Found], value: Value) -> Vec<Vec<f64>> {
    let of_seed = |found: &Found| {
        let other = control.iter().find(|other| other.seed == found.seed);
        let other: Vec<(&str, f64)> = other
            .into_iter()
            .flat_map(|other| at(other, 1.0))
            .filter_map(|row| Some((&*row.id, value(row)?)))
            .collect();
        let difference = |row: &Row| {
            let (_, of_control) = other.iter().find(|(id, _)| *id == row.id)?;
            Some(value(row)? - of_control)
        };
        at(found, 1.0).filter_map(difference).collect::<Vec<_>>()
    };
    seeds.iter().map(of_seed).filter(|values| !values.is_empty()).collect()
}
