//! What was typed becomes one of asap's commands.
//!
//! Exit codes: 0 done or nothing to do (also with rejects), 1 failed, 2 usage or configuration, 3 too many rejects or a file
//! failed, 4 lost to another run, 75 try later.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use asap_pipelines::log::OutcomeUnknown;
use asap_pipelines::run::{Interrupted, OtherSnapshot, TooManyRejects};
use clap::{Args, Parser, Subcommand, ValueEnum};
use datafusion::error::DataFusionError;
use tracing_subscriber::EnvFilter;

use crate::output::{Log, error_line, is_broken_pipe};
use crate::{cache, lake, run, sample, schedule, sql, train};

/// Prunes chain-of-thought corpora, so that reasoning models can be fine-tuned for a fraction of the cost.
#[derive(Debug, Parser)]
#[command(
    name = "asap",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  asap run pipelines/sql/asap.sql --from data/sample --to out/pruned
  asap sql --from data/sample -c \"SELECT id, cot_tokens(cot) FROM corpus LIMIT 5\"
  asap sql -c \"SELECT name, value, description FROM information_schema.df_settings WHERE name LIKE 'asap.%'\"

Every command says more: asap run --help"
)]
struct Cli {
    /// Tell what happens on standard error, an event a line; else only warnings are told
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    log: Option<LogFormat>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Sql(sql::SqlArgs),
    Status(lake::StatusArgs),
    History(lake::HistoryArgs),
    Verify(lake::VerifyArgs),
    Vacuum(lake::VacuumArgs),
    Optimize(lake::OptimizeArgs),
    Export(lake::ExportArgs),
    Cache(cache::CacheArgs),
    Sample(sample::SampleArgs),
    Schedule(schedule::ScheduleArgs),
    Train(train::TrainArgs),
}

/// Where settings come from beside SQL: a file, the environment, flags.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingArgs {
    /// Set a setting, such as asap.refine.max_tokens=2048; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The settings file [default: ./asap.toml, else $XDG_CONFIG_HOME/asap/config.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Why a command ended without success.
#[derive(Debug)]
pub enum Failure {
    /// What was typed or set cannot be meant: exit code 2.
    Usage(String),
    /// The work failed: exit code 1.
    Failed(String),
    /// Too many rows were rejected, or a file failed; the rest is done: exit code 3.
    TooManyRejects(String),
    /// Another run did it first: exit code 4.
    OtherRun(String),
    /// The same command later goes on: exit code 75.
    TryLater(String),
    /// Whoever read our output has seen enough: exit code 0.
    ReaderGone,
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        if is_broken_pipe(&error) {
            return Failure::ReaderGone;
        }
        let message = error_line(&error);
        match error.find_root() {
            DataFusionError::Configuration(_) => Failure::Usage(message),
            DataFusionError::External(cause)
                if cause.is::<OutcomeUnknown>() || cause.is::<Interrupted>() || cause.is::<OtherSnapshot>() =>
            {
                Failure::TryLater(message)
            }
            DataFusionError::External(cause) if cause.is::<TooManyRejects>() => Failure::TooManyRejects(message),
            _ => Failure::Failed(message),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::Failed(error.to_string()),
        }
    }
}

/// What is told on standard error where `RUST_LOG` does not say otherwise: warnings of our own.
const TOLD: &str = "asap=warn,asap_pipelines=warn,asap_udfs=warn";

/// The same where events are asked for.
const TOLD_ALL: &str = "asap=info,asap_pipelines=info,asap_udfs=info";

/// How events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    // One object a line.
    Json,
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    hide_expected_panic();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not failures; if nobody reads them that is no failure either.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    tell(cli.log);
    let result = match cli.command {
        Command::Run(args) => block_on(run::run(args)),
        Command::Sql(args) => block_on(sql::run(args)),
        Command::Status(args) => block_on(lake::status(args)),
        Command::History(args) => block_on(lake::history(args)),
        Command::Verify(args) => block_on(lake::verify(args)),
        Command::Vacuum(args) => block_on(lake::vacuum(args)),
        Command::Optimize(args) => block_on(lake::optimize(args)),
        Command::Export(args) => block_on(lake::export(args)),
        Command::Cache(args) => block_on(cache::run(args)),
        Command::Sample(args) => sample::run(args),
        Command::Schedule(args) => block_on(schedule::run(args)),
        Command::Train(args) => train::run(args),
    };
    finish(result)
}

/// Tells events on standard error.
fn tell(format: Option<LogFormat>) {
    let by_default = if format.is_some() { TOLD_ALL } else { TOLD };
    let told = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(by_default));
    let subscriber = tracing_subscriber::fmt().with_env_filter(told).with_writer(|| Log).with_target(false);
    match format {
        Some(LogFormat::Json) => {
            crate::output::complain_as_json();
            subscriber.json().flatten_event(true).init();
        }
        _ => subscriber.with_ansi(std::io::stderr().is_terminal()).init(),
    }
}

pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    // What is still being computed when a command is over is for nobody.
    runtime.shutdown_background();
    result
}

/// Where a shard cannot be written, deltalake gives its upload up by a call that panics on purpose, and catches that. The
/// failure itself is reported; the panic is no news for people.
fn hide_expected_panic() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let from_upload = panic.location().is_some_and(|place| place.file().ends_with("src/buffered.rs"));
        if !(from_upload && panic.payload_as_str() == Some("Already shut down")) {
            shown(panic);
        }
    }));
}

fn finish(result: Result<(), Failure>) -> ExitCode {
    let (code, message) = match result {
        Ok(()) | Err(Failure::ReaderGone) => return ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => (1, message),
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::TooManyRejects(message)) => (3, message),
        Err(Failure::OtherRun(message)) => (4, message),
        Err(Failure::TryLater(message)) => (75, message),
    };
    crate::output::complain(&format!("error: {message}"));
    ExitCode::from(code)
}
