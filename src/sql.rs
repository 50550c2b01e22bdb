//! `asap sql`: datafusion-cli with the functions of asap, its table `corpus` and Delta tables.

mod json;
mod nested;
mod prompt;
mod tables;
mod watch;

use std::collections::HashMap;
use std::io::{IsTerminal, Read};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use asap_pipelines::corpus::{ColumnMapping, Corpus};
use asap_pipelines::location;
use asap_pipelines::paid_answers::SharedAnswers;
use asap_pipelines::run::plan::CORPUS;
use asap_udfs::llm::Llm;
use async_trait::async_trait;
use clap::Args;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{exec_datafusion_err, plan_datafusion_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::parquet::errors::ParquetError;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::exec;
use datafusion_cli::object_storage::AwsOptions;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use futures::FutureExt;
use object_store::ObjectStore;
use url::Url;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::{calls, complain, missing_table, no_table};
use crate::progress::Opening;
use crate::signals::{Stop, unless_interrupted};
use asap_udfs::typo;
use prompt::Prompt;
use tables::is_remote;
use watch::Watch;

/// Query chain-of-thought datasets by SQL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap sql -c \"SELECT cot_steps(E'one\\n\\ntwo')\"
  asap sql --from data/sample -c \"SELECT id, cot_tokens(cot) FROM corpus LIMIT 5\"
  asap sql -c \"SELECT count(*) FROM 'data/sample/openr1-math.parquet'\" --format json -q
  asap sql -c \"SELECT id, original_tokens, pruned_tokens FROM 'out/pruned'\"
  asap sql -c \"SELECT status, count(*) FROM 'out/pruned/.asap/rejects' GROUP BY status\"")]
pub struct SqlArgs {
    /// Define the table corpus: a folder, file or pattern of Parquet or JSON lines (asap inspect says how they are read)
    #[arg(long, value_name = "LOC")]
    from: Option<String>,
    /// Say which columns are question, cot and answer, where that cannot be recognised; without an answer, cot is the
    /// whole generation: the chain between think tags, then the answer
    #[arg(long, value_name = "question=…,cot=…,answer=…", requires = "from")]
    columns: Option<ColumnMapping>,
    /// Run a command and exit; may be repeated, all in one session
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Run the commands of a file and exit; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t = PrintFormat::Automatic)]
    format: PrintFormat,
    /// The most rows that a table shows: a number, or inf
    #[arg(long, default_value = "40")]
    maxrows: MaxRows,
    /// Print rows only
    #[arg(short, long)]
    quiet: bool,
    /// Highlight what is typed at the prompt
    #[arg(long)]
    color: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Runs what was typed; without commands or files what standard input holds, or a prompt on a terminal.
pub async fn run(args: SqlArgs) -> std::result::Result<(), Failure> {
    let settings = config::load(&args.settings)?;
    let llm = Llm::new(Some(Arc::new(SharedAnswers::new(&settings))));
    let watch = Watch::default();
    let context = tables::with_tables(watch.over(asap_pipelines::session::session(settings, &llm)?))?;
    let mut corpus = None;
    if let Some(from) = &args.from {
        let state = context.state();
        let opening = Opening::of(std::slice::from_ref(from), args.quiet);
        let opened = unless_interrupted(async { Ok(Corpus::open(&state, from, args.columns.as_ref()).await?) }).await?;
        drop(opening);
        if !args.quiet {
            opened.notes.iter().for_each(|note| complain(&format!("note: {note}")));
        }
        context.register_table(CORPUS, Arc::new(opened.view(&context.state())?))?;
        corpus = Some(opened);
    }
    let session = Session { context, corpus, is_csv: AtomicBool::new(false) };

    let mut commands = Vec::new();
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        commands.push(without_mark(text));
    }
    commands.extend(args.commands);

    let is_table = matches!(args.format, PrintFormat::Table | PrintFormat::Automatic);
    let print = PrintOptions {
        format: args.format,
        quiet: args.quiet,
        // What a program reads is never cut.
        maxrows: if is_table { args.maxrows } else { MaxRows::Unlimited },
        color: args.color,
        instrumented_registry: Arc::new(InstrumentedObjectStoreRegistry::new()),
    };
    if commands.is_empty() && std::io::stdin().is_terminal() {
        let done = Prompt { session: &session, print, llm: &llm, watch: &watch, is_expanded: false }.run().await;
        llm.landed().await;
        return done;
    }
    if commands.is_empty() {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        commands.push(without_mark(text));
    }
    if let Some(command) =
        commands.iter().flat_map(|text| text.lines()).find(|line| line.trim_start().starts_with('\\'))
    {
        return Err(Failure::Usage(format!(
            "{} is for the prompt (asap sql on a terminal, without -c); in SQL information_schema.tables, columns and \
             routines hold the same",
            command.trim()
        )));
    }
    let stop = Stop::listen("keeping what was asked");
    let telling = watch.tell(&llm, args.quiet);
    let done = tokio::select! {
        done = execute(&session, commands, &print) => done.map_err(Failure::from),
        () = stop.asked() => Err(Failure::TryLater("interrupted".to_string())),
    };
    telling.end().await;
    // Calls that were sent are paid, so their answers are kept.
    llm.landed().await;
    let verdict = llm.unanswered().or_else(|| llm.verdict());
    let done = done.and_then(|()| verdict.map_or(Ok(()), |why| Err(Failure::Failed(why))));
    if let Some(calls) = calls(&llm.usage()).filter(|_| !args.quiet) {
        complain(&calls);
    }
    done
}

/// Text without the byte order mark that some editors put before it.
fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_string)
}

async fn execute(session: &Session, commands: Vec<String>, print: &PrintOptions) -> Result<()> {
    session.is_csv.store(matches!(print.format, PrintFormat::Csv | PrintFormat::Tsv), Ordering::Relaxed);
    for command in commands {
        session.check_stores(&command)?;
        // Some damage to a file makes its reader panic.
        let run = async {
            match print.format {
                PrintFormat::Json | PrintFormat::NdJson => json::run(session, &command, print).await,
                _ => exec::exec_from_commands(session, vec![command.clone()], print).await,
            }
        };
        let work = AssertUnwindSafe(run).catch_unwind();
        let failed = match work.await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(_) => exec_datafusion_err!("the query stopped by a panic, which is told above"),
        };
        return Err(session.with_file(session.with_tables(failed)).await);
    }
    Ok(())
}

/// Whether a statement returns rows, so that these can be listed.
fn is_query(sql: &str) -> bool {
    let first = sql.trim_start_matches('(').split_whitespace().next().unwrap_or_default().to_uppercase();
    ["SELECT", "WITH", "VALUES", "TABLE", "FROM", "SHOW", "DESCRIBE"].contains(&first.as_str())
}

/// The session as datafusion-cli sees it. Object stores stay the session's own: they know our credentials.
struct Session {
    context: SessionContext,
    corpus: Option<Corpus>,
    /// Whether rows are printed in a format that has no nested values.
    is_csv: AtomicBool,
}

impl Session {
    /// A failure of a reader with the name of its file.
    async fn with_file(&self, error: DataFusionError) -> DataFusionError {
        let is_of_reader = match error.find_root() {
            DataFusionError::ParquetError(_) => true,
            DataFusionError::ArrowError(error, _) => match error.as_ref() {
                ArrowError::ExternalError(inner) => inner.is::<ParquetError>(),
                error => matches!(error, ArrowError::ParquetError(_)),
            },
            _ => false,
        };
        let damaged = match &self.corpus {
            Some(corpus) if is_of_reader => corpus.damaged(&self.context.state()).await,
            _ => None,
        };
        damaged.map_or(error, DataFusionError::from)
    }

    /// A failure that a table is not there, with the name of the one that may be meant.
    fn with_tables(&self, error: DataFusionError) -> DataFusionError {
        let message = error.strip_backtrace();
        let Some(table) = message.strip_prefix("Error during planning: ").and_then(missing_table) else { return error };
        let known = self.table_names();
        match known.is_empty() && typo::nearest(table, [CORPUS]).is_some() {
            true => error,
            false => plan_datafusion_err!("{}", no_table(table, known.iter().map(String::as_str))),
        }
    }

    /// The tables that statements can name.
    fn table_names(&self) -> Vec<String> {
        let state = self.context.state();
        let catalogs = state.catalog_list().catalog_names().into_iter();
        let schemas = catalogs.filter_map(|name| state.catalog_list().catalog(&name)?.schema("public"));
        schemas.flat_map(|schema| schema.table_names()).collect()
    }

    fn store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.context.runtime_env().object_store_registry.get_store(url)
    }

    /// Asks for the stores of a command's tables and files, for datafusion-cli does not say why it gets none.
    fn check_stores(&self, command: &str) -> Result<()> {
        // What cannot be parsed is said better where it is executed.
        let Ok(statements) = DFParser::parse_sql(command) else { return Ok(()) };
        for statement in statements {
            let named = match statement {
                Statement::CreateExternalTable(create) => create.locations,
                Statement::CopyTo(copy) => vec![copy.target],
                _ => continue,
            };
            for named in named.iter().filter(|named| is_remote(named)) {
                self.store(&location::parse(named)?)?;
            }
        }
        Ok(())
    }
}

/// A location in a statement as the rest of asap knows it.
fn checked(named: &str, options: &HashMap<String, String>) -> Result<String> {
    if let Some(option) = options.keys().find(|key| key.starts_with("aws.") || key.starts_with("gcp.")) {
        return plan_err!(
            "the option {option}: what an object store asks for is taken from the environment, under the names that its \
             own tools use (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, …)"
        );
    }
    if is_remote(named) { Ok(location::parse(named)?.into()) } else { Ok(named.to_string()) }
}

#[async_trait]
impl CliSessionContext for Session {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.context.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.context.state()
    }

    fn register_object_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        // Standard input can be read once, and this store has.
        if url.scheme() == "stdin" {
            return self.context.register_object_store(url, store);
        }
        self.store(url).ok()
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(&self.context, scheme);
        if scheme == "s3" {
            // datafusion-cli makes a store before it asks for ours. With these it asks neither AWS nor the machine for
            // credentials and the bucket's region, which would fail, or take its time, where ours need not.
            let set = |value: &str| Some(value.to_string());
            let (access_key_id, secret_access_key, region) = (set("unused"), set("unused"), set("us-east-1"));
            let options = AwsOptions { access_key_id, secret_access_key, region, ..AwsOptions::default() };
            self.context.register_table_options_extension(options);
        }
    }

    async fn execute_logical_plan(&self, mut plan: LogicalPlan) -> Result<DataFrame, DataFusionError> {
        match &mut plan {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) => {
                for named in &mut create.locations {
                    *named = checked(named, &create.options)?;
                }
            }
            LogicalPlan::Copy(copy) => {
                copy.output_url = checked(&copy.output_url, &copy.options)?;
                if copy.file_type.get_ext() == "csv" {
                    let rows = DataFrame::new(self.context.state(), copy.input.as_ref().clone());
                    copy.input = Arc::new(nested::as_json(rows)?.into_unoptimized_plan());
                }
            }
            _ => {}
        }
        let rows = self.context.execute_logical_plan(plan).await.map_err(|error| match error {
            // Where it sees one of these, datafusion-cli asks AWS for the region of the bucket and starts again.
            DataFusionError::ObjectStore(_) => error.context("the object store failed"),
            error => error,
        })?;
        if self.is_csv.load(Ordering::Relaxed) { nested::as_json(rows) } else { Ok(rows) }
    }
}
