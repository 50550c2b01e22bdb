//! Parses the command line and runs a command.
//!
//! Exit codes: 0 done or nothing to do (also with rejects), 1 failed, 2 usage or configuration, 3 too many rejects or a
//! file failed, 4 another run committed first, 75 try later.

mod refusal;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use asap_kernels::front_end::either;
use asap_pipelines::statement::STACK_BYTES;
use clap::error::ErrorKind;
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
use crate::{downloads, export, feed, generate, inspect, model, run, sql, table};
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
    if let Some(message) = refusal::help(&arguments) {
        complain(&message);
        return 2;
    }
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed.map_err(|error| error.format(&mut command)) {
        Ok(cli) => cli,
        Err(error) => {
            match refusal::refusal(&error, &arguments) {
                Some(message) => complain(&message),
                // An argument may be the name of a file that somebody else chose, so it is not printed with the colors.
                None if error.use_stderr() => {
                    let text = either(error.render().to_string(), format!("error: {}", first_paragraph(&error)));
                    complain(without_help(plain(&text).trim_end(), error.kind()));
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

/// The message of an error. One on a wrong value says what the flag takes, so the help adds nothing.
fn without_help(text: &str, kind: ErrorKind) -> &str {
    match kind {
        ErrorKind::ValueValidation => text.split("\n\nFor more information, try").next().unwrap_or(text),
        _ => text,
    }
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
