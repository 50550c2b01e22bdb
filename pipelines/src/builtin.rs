//! The pipelines that asap ships with, by name.

use std::path::Path;

use asap_udfs::typo;

const PIPELINES: &[(&str, &str)] = &[
    ("asap", include_str!("../sql/asap.sql")),
    ("without_anchor", include_str!("../sql/without_anchor.sql")),
    ("without_surprisal", include_str!("../sql/without_surprisal.sql")),
    ("stage1_random", include_str!("../sql/stage1_random.sql")),
    ("random", include_str!("../sql/random.sql")),
    ("truncate", include_str!("../sql/truncate.sql")),
    ("block", include_str!("../sql/block.sql")),
    ("longest", include_str!("../sql/longest.sql")),
    ("middle", include_str!("../sql/middle.sql")),
    ("prefix", include_str!("../sql/prefix.sql")),
    ("suffix", include_str!("../sql/suffix.sql")),
    ("spirit", include_str!("../sql/spirit.sql")),
    ("spirit_greedy", include_str!("../sql/spirit_greedy.sql")),
    ("step_entropy", include_str!("../sql/step_entropy.sql")),
    ("step_entropy_mean", include_str!("../sql/step_entropy_mean.sql")),
    ("self_information_steps", include_str!("../sql/self_information_steps.sql")),
    ("selective_context", include_str!("../sql/selective_context.sql")),
    ("perplexity_and_self_information", include_str!("../sql/perplexity_and_self_information.sql")),
    ("attribution", include_str!("../sql/attribution.sql")),
    ("pir", include_str!("../sql/pir.sql")),
    ("answer_gain", include_str!("../sql/answer_gain.sql")),
    ("earliest_correct", include_str!("../sql/earliest_correct.sql")),
    ("verified", include_str!("../sql/verified.sql")),
    ("shortest_correct", include_str!("../sql/shortest_correct.sql")),
    ("llmlingua2", include_str!("../sql/llmlingua2.sql")),
    ("tokenskip", include_str!("../sql/tokenskip.sql")),
    ("examples", include_str!("../sql/examples.sql")),
];

/// The names of the built-in pipelines.
pub fn names() -> Vec<&'static str> {
    PIPELINES.iter().map(|(name, _)| *name).collect()
}

/// Each built-in pipeline with the comment that begins its file. The last sentences say whether a pipeline of a publication
/// is as published, or differs and why; docs/paper.md has the same.
pub fn described() -> Vec<(&'static str, String)> {
    let comment = |sql: &'static str| sql.lines().map_while(|line| line.strip_prefix("-- ")).collect::<Vec<_>>();
    PIPELINES.iter().map(|(name, sql)| (*name, comment(sql).join(" "))).collect()
}

pub fn help() -> String {
    let names = names().join(", ");
    let names = names.rsplit_once(", ").map_or(names.clone(), |(first, last)| format!("{first} or {last}"));
    format!("Run this pipeline: an SQL file with one SELECT from the table `corpus`, or a built-in pipeline ({names})")
}

/// Returns the SQL of a built-in pipeline, else of a file. The error is a message for users.
pub fn pipeline(named: &str) -> Result<String, String> {
    if let Some((_, sql)) = PIPELINES.iter().find(|(name, _)| *name == named) {
        return Ok(sql.to_string());
    }
    std::fs::read_to_string(named).map_err(|error| {
        let included = names().join(", ");
        match Path::new(named).exists() {
            true => format!("cannot read the pipeline {named}: {error}"),
            false => {
                let hint = typo::hint(named, names());
                format!("there is no file and no built-in pipeline {named}{hint}; asap includes {included}")
            }
        }
    })
}
