//! Rows as JSON. datafusion-cli leaves out what is NULL, so that a column without values would vanish.

use std::io::Write;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::dialect::dialect_from_str;
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
    for statement in DFParser::parse_sql_with_dialect(command, dialect.as_ref())? {
        let sql = statement.to_string();
        if !is_query(&sql) {
            exec::exec_from_commands(session, vec![sql], print).await?;
            continue;
        }
        let begun = Instant::now();
        // A statement before may have set what this one is planned by.
        let plan = session.context.state().statement_to_plan(statement).await?;
        let mut rows = session.execute_logical_plan(plan).await?.execute_stream().await?;
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
