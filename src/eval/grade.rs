//! Grades responses: answers by the verifier, programs by their tests in the sandbox.

use std::collections::HashMap;

use asap_kernels::{health, tags};
use asap_programs::{Sandbox, SandboxError};
use asap_verify::Verdict;
use rayon::prelude::*;

use super::bench::{Check, Problem};
use super::row::Graded;

/// The columns of a row that depend on its response only.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Grade {
    pub answer: Option<String>,
    pub correct: Option<bool>,
    pub why: String,
}

/// Completes the think tags of all responses to one model. Some templates end in an opened tag, so a response has only
/// the closing one, and none if it was cut off. If that is so in any response, all others are completed like it.
pub(crate) fn complete_tags(rows: &mut [Graded]) {
    let opens = |text: &str| tags::openings().any(|tag| text.contains(tag));
    let is_headless = |text: &str| !opens(text) && tags::think(text).is_some();
    if !rows.iter().filter_map(|row| row.response.as_deref()).any(is_headless) {
        return;
    }
    for row in rows {
        let is_cut_off = row.finish_reason.as_deref().and_then(health::is_cut_off) == Some(true);
        if let Some(text) = row.response.as_mut().filter(|text| !opens(text))
            && (is_cut_off || tags::think(text).is_some())
        {
            text.insert_str(0, "<think>\n");
        }
    }
}

/// Grades one response.
fn grade_one(problem: &Problem, response: &str, sandbox: Option<&Sandbox>) -> Result<Grade, SandboxError> {
    Ok(match (&problem.check, sandbox) {
        (Check::Answer(gold), _) => {
            let answer = asap_verify::answer(response).map(|answer| answer.trim().to_string());
            let verdict = asap_verify::verdict(gold, response);
            let why = match verdict {
                Verdict::Equal => "ok",
                Verdict::Different => "wrong_answer",
                Verdict::Ambiguous => "ambiguous",
                Verdict::Missing => "no_answer",
            };
            Grade { answer, correct: Some(verdict == Verdict::Equal), why: why.to_string() }
        }
        (Check::Program(problem), Some(sandbox)) => {
            let verdict = sandbox.judge(problem, response)?;
            let why = match verdict.detail.is_empty() {
                true => verdict.reason.name().to_string(),
                false => format!("{}: {}", verdict.reason.name(), verdict.detail),
            };
            Grade { answer: asap_programs::program(problem, response).ok(), correct: Some(verdict.passed()), why }
        }
        (Check::Program(problem), None) => return Err(SandboxError::NothingExpected(problem.id.clone())),
    })
}

/// Grades rows on all cores, and calls `done` after each.
///
/// # Errors
/// If the sandbox does not work.
pub(crate) fn grade_all(
    rows: &mut [Graded],
    problems: &HashMap<&str, &Problem>,
    sandbox: Option<&Sandbox>,
    done: impl Fn() + Sync,
) -> Result<(), SandboxError> {
    rows.par_iter_mut().try_for_each(|row| {
        if let Some((response, problem)) = row.response.as_ref().zip(problems.get(row.id.as_str())) {
            let Grade { answer, correct, why } = grade_one(problem, response, sandbox)?;
            (row.answer, row.correct, row.why) = (answer, correct, why);
        }
        done();
        Ok(())
    })
}
