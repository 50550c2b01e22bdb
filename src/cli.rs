//! Parses the command line and runs a command.
//!
//! Exit codes: 0 done or nothing to do (also with rejects), 1 failed, 2 usage or configuration, 3 too many rejects or a
//! file failed, 4 another run committed first, 75 try later.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use asap_kernels::front_end::either;
use asap_pipelines::location::command as copied;
use asap_pipelines::statement::STACK_BYTES;
use asap_udfs::typo;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;
use crate::output::{IS_QUIET, IS_WIDE, Log, complain, complain_as_json, first_paragraph, plain, print};
#[cfg(feature = "schedule")]
use crate::schedule;
use crate::signals::unless_interrupted;
use crate::terminal::is_hidden;
#[cfg(feature = "train")]
use crate::train;
#[cfg(feature = "view")]
use crate::view;
use crate::{config, downloads, export, feed, generate, inspect, model, run, sql, table};
#[cfg(feature = "eval")]
use crate::{eval, exam};

/// Prune chain-of-thought corpora, so that reasoning models can be fine-tuned at a fraction of the cost.
#[derive(Debug, Parser)]
#[command(
    name = "asap",
    version = asap_pipelines::VERSION,
    propagate_version = true,
    after_help = "\
Examples:
  asap inspect data/sample
  asap run asap --from data/sample --to out/pruned
  asap sql --from data/sample -c \"SELECT id, cot_tokens(cot) FROM corpus LIMIT 5\"
  asap sql -c \"SELECT name, value, description FROM information_schema.df_settings WHERE name LIKE 'asap.%'\"

Run a command with --help for its options and examples: asap run --help"
)]
struct Cli {
    /// Print only results and errors: no notes, no progress, and no summary of work except as json
    #[arg(short, long, global = true, display_order = 0)]
    quiet: bool,
    /// Log events to stderr, as --log text
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Log events to stderr, one event per line (default: warnings only)
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    log: Option<LogFormat>,
    /// Show tables whole, even if they are wider than the terminal
    #[arg(long, global = true, display_order = 0)]
    wide: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::InspectArgs),
    Model(model::ModelArgs),
    #[cfg(feature = "view")]
    View(view::ViewArgs),
    Run(run::RunArgs),
    Sql(sql::SqlArgs),
    Table(table::TableArgs),
    Export(export::ExportArgs),
    #[cfg(feature = "schedule")]
    Schedule(schedule::ScheduleArgs),
    Feed(feed::FeedArgs),
    #[cfg(feature = "train")]
    Train(train::TrainArgs),
    Generate(generate::GenerateArgs),
    #[cfg(feature = "eval")]
    Eval(Box<eval::EvalArgs>),
    #[cfg(feature = "eval")]
    Exam(exam::ExamArgs),
    Completions(CompletionsArgs),
    #[cfg(feature = "eval")]
    SandboxedPython(SandboxedPythonArgs),
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap completions bash > ~/.local/share/bash-completion/completions/asap
  asap completions zsh > ~/.zfunc/_asap
  asap completions fish > ~/.config/fish/completions/asap.fish")]
struct CompletionsArgs {
    /// Complete for this shell
    shell: Shell,
}

/// Restrict this process and replace it by Python: asap starts it for each generated program
#[cfg(feature = "eval")]
#[derive(Debug, Args)]
#[command(hide = true)]
struct SandboxedPythonArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The log filter without `RUST_LOG` and `--log`: warnings of our own crates.
const LOGGED: &str = "asap=warn,asap_pipelines=warn,asap_udfs=warn";

const LOGGED_ALL: &str = "asap=info,asap_pipelines=info,asap_udfs=info";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub fn main() -> ExitCode {
    ExitCode::from(main_with(std::env::args_os().collect()))
}

/// Runs the command of these arguments, which begin with the name of the program. Returns its exit code.
pub fn main_with(arguments: Vec<OsString>) -> u8 {
    hide_expected_panic();
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed.map_err(|error| error.format(&mut command)) {
        Ok(cli) => cli,
        Err(error) => {
            match refusal(&error, &arguments) {
                Some(message) => complain(&message),
                // An argument may be the name of a file that somebody else chose, so it is not printed with the colors.
                None if error.use_stderr() => {
                    let text = either(error.render().to_string(), format!("error: {}", first_paragraph(&error)));
                    complain(plain(&text).trim_end());
                }
                None => drop(error.print()),
            }
            // Help and version are not failures, even if no one reads them.
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    log_events(cli.log.or(cli.verbose.then_some(LogFormat::Text)));
    IS_QUIET.store(cli.quiet, Ordering::Relaxed);
    IS_WIDE.store(cli.wide, Ordering::Relaxed);
    if !cli.quiet {
        downloads::show();
    }
    let result = match cli.command {
        Command::Inspect(args) => block_on(|| unless_interrupted(inspect::run(args))),
        Command::Model(args) => block_on(|| model::run(args)),
        #[cfg(feature = "view")]
        Command::View(args) => block_on(|| view::run(args)),
        Command::Run(args) => block_on(|| run::run(args)),
        Command::Sql(args) => block_on(|| sql::run(args)),
        Command::Table(args) => block_on(|| table::run(args)),
        Command::Export(args) => block_on(|| export::run(args)),
        #[cfg(feature = "schedule")]
        Command::Schedule(args) => block_on(|| schedule::run(args)),
        Command::Feed(args) => refuse_terminal().and_then(|()| block_on(|| unless_interrupted(feed::run(args)))),
        #[cfg(feature = "train")]
        Command::Train(args) => block_on(|| train::run(args)),
        Command::Generate(args) => block_on(|| unless_interrupted(generate::run(args))),
        #[cfg(feature = "eval")]
        Command::Eval(args) => block_on(|| unless_interrupted(eval::run(*args))),
        #[cfg(feature = "eval")]
        Command::Exam(args) => block_on(|| exam::run(args)),
        Command::Completions(args) => complete(args.shell),
        // No thread has been started: the restrictions bind this one.
        #[cfg(feature = "eval")]
        Command::SandboxedPython(args) => Err(Failure::Failed(asap_programs::enter(&args.arguments).to_string())),
    };
    finish(result)
}

/// The commands by what a user wants to do.
const JOBS: [(&str, &[&str]); 6] = [
    ("Look", &["inspect", "model", "view"]),
    ("Prune", &["run", "export"]),
    ("Query", &["sql"]),
    ("Train", &["feed", "train"]),
    ("Judge", &["generate", "eval", "exam"]),
    ("Other commands", &["table", "schedule", "completions"]),
];

/// The command line, whose help lists the commands by job.
fn command() -> clap::Command {
    let command = Cli::command();
    // A build may lack optional commands.
    let about = |name: &&str| {
        let about = command.find_subcommand(name)?.get_about();
        Some(format!("  {name:<13}{}", about.map_or(String::new(), ToString::to_string)))
    };
    let job = |(job, names): &(&str, &[&str])| {
        format!("{job}:\n{}\n", names.iter().filter_map(about).collect::<Vec<_>>().join("\n"))
    };
    let jobs = JOBS.iter().map(job).collect::<Vec<_>>().join("\n");
    with_numbers(command).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{jobs}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// Lets the values of all flags be negative numbers, so that their parsers say what they take.
fn with_numbers(command: clap::Command) -> clap::Command {
    let arguments = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command.mut_args(arguments).mut_subcommands(with_numbers)
}

/// What to type instead of commands and flags, by the command that they follow. `LOC` is an argument that no flag takes.
/// Former commands that [`table`] took over are not here.
#[rustfmt::skip]
const INSTEAD: [(&str, &str, &str); 31] = [
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
    ("asap run", "--jobs|--threads|--workers", "asap run computes on all cores; --part K/N shares the work among processes"),
    ("asap sql", "--format", "asap sql --format takes csv, tsv, table, json, nd-json (JSON lines) or automatic"),
    ("asap train", "LOC", "name the corpus with --data, and the model's folder with --out"),
    ("asap view", "LOC", "to compare it with a second output, pass that one to --against"),
    ("asap view", "--chain", "asap view has no --chain: type FILE:ROW or an id into its search, or run asap inspect LOC --chain FILE:ROW"),
    ("asap view", "--format", "asap view has no --format: it writes a report by the ending of --to: report.html, report.md or report.json"),
    ("asap view", "--host", "asap view answers only on this machine: to look from another one, forward its port there, as with ssh -L 8000:127.0.0.1:8000 HOST and --port 8000"),
];

/// A hint for words where clap's own tip does not help: former commands and flags, settings as flags, and SQL without
/// `-c`.
fn refusal(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
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
            format!("expected {what}, found '{typed}': run {}", copied(&["asap", "sql", flag, typed]))
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

/// An argument that no flag takes.
fn unexpected(command: &clap::Command, path: &str, typed: &str, arguments: &[OsString]) -> Option<String> {
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
    let hint = typo::hint(typed, command.get_subcommands().map(|command| command.get_name()));
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

fn complete(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "asap", &mut script);
    Ok(print(String::from_utf8_lossy(&script).trim_end())?)
}

/// `asap feed` writes binary batches, which a terminal cannot show.
fn refuse_terminal() -> Result<(), Failure> {
    let what = "asap feed writes Arrow batches, but stdout is a terminal: redirect it to a file (> steps.arrow) or pipe it \
                to a program";
    if std::io::stdout().is_terminal() { Err(Failure::Usage(what.to_string())) } else { Ok(()) }
}

/// Prepares a process that calls asap as a library: it logs warnings to stderr, as the commands do.
pub fn log_warnings() {
    hide_expected_panic();
    downloads::show();
    log_events(None);
}

/// A process may have chosen another log before.
fn log_events(format: Option<LogFormat>) {
    let by_default = if format.is_some() { LOGGED_ALL } else { LOGGED };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(by_default));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Log).with_target(false);
    match format {
        Some(LogFormat::Json) => {
            complain_as_json();
            drop(subscriber.json().flatten_event(true).try_init());
        }
        // Colors are control characters, which the lines that are shown have none of.
        _ => drop(subscriber.with_ansi(false).try_init()),
    }
}

/// Returns the runtime of a process.
///
/// # Errors
/// If the system starts no thread.
pub fn runtime() -> std::io::Result<Runtime> {
    // One slice more than there are cores computes at the same time. A further thread serves signals, timers and
    // connections.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 2;
    // Deep expressions are evaluated by recursion.
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).thread_stack_size(STACK_BYTES).enable_all().build()
}

/// Runs a command on a thread of its own: a deep expression is planned by recursion, and the stack of the first thread may
/// be small.
fn block_on<F: Future<Output = Result<(), Failure>>>(command: impl FnOnce() -> F + Send) -> Result<(), Failure> {
    let work = || {
        let runtime = runtime()?;
        let result = runtime.block_on(command());
        // No one waits for computations that outlive the command.
        runtime.shutdown_background();
        result
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// If a shard cannot be written, deltalake aborts its upload with a deliberate panic, and catches it. The failure
/// itself is reported, so this panic is not shown.
fn hide_expected_panic() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if asap_pipelines::corpus::is_guarded() {
            return;
        }
        let from_upload = panic.location().is_some_and(|place| place.file().ends_with("src/buffered.rs"));
        let said = panic.payload_as_str().unwrap_or_default();
        match said.contains(is_hidden) {
            _ if from_upload && said == "Already shut down" => {}
            // A panic may quote a text of the corpus.
            true => complain(&format!("error: a thread panicked: {said}")),
            false => shown(panic),
        }
    }));
}

fn finish(result: Result<(), Failure>) -> u8 {
    let (code, message) = match result {
        Ok(()) | Err(Failure::ReaderGone) => return 0,
        Err(Failure::Failed(message) | Failure::Refused(message) | Failure::BudgetSpent { message, .. }) => {
            (1, message)
        }
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::TooManyRejects(message) | Failure::FileFailed(message)) => (3, message),
        Err(Failure::OtherRun(message)) => (4, message),
        Err(Failure::TryLater(message) | Failure::Conflict(message) | Failure::Stopped(message)) => (75, message),
    };
    complain(&format!("error: {message}"));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_job() {
        let mut listed: Vec<_> = JOBS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = Cli::command();
        let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut commands: Vec<_> = commands.map(|command| command.get_name()).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }
}
