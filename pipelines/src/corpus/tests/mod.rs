//! Small files of every shape, written by the engine itself.

mod damage;
mod files;
mod json;
mod published;
mod refusals;
mod rows;
mod shapes;
mod types;

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
const READ: &str = "two? | 2 and 2 | four | NULL";
const ROWS: &str = "SELECT question, cot, answer, status FROM corpus ORDER BY source['row']";

fn context() -> SessionContext {
    session(Settings::default(), &Llm::default()).unwrap()
}

async fn write(folder: &Path, name: &str, sql: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let sql = format!("COPY ({sql}) TO '{}' STORED AS PARQUET", path.display());
    context().sql(&sql).await.unwrap().collect().await.unwrap();
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
    let mapping = mapping.map(|mapping| mapping.parse::<ColumnMapping>().unwrap());
    Corpus::open(&context().state(), &location.display().to_string(), mapping.as_ref()).await
}

/// The refusal of a file of these rows.
async fn refused(sql: &str, mapping: Option<&str>) -> String {
    refusal(folder_of(&[("a.parquet", sql)]).await.path(), mapping).await
}

async fn refusal(location: &Path, mapping: Option<&str>) -> String {
    match open(location, mapping).await {
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
    let batches = context_of(corpus).sql(sql).await.unwrap().collect().await.unwrap();
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
    rows
}

async fn recognized(sql: &str, mapping: Option<&str>) -> Vec<String> {
    let folder = folder_of(&[("a.parquet", sql)]).await;
    query(&open(folder.path(), mapping).await.unwrap(), ROWS).await
}

fn turn(role: &str, content: &str) -> String {
    format!("{{'role': '{role}', 'content': {content}}}")
}
