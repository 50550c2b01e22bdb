//! Small files of every shape, written by the engine itself.

mod damage;
mod files;
mod hostile;
mod kept;
mod refusals;
mod rows;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use asap_udfs::Settings;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use super::{ColumnMapping, Corpus};
use crate::session::session;
use asap_llm::Llm;

const PLAIN: &str = "SELECT 'q' AS question, 'c' AS cot, 'a' AS answer";
const TAGGED: &str = "'<think>\n2 and 2\n</think>\nfour'";

fn context() -> SessionContext {
    session(Settings::default(), &Llm::default()).unwrap()
}

async fn write(folder: &Path, name: &str, sql: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let sql = format!("COPY ({sql}) TO '{}' STORED AS PARQUET", path.display());
    context().sql(&sql).await.unwrap().collect().await.unwrap();
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap()
}

async fn folder_of(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, sql) in files {
        write(folder.path(), name, sql).await;
    }
    folder
}

/// A corpus of one file of these rows, in a folder that must be kept.
async fn opened(sql: &str) -> (TempDir, Corpus) {
    let folder = folder_of(&[("a.parquet", sql)]).await;
    let corpus = open(folder.path(), None).await.unwrap();
    (folder, corpus)
}

async fn open(location: &Path, mapping: Option<&str>) -> datafusion::common::Result<Corpus> {
    open_in(&context(), location, mapping).await
}

async fn open_in(context: &SessionContext, path: &Path, mapping: Option<&str>) -> datafusion::common::Result<Corpus> {
    let mapping = mapping.map(str::parse::<ColumnMapping>).transpose()?;
    let corpus = Corpus::open(&context.state(), &path.display().to_string(), mapping.as_ref()).await?;
    context.deregister_table("corpus")?;
    context.register_table("corpus", Arc::new(corpus.view(&context.state())?))?;
    Ok(corpus)
}

async fn refusal(location: &Path) -> String {
    match open(location, None).await {
        Ok(_) => panic!("{} was opened", location.display()),
        Err(error) => error.to_string(),
    }
}

fn context_of(corpus: &Corpus) -> SessionContext {
    let context = context();
    context.register_table("corpus", Arc::new(corpus.view(&context.state()).unwrap())).unwrap();
    context
}

async fn query(corpus: &Corpus, sql: &str) -> Vec<String> {
    rows_of(&context_of(corpus), sql).await.unwrap()
}

async fn rows_of(context: &SessionContext, sql: &str) -> datafusion::common::Result<Vec<String>> {
    let batches = context.sql(sql).await?.collect().await?;
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join(" | "));
        }
    }
    Ok(rows)
}
