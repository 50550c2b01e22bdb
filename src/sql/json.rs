//! Rows as JSON. datafusion-cli leaves out what is NULL, so that a column without values would vanish.

use std::io::Write;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use datafusion_cli::cli_context::CliSessionContext;
use datafusion_cli::exec;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::PrintOptions;
use futures::StreamExt;

use super::{Session, is_query};

/// Runs statements, and prints the rows of each query as a list or line by line, NULL as null.
///
/// # Errors
/// If a statement fails, or nobody reads what is printed.
pub async fn run(session: &Session, command: &str, print: &PrintOptions) -> Result<()> {
    let state = session.context.state();
    let dialect = state.config_options().sql_parser.dialect;
    let dialect = dialect_from_str(dialect).ok_or_else(|| plan_datafusion_err!("no dialect is called {dialect}"))?;
    for sql in pieces(command, dialect.as_ref())? {
        let statement = match DFParser::parse_sql_with_dialect(sql, dialect.as_ref())?.pop_front() {
            Some(statement) if is_query(&statement.to_string()) => statement,
            // What is no query is run as it was written: not every statement can be written again from what was read.
            Some(_) => {
                exec::exec_from_commands(session, vec![sql.to_string()], print).await?;
                continue;
            }
            None => continue,
        };
        let begun = Instant::now();
        // A statement before may have set what this one is planned by.
        let plan = session.context.state().statement_to_plan(statement).await?;
        let rows = session.execute_logical_plan(plan).await?;
        // It holds the files that the rows are read from.
        let _held = rows.logical_plan().clone();
        let mut rows = rows.execute_stream().await?;
        let kept = MemoryConsumer::new("rows as JSON").register(session.context.task_ctx().memory_pool());
        let (mut text, mut count) = (Vec::new(), 0);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            count += batch.num_rows();
            write(&batch, print, &mut text)?;
            kept.try_resize(text.len())?;
        }
        if matches!(print.format, PrintFormat::Json) && !text.is_empty() {
            text.extend_from_slice(b"]\n");
        }
        if !print.quiet {
            let seconds = begun.elapsed().as_secs_f64();
            text.extend_from_slice(format!("{count} row(s) fetched. \nElapsed {seconds:.3} seconds.\n\n").as_bytes());
        }
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&text)?;
        stdout.flush()?;
    }
    Ok(())
}

/// The statements of a command, each as it was written.
fn pieces<'a>(command: &'a str, dialect: &dyn Dialect) -> Result<Vec<&'a str>> {
    let tokens = Tokenizer::new(dialect, command).tokenize_with_location();
    let tokens = tokens.map_err(|error| DataFusionError::from(ParserError::TokenizerError(error.to_string())))?;
    let lines: Vec<usize> = std::iter::once(0).chain(command.match_indices('\n').map(|(end, _)| end + 1)).collect();
    let mut pieces = Vec::new();
    let mut begin = 0;
    for token in tokens.into_iter().filter(|token| token.token == Token::SemiColon) {
        let Location { line, column } = token.span.start;
        let line = lines.get((line as usize).saturating_sub(1)).copied().unwrap_or(command.len());
        let place = command[line..].char_indices().nth((column as usize).saturating_sub(1));
        let end = place.map_or(command.len(), |(place, _)| line + place);
        pieces.push(&command[begin..end]);
        begin = (end + 1).min(command.len());
    }
    pieces.push(&command[begin..]);
    Ok(pieces)
}

/// Adds the rows of a batch: to a list that is still open, or line by line.
fn write(batch: &RecordBatch, print: &PrintOptions, text: &mut Vec<u8>) -> Result<()> {
    if batch.num_rows() == 0 {
        return Ok(());
    }
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    if matches!(print.format, PrintFormat::NdJson) {
        let mut lines = builder.build::<_, LineDelimited>(text);
        lines.write(batch)?;
        return Ok(lines.finish()?);
    }
    let mut list = Vec::new();
    let mut writer = builder.build::<_, JsonArray>(&mut list);
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    text.push(if text.is_empty() { b'[' } else { b',' });
    // Without the brackets of its own.
    text.extend_from_slice(list.get(1..list.len().saturating_sub(1)).unwrap_or_default());
    Ok(())
}
