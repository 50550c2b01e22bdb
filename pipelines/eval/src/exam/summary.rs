//! What an exam shows: each pipeline next to random steps and a random block of the same chains.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::rows::{ExamRow, Examined};
use asap_pipelines::builtin::{BLOCK, ORIGINAL, RANDOM};

use crate::output::{count, several, table};
use crate::statistics::{Estimate, against_controls, holm, mean, p_value, paired};

/// A pipeline at a share of the tokens, with or without sentences that restate the answer.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub pipeline: String,
    pub share: f64,
    /// Whether sentences that state the answer were removed before the model read the chain.
    pub unstated: bool,
    pub questions: usize,
    /// The mean share of the tokens that stays.
    pub kept: f64,
    /// The share of the questions whose answer survives. None if it survives in no original chain.
    pub survives: Option<f64>,
    pub log_probability: f64,
    /// The mean log-probability minus that of the controls, in nats per token.
    pub over_random: Option<Estimate>,
    pub over_block: Option<Estimate>,
    /// The survival minus that of the controls, as a share.
    pub survives_over_random: Option<Estimate>,
    pub survives_over_block: Option<Estimate>,
    /// Adjusted for the number of comparisons by Holm's method: of the log-probability.
    pub p_random: Option<f64>,
    pub p_block: Option<f64>,
    pub verdict: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub to: String,
    pub questions: usize,
    /// Questions whose answer does not survive in the original chain. They do not count for survival.
    pub lost_in_original: usize,
    /// Questions without an answer that can be compared, such as programs. They do not count for survival, either.
    pub not_compared: usize,
    pub lines: Vec<Line>,
}

/// The values of one pipeline, share and round: means over draws, by question.
#[derive(Debug, Default, Clone)]
struct Values {
    log_probability: BTreeMap<i64, Vec<f64>>,
    survives: BTreeMap<i64, Vec<f64>>,
    kept: Vec<f64>,
}

type Key = (String, u64, bool);

impl Summary {
    pub(super) fn of(rows: &[ExamRow], to: &str, pipelines: &[String]) -> Self {
        let original: HashMap<i64, &Examined> =
            rows.iter().filter(|row| row.pipeline == ORIGINAL).map(|row| (row.place, &row.examined)).collect();
        let holds = |place: i64, unstated: bool| {
            original.get(&place).and_then(|found| if unstated { found.unstated_survives } else { found.survives })
        };
        let mut values: BTreeMap<Key, Values> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.pipeline != ORIGINAL) {
            for unstated in [false, true] {
                let found = values.entry((row.pipeline.clone(), row.share.to_bits(), unstated)).or_default();
                found.add(row, unstated, holds(row.place, unstated) == Some(true));
            }
        }
        let found = |survives| original.values().filter(|found| found.survives == survives).count();
        let (lost, not_compared) = (found(Some(false)), found(None));
        let mut lines = lines(&values, pipelines);
        judge(&mut lines, &values);
        Self { to: to.to_string(), questions: original.len(), lost_in_original: lost, not_compared, lines }
    }

    pub(super) fn table(&self) -> String {
        let mut text = vec![format!("{} -> {}", several(self.questions as u64, "question"), self.to)];
        if self.lost_in_original > 0 {
            text.push(format!(
                "{} of them do not count for survival, since the model does not state their answer after the original chain",
                count(self.lost_in_original as u64)
            ));
        }
        if self.not_compared > 0 {
            text.push(format!(
                "{} have no answer that can be compared, such as a program, and do not count for survival either",
                count(self.not_compared as u64)
            ));
        }
        for unstated in [false, true] {
            let title = if unstated { "chains without sentences that state the answer" } else { "chains as they are" };
            text.push(format!(
                "\n{title}: log-probability of the answer in nats, survival in points, with 95 % intervals\n"
            ));
            let signed = |found: Option<Estimate>, scale: f64, digits: usize| {
                found.map_or("-".to_string(), |found| found.signed(scale, digits))
            };
            let rows = self.lines.iter().filter(|line| line.unstated == unstated).map(|line| {
                [
                    format!("{} %", 100.0 * line.share),
                    line.pipeline.clone(),
                    format!("{:.1} %", 100.0 * line.kept),
                    line.survives.map_or("-".to_string(), |survives| format!("{:.0} %", 100.0 * survives)),
                    format!("{:.2}", line.log_probability),
                    signed(line.over_random, 1.0, 2),
                    signed(line.over_block, 1.0, 2),
                    signed(line.survives_over_block, 100.0, 0),
                    line.verdict.clone(),
                ]
            });
            let header = "share | pipeline | tokens kept | survives | log P | log P − random steps | log P − random block | survival − random block | verdict".split(" | ");
            text.push(table(header, rows));
        }
        text.push("\nverdict: whether log P differs from that of both controls, at a level of 5 % over all comparisons (Holm)".to_string());
        text.join("\n")
    }
}

impl Values {
    fn add(&mut self, row: &ExamRow, unstated: bool, survives_in_original: bool) {
        let Examined { tokens, original_tokens, .. } = row.examined;
        let (log_probability, survives) = match unstated {
            false => (row.examined.log_probability, row.examined.survives),
            true => (row.examined.unstated_log_probability, row.examined.unstated_survives),
        };
        if let Some(value) = log_probability {
            self.log_probability.entry(row.place).or_default().push(value);
            self.kept.push(tokens as f64 / original_tokens.max(1) as f64);
        }
        if let Some(survives) = survives.filter(|_| survives_in_original) {
            self.survives.entry(row.place).or_default().push(f64::from(u8::from(survives)));
        }
    }
}

/// The differences of two pipelines on the questions that both have.
fn differences(of: &BTreeMap<i64, Vec<f64>>, control: &BTreeMap<i64, Vec<f64>>) -> Vec<f64> {
    of.iter().filter_map(|(place, values)| Some(mean(values) - mean(control.get(place)?))).collect()
}

fn over(of: &BTreeMap<i64, Vec<f64>>, control: &BTreeMap<i64, Vec<f64>>) -> Option<Estimate> {
    let found = differences(of, control);
    (!found.is_empty()).then(|| paired(&found))
}

fn lines(values: &BTreeMap<Key, Values>, pipelines: &[String]) -> Vec<Line> {
    let mut lines = Vec::new();
    for ((pipeline, share, unstated), found) in values {
        let [random, block] = [RANDOM, BLOCK].map(|control| values.get(&(control.to_string(), *share, *unstated)));
        let is_listed = pipelines.contains(pipeline) && pipeline != BLOCK;
        let against = |control: Option<&Values>| match control {
            Some(control) if is_listed => {
                (over(&found.log_probability, &control.log_probability), over(&found.survives, &control.survives))
            }
            _ => (None, None),
        };
        let ((over_random, survives_over_random), (over_block, survives_over_block)) =
            (against(random), against(block));
        let all = |values: &BTreeMap<i64, Vec<f64>>| mean(&values.values().map(|each| mean(each)).collect::<Vec<_>>());
        lines.push(Line {
            pipeline: pipeline.clone(),
            share: f64::from_bits(*share),
            unstated: *unstated,
            questions: found.log_probability.len(),
            kept: mean(&found.kept),
            survives: (!found.survives.is_empty()).then(|| all(&found.survives)),
            log_probability: all(&found.log_probability),
            over_random,
            over_block,
            survives_over_random,
            survives_over_block,
            p_random: None,
            p_block: None,
            verdict: if is_listed { String::new() } else { "control".to_string() },
        });
    }
    lines.sort_by(|a, b| {
        (a.share, -a.log_probability).partial_cmp(&(b.share, -b.log_probability)).unwrap_or(std::cmp::Ordering::Equal)
    });
    lines
}

/// Adds the p-values, adjusted over all comparisons, and the verdicts.
fn judge(lines: &mut [Line], values: &BTreeMap<Key, Values>) {
    let compared: Vec<usize> = (0..lines.len()).filter(|place| lines[*place].over_random.is_some()).collect();
    let p_values: Vec<f64> = compared
        .iter()
        .flat_map(|&place| {
            let line = &lines[place];
            let key = |pipeline: &str| (pipeline.to_string(), line.share.to_bits(), line.unstated);
            [RANDOM, BLOCK].map(|control| {
                let of = values.get(&key(&line.pipeline)).zip(values.get(&key(control)));
                of.map_or(1.0, |(of, control)| p_value(&differences(&of.log_probability, &control.log_probability)))
            })
        })
        .collect();
    for (place, adjusted) in compared.into_iter().zip(holm(&p_values).chunks(2)) {
        let line = &mut lines[place];
        (line.p_random, line.p_block) = (Some(adjusted[0]), Some(adjusted[1]));
        line.verdict = against_controls([line.over_random, line.over_block], adjusted);
    }
}
