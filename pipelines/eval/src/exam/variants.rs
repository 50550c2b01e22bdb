//! The pipelines of an exam, at each share of the tokens.

use std::collections::BTreeSet;

use asap_pipelines::builtin::{self, BLOCK, BUDGET, ORIGINAL, RANDOM};
use asap_pipelines::run::{Originals, Request};
use asap_udfs::Settings;
use asap_udfs::settings::Share;

use crate::failure::Failure;

/// How often each control is drawn: random steps and a random contiguous block, each exactly of the budget.
const DRAWS: u64 = 3;
/// The seed in the SQL of the control.
const SEED: &str = ", 42)";

/// A pipeline at a share of the tokens.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub pipeline: String,
    pub share: f64,
    /// The index of the draw of a random control.
    pub draw: u64,
    /// The pipeline within the exam's SELECT.
    pub sql: String,
}

/// # Errors
/// If a pipeline is missing or ignores the budget.
pub(super) fn all(pipelines: &[String], shares: &[f64], seed: u64) -> Result<Vec<Variant>, Failure> {
    let mut named = Vec::new();
    // The block is a control already.
    if let Some(control) = pipelines.iter().find(|pipeline| [ORIGINAL, RANDOM].contains(&pipeline.as_str())) {
        return Err(Failure::Usage(format!(
            "each exam has {control}: leave it out, and name the pipelines to compare"
        )));
    }
    let listed: BTreeSet<&String> = pipelines.iter().filter(|pipeline| *pipeline != BLOCK).collect();
    for pipeline in listed {
        let sql = builtin::pipeline(pipeline).map_err(Failure::Usage)?;
        if !sql.contains(BUDGET) {
            return Err(Failure::Usage(format!(
                "the pipeline {pipeline} ignores the budget, since it does not call {BUDGET}…): the exam compares chains of \
                 equal length"
            )));
        }
        named.push((pipeline.clone(), 0, sql));
    }
    let block = builtin::pipeline(BLOCK).map_err(Failure::Failed)?;
    for draw in 0..DRAWS {
        let seeded = block.replace(SEED, &format!(", {})", seed.wrapping_add(draw)));
        named.push((BLOCK.to_string(), draw, seeded.clone()));
        named.push((RANDOM.to_string(), draw, seeded.replace("'block'", "'random'")));
    }
    let at = |share: &f64| {
        let share = *share;
        named.iter().map(move |(pipeline, draw, sql)| Variant {
            pipeline: pipeline.clone(),
            share,
            draw: *draw,
            sql: exam(sql),
        })
    };
    let original = Variant { pipeline: ORIGINAL.to_string(), share: 1.0, draw: 0, sql: exam(UNPRUNED) };
    Ok(std::iter::once(original).chain(shares.iter().flat_map(at)).collect())
}

const UNPRUNED: &str = "SELECT *, cot AS original_cot FROM corpus";

/// Wraps a pipeline: the pruned chain, with and without the sentences that state the answer, is read by the scoring model.
fn exam(pipeline: &str) -> String {
    format!(
        "SELECT source, status, error, question, tokens, original_tokens,
    survives['log_probability'] AS log_probability, survives['stated'] AS stated, survives['survives'] AS survives,
    unstated['log_probability'] AS unstated_log_probability, unstated['stated'] AS unstated_stated,
    unstated['survives'] AS unstated_survives
FROM (
    SELECT source, status, error, question, cot_tokens(cot) AS tokens, cot_tokens(original_cot) AS original_tokens,
        cot_survives(question, cot_steps(cot), generate_series(1, array_length(cot_steps(cot))), answer) AS survives,
        cot_survives(question, cot_unstated(cot_steps(cot), answer), generate_series(1, array_length(cot_steps(cot))), answer)
            AS unstated
    FROM (
{pipeline}
    )
)
"
    )
}

impl Variant {
    pub(super) fn name(&self) -> String {
        let draw =
            if matches!(&*self.pipeline, RANDOM | BLOCK) { format!("-{}", self.draw + 1) } else { String::new() };
        let pipeline: String =
            self.pipeline.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '_' }).collect();
        format!("{pipeline}{draw}-{}", self.share)
    }

    pub(super) fn request(&self, sample: &str, folder: &str, settings: &Settings) -> Request {
        let settings = Settings { refine_ratio: Some(Share(self.share)), refine_max_tokens: None, ..settings.clone() };
        let to = format!("{folder}/{}", self.name());
        Request { originals: Originals::None, ..Request::new(&self.name(), &self.sql, &[sample], &to, settings) }
    }
}
