//! The pipelines that asap ships with, by name.

use std::path::Path;

use asap_udfs::typo;

macro_rules! files {
    ($($name:ident)+) => { &[$((stringify!($name), include_str!(concat!("../sql/", stringify!($name), ".sql")))),+] };
}

const PIPELINES: &[(&str, &str)] = files![
    asap without_anchor without_surprisal stage1_random random truncate block longest middle prefix suffix spirit
    spirit_greedy step_entropy step_entropy_mean self_information_steps selective_context
    perplexity_and_self_information attribution pir answer_gain earliest_correct verified shortest_correct
    llmlingua2 tokenskip examples
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
