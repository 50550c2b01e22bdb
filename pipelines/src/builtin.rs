//! The pipelines that asap ships with, by name.

use std::path::Path;

use asap_kernels::front_end::either;
use asap_udfs::typo;

macro_rules! files {
    ($($name:ident)+) => { &[$((stringify!($name), include_str!(concat!("../sql/", stringify!($name), ".sql")))),+] };
}

const PIPELINES: &[(&str, &str)] = files![
    asap without_anchor without_surprisal selective_context llmlingua2 tokenskip spirit verified shortest_correct closest_correct
    pir longest suffix self_information_steps random block prefix truncate examples
];

/// Pipelines of earlier versions. No run adds rows to their outputs.
const REMOVED: &str = "answer_gain attribution earliest_correct middle perplexity_and_self_information spirit_greedy \
    stage1_random step_entropy step_entropy_mean";

/// What `asap exam` compares pipelines with: the original chain, random steps, and a random contiguous block.
pub const ORIGINAL: &str = "original";
/// See [`ORIGINAL`].
pub const RANDOM: &str = "random_steps";
/// See [`ORIGINAL`].
pub const BLOCK: &str = "block";

/// What the SQL of a pipeline contains if it follows the budget.
pub const BUDGET: &str = "cot_budget(";

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

/// Whether a pipeline leaves chains as they are; false for pipelines of users.
pub(crate) fn prunes_nothing(name: &str) -> bool {
    described().iter().any(|(known, about)| *known == name && about.starts_with("Prunes nothing"))
}

/// Whether a pipeline chooses among the generations of a row.
pub(crate) fn chooses(name: &str) -> bool {
    ["shortest_correct", "closest_correct"].contains(&name)
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
            true => format!(
                "cannot read the pipeline {named} ({error}): a pipeline is a name or a file of SQL, and comes before --from"
            ),
            false if REMOVED.split(' ').any(|removed| removed == named) => format!(
                "the pipeline {named} was removed: its outputs can still be read, exported and viewed, but not continued; \
                 asap includes {included}"
            ),
            false => {
                let hint = match named {
                    _ if named.split(',').all(|part| names().contains(&part)) => {
                        ": a run takes one pipeline, and asap exam compares several".to_string()
                    }
                    _ if named.contains(' ') => " (write SQL to a file, such as mine.sql, and name the file)".to_string(),
                    "help" | "list" | "ls" => {
                        either(" (asap run --help shows the help)", " (help(asap.run) shows the help)").to_string()
                    }
                    "all" => " (name each pipeline, with commas between them)".to_string(),
                    _ => typo::hint(named, names()),
                };
                format!("there is no file and no built-in pipeline {named}{hint}; asap includes {included}")
            }
        }
    })
}
