//! What to type instead, where clap's own tip does not help.

use std::ffi::OsString;

use asap_pipelines::location::command as copied;
use asap_udfs::typo;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::command;
use crate::config;

/// What to type instead of commands and flags, by the command that they follow. `LOC` is an argument that no flag takes.
/// Former commands that [`crate::table`] took over are not here.
#[rustfmt::skip]
const INSTEAD: [(&str, &str, &str); 35] = [
    ("asap", "cache", "asap cache gc is now asap table vacuum LOC --answers; for ls and stats, query 'LOC/.asap/cache' with asap sql, as docs/runs.md shows"),
    ("asap", "sample", "asap sample has gone; data/README.md names the commit whose asap sample made the sample"),
    ("asap", "experiment", "asap experiment has gone; docs/evidence.md names the commit that ran it, and shows its figures"),
    ("asap", "prune", "there is no command asap prune (did you mean run?); asap --help lists them"),
    ("asap", "query", "there is no command asap query (did you mean sql?); asap --help lists them"),
    ("asap", "report", "there is no command asap report (did you mean view?); asap --help lists them"),
    ("asap completions", "--format", "asap completions has no --format: it prints a script"),
    ("asap eval", "LOC", "name the problems with --data, and the output with --to"),
    ("asap exam", "LOC", "name the input with --from, and the output with --to"),
    ("asap export", "LOC", "name the output with --to"),
    ("asap export", "--format", "asap export writes Parquet, and its --format, table or json, is that of the summary: asap sql -c \"COPY (SELECT * FROM 'LOC') TO 'rows.jsonl'\" writes JSON lines"),
    ("asap export", "--where|--columns|--limit", "asap export writes all rows and columns: asap sql -c \"COPY (SELECT … FROM 'LOC' WHERE …) TO 'FOLDER/' STORED AS PARQUET\" writes some"),
    ("asap feed", "LOC", "name the corpus with --data"),
    ("asap feed", "--format", "asap feed has no --format: it writes Arrow batches, and one JSON object with --count"),
    ("asap generate", "LOC", "ask a question with --prompt, or those of a corpus with --data"),
    ("asap generate", "--format", "asap generate has no --format: it prints JSON lines with --data, and plain text with --prompt"),
    ("asap generate", "--to|--out|--output", "asap generate prints its answers: end the command with > answers.jsonl"),
    ("asap inspect", "LOC", "name one location, such as a folder, or a pattern in quotes: 'in/*.parquet'"),
    ("asap inspect", "--against", "asap inspect shows one output: asap view LOC --against OTHER compares two"),
    ("asap inspect", "--rejects", "asap inspect LOC/.asap/rejects shows the rejects of the output LOC"),
    ("asap inspect", "--status", "asap table status LOC shows the status of the output LOC"),
    ("asap inspect", "--where", "asap inspect has no --where: asap sql --from LOC -c \"SELECT * FROM corpus WHERE …\" filters rows"),
    ("asap run", "LOC", "name the input with --from, and the output with --to"),
    ("asap run", "--resume", "asap run resumes by itself: run the same command again"),
    ("asap run", "--max-steps|--steps", "asap run has no --max-steps: the budget counts tokens, --max-tokens N, or is a share of each chain, --ratio R"),
    ("asap run", "--jobs|--threads|--workers", "asap run computes on all cores; --part K/N shares the work among processes"),
    ("asap schedule", "--dry-run", "asap schedule JOBS.TOML --check reports errors of the jobs and their next times, and runs nothing"),
    ("asap sql", "--format", "asap sql --format takes csv, tsv, table, json, nd-json (JSON lines) or automatic"),
    ("asap train", "LOC", "name the corpus with --data, and the model's folder with --out"),
    ("asap view", "LOC", "to compare it with a second output, pass that one to --against"),
    ("asap view", "--from|--data", "asap view takes the output without a flag: asap view out/pruned"),
    ("asap view", "--compare|--with|--other", "to compare with a second output, pass that one to --against"),
    ("asap view", "--chain", "asap view has no --chain: type FILE:ROW or an id into its search, or run asap inspect LOC --chain FILE:ROW"),
    ("asap view", "--format", "asap view has no --format: it writes a report by the ending of --to: report.html, report.md or report.json"),
    ("asap view", "--host", "asap view answers only on this machine: to look from another one, forward its port there, as with ssh -L 8000:127.0.0.1:8000 HOST and --port 8000"),
];

/// A hint for words where clap's own tip does not help: former commands and flags, settings as flags, and SQL without
/// `-c`.
pub(super) fn refusal(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument | ErrorKind::InvalidValue => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(typed)) = error.get(kind) else { return None };
    let mut command = command();
    let mut path = vec!["asap".to_string()];
    for argument in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        let Some(below) = command.find_subcommand(argument).cloned() else { continue };
        command = below;
        path.push(argument.to_string());
    }
    let path = path.join(" ");
    let mut words = arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix('-'));
    if let Some(flag) = words.find(|word| has(&command, word)) {
        return Some(format!("error: -{flag} has one hyphen: write --{flag}"));
    }
    // Of a wrong value, this is the flag with the name of its value.
    let word = typed.split(' ').next().unwrap_or_default();
    if let Some((.., instead)) =
        INSTEAD.iter().find(|(of, from, _)| *of == path && from.split('|').any(|from| from == word))
    {
        return Some(format!("error: {instead}"));
    }
    if error.kind() == ErrorKind::InvalidValue {
        return None;
    }
    let what = match (kind, typed.strip_prefix("--")) {
        (ContextKind::InvalidSubcommand, _) => unknown_command(&command, &path, typed),
        (_, Some(flag)) if has(&command, "set") && config::setting_of_flag(flag).is_some() => {
            let key = config::setting_of_flag(flag)?;
            let set = match value_after(typed, arguments) {
                Some(value) => copied(&["--set", &format!("asap.{key}={value}")]),
                None => format!("--set asap.{key}=…"),
            };
            format!("{path} has no flag {typed}: pass {set}")
        }
        (_, None) if path == "asap sql" && !typed.starts_with('-') => {
            let (flag, what) = if typed.ends_with(".sql") { ("-f", "a file after -f") } else { ("-c", "SQL after -c") };
            let typed = if flag == "-c" { words_from(typed, arguments) } else { typed.clone() };
            format!("expected {what}, found '{typed}': run {}", copied(&["asap", "sql", flag, &typed]))
        }
        (_, None) if matches!(typed.as_bytes(), [b'-', b'0'..=b'9', ..]) => {
            let at = arguments.iter().position(|argument| argument.to_string_lossy().starts_with(typed.as_str()))?;
            let [flag, value] = [at.checked_sub(1)?, at].map(|at| arguments[at].to_string_lossy());
            format!("{flag} takes no value below 0, found '{value}'")
        }
        (_, None) if !typed.starts_with('-') => unexpected(&command, &path, typed, arguments)?,
        _ => unknown_flag(error, &command, &path, typed),
    };
    Some(format!("error: {what}"))
}

fn has(command: &clap::Command, flag: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(flag))
}

/// Flags of commands, and words for the same. The first that a command has is meant.
const SAME: [&[&str]; 9] = [
    &["learning-rate", "lr"],
    &["new-generation", "force", "overwrite"],
    &["samples", "n", "num-samples"],
    &["limit", "rows", "maxrows", "questions"],
    &["to", "out", "output"],
    &["from", "data", "input"],
    &["max-tokens", "budget", "max-length", "max-new-tokens"],
    &["micro-batch", "step", "batch-size", "batch"],
    &["prompt", "question"],
];

/// A flag that the command lacks. The tips of clap may be far from what was typed.
fn unknown_flag(error: &clap::Error, command: &clap::Command, path: &str, typed: &str) -> String {
    let flag = typed.trim_start_matches('-');
    if has(command, flag) {
        return format!("{typed} is a flag of {path}: write it after {path}");
    }
    let same = SAME.iter().find(|words| words.contains(&flag)).copied().unwrap_or_default();
    let tip = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(tip)) => Some(tip.trim_start_matches('-')),
        _ => None,
    };
    let is_near = |tip: &&str| tip.starts_with(flag) || typo::nearest(flag, [*tip]).is_some();
    let meant = same.iter().copied().find(|word| has(command, word)).or(tip.filter(is_near));
    let hint = meant.map_or(String::new(), |meant| format!(" (did you mean --{meant}?)"));
    format!("{path} has no flag {typed}{hint}; {path} --help lists them")
}

/// The words of a text that the shell took apart.
fn words_from(first: &str, arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|argument| argument.to_string_lossy()).skip_while(|word| word != first);
    words.take_while(|word| !word.starts_with("--")).collect::<Vec<_>>().join(" ")
}

/// An argument that no flag takes.
fn unexpected(command: &clap::Command, path: &str, typed: &str, arguments: &[OsString]) -> Option<String> {
    if typed.starts_with(['–', '—']) {
        let flag = typed.trim_start_matches(['–', '—', '-']);
        return Some(format!("'{typed}' begins with a dash that is no hyphen: write --{flag}"));
    }
    let at = arguments.iter().position(|argument| argument == typed)?;
    let before = arguments[..at].last()?.to_str()?;
    let with_equals = command.get_arguments().filter(|argument| argument.is_require_equals_set());
    let mut with_equals = with_equals.filter_map(clap::Arg::get_long);
    if with_equals.any(|flag| before.strip_prefix("--") == Some(flag)) {
        return Some(format!("the value of {before} follows an equals sign: {before}={typed}"));
    }
    if at > 1 && arguments[at - 2] == "--set" {
        return Some(format!("--set takes one word: {}", copied(&["--set", &format!("{before}={typed}")])));
    }
    match at.checked_sub(2).and_then(|flag| arguments[flag].to_str()).filter(|flag| flag.starts_with("--")) {
        Some("--from") => {
            return Some(format!(
                "--from takes one location, found {before} and {typed}: quote a pattern, as in --from 'data/*.parquet', or name \
                 several sources with --from a=… --from b=…"
            ));
        }
        Some(flag) if before.ends_with(',') || typed == "%" => {
            return Some(format!("{flag} takes one word: {}", copied(&[flag, &format!("{before}{typed}")])));
        }
        _ => {}
    }
    let (.., instead) = INSTEAD.iter().find(|(of, from, _)| *of == path && *from == "LOC")?;
    Some(format!("{path} has no use for '{typed}': {instead}"))
}

fn unknown_command(command: &clap::Command, path: &str, typed: &str) -> String {
    let is_of_table = command.find_subcommand("table").is_some_and(|table| table.find_subcommand(typed).is_some());
    if is_of_table {
        return format!("asap {typed} is now asap table {typed}");
    }
    if typed.contains(['/', '.']) {
        let first = if path == "asap" { "inspect" } else { "status" };
        return format!("{path} expects a command before a location, as in {path} {}", copied(&[first, typed]));
    }
    let known = || command.get_subcommands().map(|command| command.get_name());
    let meant = typo::nearest(typed, known()).or_else(|| known().find(|name| name.starts_with(typed)));
    let hint = meant.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
    format!("there is no command {path} {typed}{hint}; {path} --help lists them")
}

/// The value of a flag if it is a word or a number without a unit, which a setting takes as it is.
fn value_after<'a>(flag: &str, arguments: &'a [OsString]) -> Option<&'a str> {
    let mut texts = arguments.iter().filter_map(|argument| argument.to_str());
    let value =
        texts.find_map(|text| text.strip_prefix(flag)).map(|rest| rest.strip_prefix('=').or(texts.next()))??;
    let is_plain = value.starts_with(char::is_alphabetic) || value.parse::<u64>().is_ok();
    Some(value).filter(|_| is_plain)
}
