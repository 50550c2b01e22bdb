//! `asap sql`: SQL with the functions of asap, its table `corpus`, Delta tables, and files and folders as tables.

mod nested;
mod print;
mod prompt;
mod statements;
mod watch;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use asap_llm::Llm;
use asap_pipelines::answers::SharedAnswers;
use asap_pipelines::corpus::{CORPUS, ColumnMapping, Corpus, guarded_future};
use asap_pipelines::named_tables;
use asap_pipelines::statement::alias_of_select;
use asap_udfs::typo;
use clap::Args;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{SchemaError, exec_datafusion_err, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::errors::ParquetError;
use datafusion::prelude::SessionContext;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::{IS_QUIET, calls, complain, error_line, missing_table, no_table, note, parsed};
use crate::progress::while_opening;
use crate::signals::{Stop, unless_interrupted};
use print::{Print, RowFormat, max_rows};
use prompt::Prompt;
use watch::{Watch, end};

/// Query chain-of-thought datasets with SQL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap sql -c \"SELECT cot_steps(E'one\\n\\ntwo')\"
  asap sql --from data/sample -c \"SELECT id, cot_tokens(cot) FROM corpus LIMIT 5\"
  asap sql -c \"SELECT count(*) FROM 'data/sample/openr1-math.parquet'\" --format json -q
  asap sql -c \"SELECT id, 1.0 * pruned_tokens / original_tokens AS kept FROM 'out/pruned'\"
  asap sql -c \"SELECT status, count(*) FROM 'out/pruned/.asap/rejects' GROUP BY status\"")]
pub struct SqlArgs {
    /// Define the table corpus: a folder, file or glob pattern of Parquet or JSON lines (asap inspect shows how asap
    /// reads them)
    #[arg(long, value_name = "LOC")]
    from: Option<String>,
    /// Name the question, cot and answer columns if asap cannot recognize them. If you name no answer column, the
    /// cot column must hold the whole generation: the chain between think tags, then the answer
    #[arg(long, value_name = "question=…,cot=…,answer=…", requires = "from", value_parser = parsed::<ColumnMapping>)]
    columns: Option<ColumnMapping>,
    /// Run this SQL and exit. May be repeated; all commands run in one session
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Run the SQL of this file and exit. May be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Set the output format of rows
    #[arg(long, value_enum, default_value_t = RowFormat::Automatic)]
    format: RowFormat,
    /// Show at most this many rows of a table: a number, or inf
    #[arg(long, default_value = "40", value_parser = max_rows)]
    maxrows: usize,
    /// Highlight SQL at the prompt
    #[arg(long)]
    color: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Runs the given commands and files, else standard input, or a prompt on a terminal.
pub async fn run(args: SqlArgs) -> std::result::Result<(), Failure> {
    let settings = config::load(&args.settings)?;
    let llm = Llm::new(Some(Arc::new(SharedAnswers::new(&settings))));
    let watch = Watch::default();
    let context = named_tables::with_tables(watch.over(asap_pipelines::session::session(settings, &llm)?))?;
    let corpus = match &args.from {
        Some(from) => Some(with_corpus(&context, from, &args).await?),
        None => None,
    };
    let session = Session { context, corpus };
    let mut commands = typed(&args)?;
    let (format, max_rows, quiet) = (args.format, args.maxrows, IS_QUIET.load(Ordering::Relaxed));
    let print = Print { format, max_rows, quiet, is_expanded: false, is_whole: false };
    if args.commands.iter().any(|sql| sql.trim().is_empty()) {
        return Err(Failure::Usage("expected SQL after -c, found an empty text".to_string()));
    }
    if commands.is_empty() && std::io::stdin().is_terminal() {
        let done = Prompt { session: &session, print, llm: &llm, watch: &watch, has_color: args.color }.run().await;
        llm.drained().await;
        return done;
    }
    if commands.is_empty() {
        commands.push(without_mark(std::io::read_to_string(std::io::stdin())?));
    }
    // Only at the start: a line within a text may also begin with a backslash, as formulas do.
    if let Some(command) =
        commands.iter().filter_map(|text| text.trim().lines().next()).find(|line| line.starts_with(['\\', '.']))
    {
        return Err(Failure::Usage(format!(
            "{command} is no SQL: commands such as \\d work only at the prompt (asap sql on a terminal, without -c); in SQL, \
             query information_schema.tables, columns and routines"
        )));
    }
    run_all(&session, &commands, &print, &llm, &watch).await
}

async fn with_corpus(context: &SessionContext, from: &str, args: &SqlArgs) -> std::result::Result<Corpus, Failure> {
    let (state, places) = (context.state(), [from.to_string()]);
    let open = while_opening(&places, Corpus::open(&state, from, args.columns.as_ref()));
    let opened = unless_interrupted(async { Ok(open.await?) }).await?;
    opened.notes.iter().for_each(note);
    context.register_table(CORPUS, Arc::new(opened.view(&context.state())?))?;
    Ok(opened)
}

/// The commands of the files, then those of the command line.
fn typed(args: &SqlArgs) -> std::result::Result<Vec<String>, Failure> {
    let mut commands = Vec::new();
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        commands.push(without_mark(text));
    }
    commands.extend(args.commands.iter().cloned());
    Ok(commands)
}

async fn run_all(
    session: &Session,
    commands: &[String],
    print: &Print,
    llm: &Llm,
    watch: &Watch,
) -> std::result::Result<(), Failure> {
    let stop = Stop::listen("keeping the answers to sent requests");
    let reporting = watch.report(llm, print.quiet);
    let done = tokio::select! {
        done = execute(session, commands, print) => done.map_err(Failure::from),
        () = stop.asked() => Err(Failure::TryLater("interrupted".to_string())),
    };
    end(reporting).await;
    // Calls that were sent are paid, so their answers are kept.
    llm.drained().await;
    let done = done.and_then(|()| llm.failure().map_or(Ok(()), |error| Err(error.into())));
    let usage = llm.usage();
    let is_said = !print.quiet && (done.is_ok() || usage.tokens_in > 0);
    if let Some(calls) = calls(&usage).filter(|_| is_said) {
        complain(&calls);
    }
    done
}

fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_string)
}

async fn execute(session: &Session, commands: &[String], print: &Print) -> Result<()> {
    for command in commands {
        // Some damaged files make their reader panic.
        let failed = match guarded_future(statements::run(&session.context, command, print)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(panicked) => exec_datafusion_err!("the query failed, perhaps on a damaged file: {panicked}"),
        };
        return Err(session.with_file(with_hint(session.with_tables(failed), command)).await);
    }
    Ok(())
}

/// Explains a misspelt keyword, a list without brackets, and a missing column that is a text in the wrong quotes or a name
/// that SELECT gives.
fn with_hint(error: DataFusionError, sql: &str) -> DataFusionError {
    if let DataFusionError::SQL(..) = error.find_root() {
        let said = error_line(&error);
        return misread(&said, sql).map_or(error, |hint| plan_datafusion_err!("{said}{hint}"));
    }
    let DataFusionError::SchemaError(missing, _) = error.find_root() else { return error };
    let SchemaError::FieldNotFound { field, .. } = missing.as_ref() else { return error };
    let (message, name) = (error_line(&error), field.name());
    let words: Vec<&str> = sql.split([' ', '\n', '\t', ',', ')', ';']).filter(|word| !word.is_empty()).collect();
    let mut after_where = words.iter().skip_while(|word| !word.eq_ignore_ascii_case("where"));
    let is_given = words.windows(2).any(|pair| pair[0].eq_ignore_ascii_case("as") && pair[1] == name)
        && after_where.any(|word| word.starts_with(name));
    let is_path =
        |function: &str| sql.contains(&format!("{function}({name}/")) || sql.contains(&format!("{function}({name})"));
    if ["cot_history", "cot_corpus", "corpus_shapes"].into_iter().any(is_path) {
        return plan_datafusion_err!("a location is in single quotes: cot_history('out/pruned')");
    }
    match sql.contains(&format!("\"{name}\"")) {
        true => plan_datafusion_err!("{message}. A text is in single quotes: '{name}'"),
        false if is_given && field.relation.is_none() => plan_datafusion_err!(
            "there is no column {name} yet, since SELECT names it after WHERE: write SELECT * FROM (SELECT … AS {name} …) WHERE \
             {name} …"
        ),
        false if field.relation.is_none() => {
            alias_of_select(name, sql).map_or(error, |advice| plan_datafusion_err!("{advice}"))
        }
        false => error,
    }
}

/// Words that begin a part of a statement.
const KEYWORDS: [&str; 8] = ["SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN"];

/// What was meant by the word that the parser did not expect, or by the word before it.
fn misread(said: &str, sql: &str) -> Option<String> {
    let (found, place) = said.split_once("found: ")?.1.split_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let column: String = column.chars().take_while(char::is_ascii_digit).collect();
    let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
    let lines: Vec<&str> = sql.lines().take(line).collect();
    let (last, above) = lines.split_last()?;
    let before = above.join(" ") + " " + &last.chars().take(column.checked_sub(1)?).collect::<String>();
    let before = before.split_whitespace().last().unwrap_or_default();
    if before.eq_ignore_ascii_case("in") {
        return Some(". A list of values is in round brackets: id IN ('a', 'b')".to_string());
    }
    let near = |word: &str| typo::nearest(word, KEYWORDS).filter(|meant| !meant.eq_ignore_ascii_case(word));
    [found, before].into_iter().find_map(near).map(|meant| format!(" (did you mean {meant}?)"))
}

struct Session {
    context: SessionContext,
    corpus: Option<Corpus>,
}

impl Session {
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

    /// Adds the nearest table name to an error about a missing table.
    fn with_tables(&self, error: DataFusionError) -> DataFusionError {
        let message = error.strip_backtrace();
        let Some(table) = message.strip_prefix("Error during planning: ").and_then(missing_table) else { return error };
        let known = self.table_names();
        match known.is_empty() && typo::nearest(table, [CORPUS]).is_some() {
            true => error,
            false => plan_datafusion_err!("{}", no_table(table, known.iter().map(String::as_str))),
        }
    }

    fn table_names(&self) -> Vec<String> {
        let state = self.context.state();
        let catalogs = state.catalog_list().catalog_names().into_iter();
        let schemas = catalogs.filter_map(|name| state.catalog_list().catalog(&name)?.schema("public"));
        schemas.flat_map(|schema| schema.table_names()).collect()
    }
}
