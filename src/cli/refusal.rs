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
const INSTEAD: &[(&str, &str, &str)] = &[
    ("asap", "cache", "asap cache gc is now asap table vacuum LOC --answers; for ls and stats, query 'LOC/.asap/cache' with asap sql, as docs/runs.md shows"),
    ("asap", "sample", "asap sample has gone; data/README.md names the commit whose asap sample made the sample"),
    ("asap", "experiment", "asap experiment has gone: docs/evidence.md of commit 48353b40 has its figures, and python -m asap.paper run docs/recipes/paper/student.toml repeats its arms"),
    ("asap", "score|perplexity|surprisal", "asap sql --from LOC -c \"SELECT id, cot_surprisal(question, cot_steps(cot)) FROM corpus\" scores steps"),
    ("asap", "compare|diff", "asap eval --compare A B compares evaluations, and asap view A --against B outputs"),
    ("asap", "config|settings|init|set", "asap has no command for settings: write them into asap.toml, or pass --set asap.KEY=VALUE; docs/commands.md describes both"),
    ("asap", "download|login|pull", "asap downloads models and datasets of the Hub when you name them: hf auth login stores a token"),
    ("asap", "pipelines|list", "asap run --help lists the pipelines, and asap run NAME --print shows one"),
    ("asap", "rm|remove|delete|drop", "an output is a folder: delete the folder"),
    ("asap", "version", "asap --version prints the version"),
    ("asap completions", "--format", "asap completions has no --format: it prints a script"),
    ("asap eval", "LOC", "name the problems with --data, and the output with --to"),
    ("asap eval", "--top-k", TOP_K),
    ("asap exam", "LOC", "name the input with --from, and the output with --to; commas separate pipelines"),
    ("asap export", "LOC", "name the output with --to"),
    ("asap export", "--from|--data", "asap export takes the output without a flag: asap export out/pruned --to FOLDER"),
    ("asap export", "--format", "asap export writes Parquet, and its --format, table or json, is that of the summary: asap sql -c \"COPY (SELECT * FROM 'LOC') TO 'rows.jsonl'\" writes JSON lines"),
    ("asap export", "--where|--columns|--limit", "asap export writes all rows and columns: asap sql -c \"COPY (SELECT … FROM 'LOC' WHERE …) TO 'FOLDER/' STORED AS PARQUET\" writes some"),
    ("asap feed", "LOC", "name the corpus with --data"),
    ("asap feed", "--format", "asap feed has no --format: it writes Arrow batches, and one JSON object with --count"),
    ("asap generate", "LOC", "name the model with --model, and ask a question with --prompt, or those of a corpus with --data"),
    ("asap generate", "--format", "asap generate has no --format: it prints JSON lines with --data, and plain text with --prompt"),
    ("asap generate", "--top-k", TOP_K),
    ("asap generate", "--to|--out|--output", "asap generate prints its answers: end the command with > answers.jsonl"),
    ("asap inspect", "LOC", "name one location, such as a folder, or a pattern in quotes: 'in/*.parquet'; asap view A --against B compares two outputs"),
    ("asap inspect", "--from|--data", "asap inspect takes the location without a flag: asap inspect data/sample"),
    ("asap inspect", "--against|--diff|--compare", "asap inspect shows one output: asap view LOC --against OTHER compares two"),
    ("asap inspect", "--rejects", "asap inspect LOC/.asap/rejects shows the rejects of the output LOC"),
    ("asap inspect", "--row", "asap inspect LOC --chain FILE:ROW shows one row, and --rows N the first rows of each layout"),
    ("asap inspect", "--status", "asap table status LOC shows the status of the output LOC"),
    ("asap inspect", "--where|--filter|--query", "asap inspect has no --where: asap sql --from LOC -c \"SELECT * FROM corpus WHERE …\" filters rows"),
    ("asap model", "--model", "asap model takes the model without a flag: asap model small"),
    ("asap run", "LOC", "it takes one pipeline; name the input with --from, and the output with --to"),
    ("asap run", "--pipeline|--pipelines|--method", "asap run takes the pipeline without a flag: asap run truncate --from LOC --to LOC"),
    ("asap run", "--resume", "asap run resumes by itself: run the same command again"),
    ("asap run", "--max-steps|--steps", "asap run has no --max-steps: the budget counts tokens, --max-tokens N, or is a share of each chain, --ratio R"),
    ("asap run", "--jobs|--threads|--workers", "asap run computes on all cores; --part K/N shares the work among processes"),
    ("asap schedule", "LOC", "name one jobs file: asap schedule JOBS.TOML --check reports its errors, and runs nothing"),
    ("asap schedule", "--dry-run", "asap schedule JOBS.TOML --check reports errors of the jobs and their next times, and runs nothing"),
    ("asap sql", "--where|--filter|--select", "asap sql has no flags for parts of a query: write SELECT … FROM … WHERE … after -c"),
    ("asap sql", "--format", "asap sql --format takes csv, tsv, table, json, nd-json (JSON lines) or automatic"),
    ("asap table vacuum", "--retention-hours|--retention|--older-than", "asap table vacuum has no such flag: --retain 168h keeps the files of the last week"),
    ("asap train", "LOC", "name the corpus with --data, and the model's folder with --out"),
    ("asap train", "--max-steps|--steps|--num-steps", "asap train counts epochs, --epochs N; asap sql -c \"COPY (SELECT * FROM 'LOC' LIMIT 100) TO 'some.parquet'\" writes fewer rows"),
    ("asap train", "--warmup", "--warmup takes a share of the steps, from 0 to below 1, such as 0.05; --warmup-steps takes a number of steps"),
    ("asap view", "LOC", "to compare it with a second output, pass that one to --against"),
    ("asap view", "--from|--data", "asap view takes the output without a flag: asap view out/pruned"),
    ("asap view", "--compare|--with|--other|--baseline", "to compare with a second output, pass that one to --against"),
    ("asap view", "--chain", "asap view has no --chain: type FILE:ROW or an id into its search, or run asap inspect LOC --chain FILE:ROW"),
    ("asap view", "--sort", "asap view has no --sort: click the head of a column in the list of chains"),
    ("asap view", "--format", "asap view has no --format: it writes a report by the ending of --to: report.html, report.md or report.json"),
    ("asap view", "--host", "asap view answers only on this machine: to look from another one, forward its port there, as with ssh -L 8000:127.0.0.1:8000 HOST and --port 8000"),
];

const TOP_K: &str = "asap has no top-k sampling: --top-p takes a share from 0 to 1, and --temperature a number";

/// A hint for words where clap's own tip does not help: former commands and flags, settings as flags, and SQL without
/// `-c`.
pub(super) fn refusal(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::ArgumentConflict => return conflict(error),
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::WrongNumberOfValues => return not_split(error, arguments),
        ErrorKind::UnknownArgument | ErrorKind::InvalidValue | ErrorKind::ValueValidation => ContextKind::InvalidArg,
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
    if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let what = match (kind, typed.strip_prefix("--")) {
        (ContextKind::InvalidSubcommand, _) => unknown_command(&command, &path, typed),
        (_, Some(flag))
            if has(&command, "set") && config::setting_of_flag(flag).is_some() && same(&command, flag).is_none() =>
        {
            let key = config::setting_of_flag(flag)?;
            let set = match value_after(typed, arguments) {
                Some(value) => copied(&["--set", &format!("asap.{key}={value}")]),
                None => format!("--set asap.{key}=…"),
            };
            format!("{path} has no flag {typed}: pass {set}")
        }
        (_, None) if path == "asap sql" && !typed.starts_with('-') => {
            let (flag, what) = if typed.ends_with(".sql") { ("-f", "a file after -f") } else { ("-c", "SQL after -c") };
            let typed = if flag == "-c" { query(typed, arguments) } else { typed.clone() };
            let is_location = flag == "-c" && std::path::Path::new(&typed).exists();
            let sql = if is_location { format!("SELECT * FROM '{typed}'") } else { typed.clone() };
            format!("expected {what}, found '{typed}': run {}", copied(&["asap", "sql", flag, &sql]))
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

/// Two flags that exclude each other, without the usage of the command.
fn conflict(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(other)) = error.get(ContextKind::PriorArg) else { return None };
    let name = |flag: &str| flag.split([' ', '=', '[']).next().unwrap_or_default().to_string();
    let [flag, other] = [flag, other].map(|flag| name(flag));
    (flag != other).then(|| format!("error: {flag} cannot be used with {other}: leave one of them out"))
}

/// The answer to the word help after a command, which would be taken as a location or a pipeline.
pub(super) fn help(arguments: &[OsString]) -> Option<String> {
    let (last, path) = arguments.get(1..)?.split_last()?;
    let is_help = last == "help" || last == "?";
    let mut command = command();
    for name in path {
        command = command.find_subcommand(name)?.clone();
    }
    let has_help = command.has_subcommands() || std::path::Path::new(last).exists();
    let path: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    (is_help && !has_help).then(|| format!("error: asap {} --help shows the help", path.join(" ")))
}

fn has(command: &clap::Command, flag: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(flag))
}

/// Flags of commands, and words for the same, with hyphens. The first that a command has is meant.
const SAME: [&[&str]; 19] = [
    &["learning-rate", "lr"],
    &["new-generation", "force", "overwrite"],
    &["samples", "n", "num-samples", "best-of"],
    &["limit", "rows", "maxrows", "questions", "head", "num-rows", "max-rows", "max-samples", "top"],
    &["to", "out", "output", "output-dir", "o", "save-to"],
    &["from", "data", "input", "dataset", "dataset-name", "train-file", "i"],
    &["max-tokens", "budget", "max-length", "max-new-tokens", "max-seq-length", "seq-len"],
    &["micro-batch", "step", "batch-size", "batch", "per-device-train-batch-size"],
    &["prompt", "question"],
    &["accumulate", "gradient-accumulation-steps"],
    &["bench", "tasks", "task", "benchmark"],
    &["columns", "question-column", "cot-column", "answer-column", "mapping"],
    &["command", "query", "e", "execute", "q"],
    &["held-out", "eval-split", "validation-split", "test-size", "val-size"],
    &["epochs", "num-train-epochs", "num-epochs"],
    &["model", "model-name-or-path", "pretrained", "checkpoint"],
    &["ratio", "shares", "share", "rate", "compression", "compression-ratio", "target-ratio", "fraction", "keep"],
    &["pipelines", "pipeline", "methods"],
    &["seed", "random-state", "random-seed"],
];

/// Flags of other tools that choose rows.
const OF_ROWS: [&str; 6] = ["where", "filter", "limit", "head", "max-samples", "num-rows"];

/// The flag of a command that other tools call by this name.
fn same(command: &clap::Command, flag: &str) -> Option<&'static str> {
    let hyphens = flag.replace('_', "-");
    let words = SAME.iter().filter(|words| words.contains(&hyphens.as_str()));
    words.flat_map(|words| words.iter().copied()).find(|word| has(command, word))
}

/// Values of a flag in one word, with commas.
fn not_split(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = flag.split(' ').next()?;
    let at = arguments.iter().position(|argument| argument == flag)?;
    let value = arguments.get(at + 1)?.to_str().filter(|value| value.contains(','))?;
    Some(format!("error: {flag} takes several words: {flag} {}", value.replace(',', " ")))
}

/// A flag that the command lacks. The tips of clap may be far from what was typed.
fn unknown_flag(error: &clap::Error, command: &clap::Command, path: &str, typed: &str) -> String {
    let flag = typed.trim_start_matches('-');
    if has(command, flag) {
        return format!("{typed} is a flag of {path}: write it after {path}");
    }
    let hyphens = flag.replace('_', "-");
    let tip = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(tip)) => Some(tip.trim_start_matches('-')),
        _ => None,
    };
    let is_near = |tip: &&str| tip.starts_with(flag) || typo::nearest(flag, [*tip]).is_some();
    let own = Some(hyphens.as_str()).filter(|word| has(command, word));
    let meant = own.or(same(command, flag)).or(tip.filter(is_near));
    if meant.is_none() && OF_ROWS.contains(&hyphens.as_str()) && ["from", "data"].iter().any(|from| has(command, from))
    {
        return format!(
            "{path} has no flag {typed}: it reads all rows. asap sql -c \"COPY (SELECT * FROM 'LOC' WHERE … LIMIT 100) TO \
             'some.parquet'\" writes some to a file"
        );
    }
    let hint = match meant {
        Some(meant) => format!(" (did you mean --{meant}?)"),
        None => of_others(&hyphens),
    };
    format!("{path} has no flag {typed}{hint}; {path} --help lists them")
}

/// Which commands have a flag.
fn of_others(flag: &str) -> String {
    let command = command();
    let others = command.get_subcommands().filter(|other| !other.is_hide_set() && has(other, flag));
    let others: Vec<_> = others.map(|other| format!("asap {}", other.get_name())).collect();
    match others.as_slice() {
        [] => String::new(),
        others => format!(", which is a flag of {}", others.join(" and ")),
    }
}

/// The words of a query that the shell took apart, also those after `-c`.
fn query(unexpected: &str, arguments: &[OsString]) -> String {
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let begin = words.iter().position(|word| word == "-c").map(|at| at + 1);
    let begin = begin.or(words.iter().position(|word| word == unexpected)).unwrap_or_default();
    let own = words[begin..].iter().take_while(|word| !word.starts_with("--"));
    own.map(|word| word.as_ref()).collect::<Vec<_>>().join(" ")
}

/// Whether commas separate the values of a flag.
fn is_split(command: &clap::Command, flag: &str) -> bool {
    let mut arguments = command.get_arguments().filter(|argument| argument.get_value_delimiter().is_some());
    arguments.any(|argument| argument.get_long() == flag.strip_prefix("--"))
}

/// An argument that no flag takes.
fn unexpected(command: &clap::Command, path: &str, typed: &str, arguments: &[OsString]) -> Option<String> {
    if typed.starts_with(['–', '—']) {
        let flag = typed.trim_start_matches(['–', '—', '-']);
        return Some(format!("'{typed}' begins with a long dash: write --{flag}"));
    }
    let at = arguments.iter().position(|argument| argument == typed)?;
    let before = arguments[..at].last()?.to_str()?;
    let with_equals = command.get_arguments().filter(|argument| argument.is_require_equals_set());
    let mut with_equals = with_equals.filter_map(clap::Arg::get_long);
    if with_equals.any(|flag| before.strip_prefix("--") == Some(flag)) {
        return Some(format!("the value of {before} follows an equals sign: {before}={typed}"));
    }
    let takes_none = |argument: &clap::Arg| !argument.get_action().takes_values();
    let before_it = command.get_arguments().find(|argument| argument.get_long() == before.strip_prefix("--"));
    if before.starts_with("--") && before_it.is_some_and(takes_none) {
        return Some(format!("{before} takes no value, found '{typed}': leave it out"));
    }
    let is_row = typed.rsplit_once(':').is_some_and(|(_, row)| row.parse::<u64>().is_ok());
    if path == "asap inspect" && is_row {
        return Some(format!("asap inspect shows one chain of an output with {}", copied(&["--chain", typed])));
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
        Some(flag) if is_split(command, flag) => {
            return Some(format!("{flag} takes one word: {}", copied(&[flag, &format!("{before},{typed}")])));
        }
        Some(flag) if before.ends_with(',') || typed == "%" => {
            return Some(format!("{flag} takes one word: {}", copied(&[flag, &format!("{before}{typed}")])));
        }
        _ => {}
    }
    if let Some((flag, value)) = typed.split_once('=')
        && has(command, flag)
    {
        return Some(format!("{path} has no use for '{typed}': write {}", copied(&[&format!("--{flag}"), value])));
    }
    let (.., instead) = INSTEAD.iter().find(|(of, from, _)| *of == path && *from == "LOC")?;
    Some(format!("{path} has no use for '{typed}': {instead}"))
}

/// Commands, and words for the same.
const COMMANDS: [(&str, &[&str]); 10] = [
    ("eval", &["evaluate", "bench", "benchmark"]),
    ("export", &["convert", "push", "upload"]),
    ("history", &["log", "commits"]),
    ("inspect", &["show", "describe", "head", "stats", "count", "validate", "tokenize"]),
    ("optimize", &["compact", "merge"]),
    ("run", &["prune", "compress"]),
    ("schedule", &["cron"]),
    ("sql", &["query", "filter", "select"]),
    ("train", &["finetune", "fine-tune"]),
    ("view", &["report", "serve"]),
];

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
    let same = COMMANDS.iter().find(|(name, words)| words.contains(&typed) && known().any(|known| known == *name));
    let meant = same.map(|(name, _)| *name).or_else(|| typo::nearest(typed, known()));
    let meant = meant.or_else(|| known().find(|name| name.starts_with(typed)));
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
