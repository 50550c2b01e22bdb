//! Grades responses: answers by the verifier, programs by their tests in the sandbox.

use std::collections::HashMap;

use asap_kernels::{health, tags};
use asap_programs::{Sandbox, SandboxError};
use asap_verify::Verdict;
use rayon::prelude::*;

use super::bench::{Check, Problem};
use super::row::Graded;

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

/// Returns the columns that depend on the response only: the answer, whether it is correct, and why.
fn grade_one(
    problem: &Problem,
    response: &str,
    sandbox: Option<&Sandbox>,
) -> Result<(Option<String>, bool, String), SandboxError> {
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
            (answer, verdict == Verdict::Equal, why.to_string())
        }
        (Check::Program(problem), Some(sandbox)) => {
            let verdict = sandbox.judge(problem, response)?;
            let why = match verdict.detail.is_empty() {
                true => verdict.reason.name().to_string(),
                false => format!("{}: {}", verdict.reason.name(), verdict.detail),
            };
            (asap_programs::program(problem, response).ok(), verdict.passed(), why)
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
            let (answer, correct, why) = grade_one(problem, response, sandbox)?;
            (row.answer, row.correct, row.why) = (answer, Some(correct), why);
        }
        done();
        Ok(())
    })
}
