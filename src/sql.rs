//! `asap sql`: datafusion-cli with the functions of asap, its table `corpus` and Delta tables.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;

use asap_pipelines::answers::SharedAnswers;
use asap_pipelines::corpus::{ColumnMapping, Corpus};
use asap_pipelines::location;
use asap_pipelines::run::plan::CORPUS;
use asap_udfs::llm::Llm;
use async_trait::async_trait;
use clap::Args;
use datafusion::catalog::{Session as EngineSession, TableProvider, TableProviderFactory};
use datafusion::common::plan_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{CreateExternalTable, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::exec;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use deltalake_core::delta_datafusion::DeltaTableFactory;
use object_store::ObjectStore;
use url::Url;

use crate::cli::{Failure, SettingArgs};
use crate::config;
use crate::output::complain;
use crate::run::calls;

/// Query chain-of-thought datasets by SQL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap sql -c \"SELECT cot_steps(E'one\\n\\ntwo')\"
  asap sql --from data/sample -c \"SELECT id, cot_tokens(cot) FROM corpus LIMIT 5\"
  asap sql -c \"SELECT count(*) FROM 'data/sample/openr1-math.parquet'\" --format json -q
  asap sql -c \"CREATE EXTERNAL TABLE pruned STORED AS DELTATABLE LOCATION 'out/pruned'\" -c \"SELECT * FROM pruned\"")]
pub struct SqlArgs {
    /// Define the table corpus: a folder or file of Parquet in any published shape
    #[arg(long, value_name = "LOC")]
    from: Option<String>,
    /// Say which columns are question, cot and answer, where that cannot be recognised; without an answer, cot is the
    /// whole generation: the chain between think tags, then the answer
    #[arg(long, value_name = "question=…,cot=…,answer=…", requires = "from")]
    columns: Option<String>,
    /// Run a command and exit; may be repeated, all in one session
    #[arg(short = 'c', long = "command", value_name = "SQL")]
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
    let context = asap_pipelines::session::session(settings, &llm)?;
    context.state_ref().write().table_factories_mut().insert("DELTATABLE".to_string(), Arc::new(DeltaTables));
    let context = context.enable_url_table();
    if let Some(from) = &args.from {
        let mapping = args.columns.as_deref().map(str::parse::<ColumnMapping>).transpose()?;
        let corpus = Corpus::open(&context.state(), from, mapping.as_ref()).await?;
        if !args.quiet {
            corpus.notes.iter().for_each(|note| complain(&format!("note: {note}")));
        }
        context.register_table(CORPUS, Arc::new(corpus.view(&context.state())?))?;
    }
    let session = Session(context);

    let mut commands = Vec::new();
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        commands.push(text);
    }
    commands.extend(args.commands);

    let is_table = matches!(args.format, PrintFormat::Table | PrintFormat::Automatic);
    let mut print = PrintOptions {
        format: args.format,
        quiet: args.quiet,
        // What a program reads is never cut.
        maxrows: if is_table { args.maxrows } else { MaxRows::Unlimited },
        color: args.color,
        instrumented_registry: Arc::new(InstrumentedObjectStoreRegistry::new()),
    };
    if commands.is_empty() && std::io::stdin().is_terminal() {
        return exec::exec_from_repl(&session, &mut print).await.map_err(|error| Failure::Failed(error.to_string()));
    }
    if commands.is_empty() {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        commands.push(text);
    }
    let done = exec::exec_from_commands(&session, commands, &print).await;
    if let Some(calls) = calls(&llm.usage()).filter(|_| !args.quiet) {
        complain(&calls);
    }
    Ok(done?)
}

/// Delta tables by their location. Where there is none, that is said, and no folder is made.
#[derive(Debug)]
struct DeltaTables;

#[async_trait]
impl TableProviderFactory for DeltaTables {
    async fn create(
        &self,
        session: &dyn EngineSession,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        for named in &command.locations {
            let path = location::local_path(&location::folder(named)?);
            if path.is_some_and(|path| !path.join("_delta_log").is_dir()) {
                return plan_err!("there is no Delta table at {named}");
            }
        }
        DeltaTableFactory {}.create(session, command).await
    }
}

/// The session as datafusion-cli sees it. Object stores stay the session's own: they know our credentials.
struct Session(SessionContext);

#[async_trait]
impl CliSessionContext for Session {
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.0.task_ctx()
    }

    fn session_state(&self) -> SessionState {
        self.0.state()
    }

    fn register_object_store(&self, url: &Url, _store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.runtime_env().object_store_registry.get_store(url).ok()
    }

    fn register_table_options_extension_from_scheme(&self, scheme: &str) {
        CliSessionContext::register_table_options_extension_from_scheme(&self.0, scheme);
    }

    async fn execute_logical_plan(&self, plan: LogicalPlan) -> Result<DataFrame, DataFusionError> {
        self.0.execute_logical_plan(plan).await
    }
}
