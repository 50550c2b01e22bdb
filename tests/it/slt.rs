//! Runs every file of `tests/slt` against a session of asap, one session per file.
//!
//! `UPDATE=1 cargo test --test it slt` writes the engine's answers into the files. Review the diff before you commit
//! it.

use std::path::{Path, PathBuf};

use asap_llm::Llm;
use asap_udfs::Settings;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner, default_column_validator, default_validator};

struct Session(SessionContext);

#[async_trait::async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let frame = self.0.sql(sql).await?;
        let columns = frame.schema().fields().len();
        let batches = frame.collect().await?;
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(0));
        }
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &batches {
            let formatters = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                rows.push(formatters.iter().map(|column| cell(&column.value(row).to_string())).collect());
            }
        }
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "asap"
    }
}

/// Formats a value on one line, so that empty texts and line ends are visible in a test file.
fn cell(value: &str) -> String {
    if value.is_empty() {
        return "(empty)".to_string();
    }
    value.replace('\r', "\\r").replace('\n', "\\n")
}

/// White space is significant: it separates steps.
#[expect(clippy::ptr_arg, reason = "the runner's type for a normalizer")]
fn exact(line: &String) -> String {
    line.trim_end().to_string()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_gives_what_it_says() {
    let files = files(Path::new("tests/slt"));
    assert!(!files.is_empty());
    for file in files {
        let mut runner = Runner::new(|| async {
            asap_pipelines::session::session(Settings::default(), &Llm::default()).map(Session)
        });
        runner.with_normalizer(exact);
        if std::env::var_os("UPDATE").is_some() {
            runner.update_test_file(&file, " ", default_validator, exact, default_column_validator).await.unwrap();
        } else if let Err(error) = runner.run_file_async(&file).await {
            panic!("{}", error.display(false));
        }
    }
}
