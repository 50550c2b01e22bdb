//! Output: data goes to stdout, messages go to stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asap_kernels::front_end::{Flag, either};
use asap_llm::Usage;
use asap_pipelines::corpus::FileFailure;
use asap_pipelines::location::redact;
use asap_pipelines::reasons::Reasons;
use clap::ValueEnum;
use clap::error::ContextValue;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::temporal_conversions::timestamp_ms_to_datetime;
use datafusion::error::DataFusionError;
use indicatif::{HumanCount, ProgressBar};
use parking_lot::Mutex;
use serde::Serialize;

pub use crate::errors::{error_line, missing_table, no_table};
use crate::terminal::shown;

/// Writes a line to stdout.
pub fn print(text: &str) -> io::Result<()> {
    write_out(&format!("{text}\n"))
}

/// Writes a text to stdout, from which all that goes there for people passes. On a terminal, it does nothing but appear.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let shown = shown(text, &stdout);
    stdout.write_all(shown.as_bytes())?;
    stdout.flush()
}

/// Writes a text to stderr, as [`write_out`] to stdout.
fn write_err(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    let shown = shown(text, &stderr);
    stderr.write_all(shown.as_bytes())
}

/// A location or a text as a literal of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether output is colored: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
pub fn has_color(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// A table for people
    Table,
    /// JSON for programs, on one line
    Json,
}

pub fn print_as(format: SummaryFormat, found: &impl Serialize, table: impl FnOnce() -> String) -> io::Result<()> {
    match format {
        SummaryFormat::Json => print(&serde_json::to_string(found)?),
        SummaryFormat::Table => print(&table()),
    }
}

/// Prints what a command did, as [`print_as`]. With `--quiet`, only JSON.
pub fn print_summary(format: SummaryFormat, done: &impl Serialize, table: impl FnOnce() -> String) -> io::Result<()> {
    let is_hidden = format == SummaryFormat::Table && IS_QUIET.load(Ordering::Relaxed);
    if is_hidden { Ok(()) } else { print_as(format, done, table) }
}

static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Makes [`complain`] write JSON from now on, like all other lines on stderr.
pub fn complain_as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Writes a line to stderr, without the secrets of URLs. A closed stderr is not an error.
pub fn complain(text: &str) {
    let mut line = indented(&redact(text));
    if AS_JSON.load(Ordering::Relaxed) {
        let (level, message) = match line.split_once(": ") {
            Some(("error", message)) => ("ERROR", message),
            Some(("note", message)) => ("INFO", message),
            _ => ("INFO", line.as_str()),
        };
        let timestamp = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        line = serde_json::json!({ "timestamp": timestamp, "level": level, "message": message }).to_string();
    }
    line.push('\n');
    above_the_bar(|| drop(write_err(&line)));
}

/// Indents the lines of a message that read like messages: a text of a corpus, a file or a server may have quoted them.
fn indented(text: &str) -> String {
    let is_forged = |line: &&str| ["error:", "note:", "warning:"].iter().any(|level| line.starts_with(level));
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    rest.lines().fold(first.to_string(), |text, line| match is_forged(&line) {
        true => format!("{text}\n  {line}"),
        false => format!("{text}\n{line}"),
    })
}

/// Whether notes, progress and summaries of work are left out, as `--quiet` asks.
pub static IS_QUIET: AtomicBool = AtomicBool::new(false);

pub fn note(text: impl Display) {
    tell(&format!("note: {text}"));
}

/// Writes a line about work to stderr, unless `--quiet` asks for none.
pub fn tell(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        complain(text);
    }
}

static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Clears the bar that is shown, if any. The next one is shown below all lines on stderr.
pub fn show_below(bar: Option<ProgressBar>) {
    let before = std::mem::replace(&mut *BAR.lock(), bar);
    before.iter().for_each(ProgressBar::finish_and_clear);
}

/// Writes a line and hides the bar meanwhile, which would draw over the line.
fn above_the_bar<T>(write: impl FnOnce() -> T) -> T {
    let bar = BAR.lock().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Writes log events to stderr as [`complain`] writes lines.
pub struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = redact(&String::from_utf8_lossy(event));
        above_the_bar(|| write_err(&text))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Whether tables may be wider than the terminal.
pub static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// The width that tables for people must fit: that of the terminal. None if stdout is not a terminal, or with `--wide`.
pub fn width() -> Option<usize> {
    let columns = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    columns.filter(|_| !IS_WIDE.load(Ordering::Relaxed))
}

/// Fits a table into a width. Each row takes one line, and cut texts end in "…". Columns of numbers are not cut.
pub fn fit(table: &mut comfy_table::Table, width: usize, are_numbers: impl Fn(usize) -> bool) {
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_truncation_indicator("…");
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    if let Some(mut header) = table.header().cloned() {
        header.max_height(1);
        table.set_header(header);
    }
    for row in table.row_iter_mut() {
        row.max_height(1);
    }
    for (_, column) in table.column_iter_mut().enumerate().filter(|(index, _)| are_numbers(*index)) {
        column.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
    }
}

/// Formats rows under a header as aligned text that fits the terminal. Columns whose cells are all digits and separators
/// are right-aligned.
pub fn table<const N: usize>(
    header: impl Into<comfy_table::Row>,
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(header);
    let rows: Vec<[String; N]> = rows.into_iter().collect();
    let is_number = |cell: &str| cell.chars().all(|each| each.is_ascii_digit() || "+- ,.%".contains(each));
    let are_numbers: [bool; N] =
        std::array::from_fn(|index| !rows.is_empty() && rows.iter().all(|row| is_number(&row[index])));
    for (column, are_numbers) in table.column_iter_mut().zip(are_numbers) {
        column.set_padding((0, 2));
        if are_numbers {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table.add_rows(rows);
    // The padding after the last column is trimmed.
    width().into_iter().for_each(|width| fit(&mut table, width + 2, |index| are_numbers[index]));
    table.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// Parses a flag; its error has no prefix of the engine.
pub fn parsed<T: FromStr<Err = DataFusionError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| error_line(&error))
}

/// The first paragraph of a parser's error as one line, without the usage hints after it. The flags are as the front end
/// spells them.
pub fn first_paragraph(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let mut message = lines.join(" ").trim_start_matches("error: ").to_string();
    for (_, value) in error.context() {
        let flags = match value {
            ContextValue::String(flag) => std::slice::from_ref(flag),
            ContextValue::Strings(flags) => flags.as_slice(),
            _ => &[],
        };
        for flag in flags.iter().filter(|flag| either(false, flag.starts_with("--"))) {
            let name = Flag(flag.split([' ', '[', '=']).next().unwrap_or_default()).to_string();
            message = message.replace(&format!("'{flag}'"), &name).replace(flag, &name);
        }
    }
    plain(&message)
}

/// What parsers of numbers and addresses say, and what they expected.
const EXPECTED: [(&str, &str); 4] = [
    ("invalid digit found in string", "expected a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("invalid float literal", "expected a number"),
    ("invalid socket address syntax", "expected an address and a port, such as 127.0.0.1:9100"),
];

/// A parser's error without the words of Rust.
pub fn plain(error: &str) -> String {
    EXPECTED.iter().fold(error.to_string(), |said, (found, expected)| said.replace(found, expected))
}

/// Parses a whole number. The type may hold 0.
pub fn at_least_one<T: FromStr + ToString>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number: &T| number.to_string() != "0");
    number.ok_or_else(|| "expected a whole number above 0".to_string())
}

/// Parses a time. A number alone could be of any unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let unit = if text.parse::<f64>().is_ok() {
        format!("such as {text}d, {text}h or {text}s")
    } else {
        "such as 90d, 12h or 30s".to_string()
    };
    humantime::parse_duration(text).map_err(|_| format!("expected a number with a unit, {unit}"))
}

/// Formats a number with a comma between thousands.
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Formats milliseconds since 1970 in UTC.
pub fn time(milliseconds: i64) -> Option<String> {
    Some(timestamp_ms_to_datetime(milliseconds)?.format("%Y-%m-%d %H:%M:%S").to_string())
}

pub fn time_or_dash(milliseconds: Option<i64>) -> String {
    milliseconds.and_then(time).unwrap_or("-".to_string())
}

/// Formats a duration in its two largest units.
pub fn rough(seconds: u64) -> String {
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    humantime::format_duration(Duration::from_secs(seconds / unit * unit)).to_string()
}

/// Formats a count of a thing whose plural takes an s.
pub fn several(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Why rows were rejected, in brackets; nothing without a reason.
pub fn reasons(reasons: &Reasons) -> String {
    let all: Vec<String> =
        reasons.by_rows().iter().map(|(reason, rows)| format!("{}: {reason}", several(*rows, "row"))).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

/// Says that a chat template prints no system prompt, if rows have one.
pub fn without_system(rows: u64) -> Option<String> {
    let what = "the chat template does not print a system prompt";
    (rows > 0).then(|| format!("{what}: it is not in the prompt of {}", several(rows, "row")))
}

/// Formats a share as a percentage. A share that is not 0 is not shown as 0 %.
pub fn percent(part: f64, whole: f64) -> String {
    let share = if whole == 0.0 { 0.0 } else { 100.0 * part / whole };
    match share {
        0.0 => "0 %".to_string(),
        share if share < 0.05 => "< 0.1 %".to_string(),
        share => format!("{share:.1} %"),
    }
}

/// Describes the calls to a language model, if there were any.
pub fn calls(anchor: &Usage) -> Option<String> {
    let Usage { calls, cache_hits, retries, failed, tokens_in, tokens_out, cost } = *anchor;
    if calls + cache_hits == 0 {
        return None;
    }
    let [calls, cache_hits, retries, failed] = [calls, cache_hits, retries, failed].map(count);
    let [tokens_in, tokens_out] = [tokens_in, tokens_out].map(count);
    Some(format!(
        "calls     {calls} ({retries} retries, {failed} requests failed), {cache_hits} answers from the cache; \
         {tokens_in} tokens in, {tokens_out} out; cost {cost:.4}"
    ))
}

/// Formats failed files, one per line; files with the same error share a line.
pub fn failed_files(failures: &[FileFailure]) -> String {
    let mut reasons: Vec<(&FileFailure, Vec<&str>)> = Vec::new();
    for failure in failures {
        match reasons.iter_mut().find(|(first, _)| first.error == failure.error) {
            Some((_, others)) => others.push(&failure.file),
            None => reasons.push((failure, vec![])),
        }
    }
    let line = |(first, others): (&FileFailure, Vec<&str>)| match others.as_slice() {
        [] => first.to_string(),
        others => format!("{first}\n  the same holds for {}", others.join(", ")),
    };
    reasons.into_iter().map(line).collect::<Vec<_>>().join("\n  ")
}

const BROKEN_PIPE: &str = "Broken pipe (os error 32)";

pub fn is_broken_pipe(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::IoError(error) => error.kind() == io::ErrorKind::BrokenPipe,
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::IoError(_, error) => error.kind() == io::ErrorKind::BrokenPipe,
            // These errors keep only the text of their cause.
            ArrowError::CsvError(text) | ArrowError::JsonError(text) => text.contains(BROKEN_PIPE),
            _ => false,
        },
        _ => false,
    }
}

/// The beginning and the end of a text on one line, with its length.
pub fn shortened(text: Option<&str>, most: usize) -> String {
    let Some(text) = text else { return "NULL".to_string() };
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = words.chars().count();
    if length <= most {
        return words;
    }
    let half = most / 2;
    let start: String = words.chars().take(half).collect();
    let end: String = words.chars().skip(length - half).collect();
    format!("{start} … {end} ({} characters)", count(text.chars().count() as u64))
}
