//! Tests of the log on local files.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::json;

use crate::delta::*;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]))
}

fn table() -> (tempfile::TempDir, Url) {
    crate::delta::stores::register();
    let folder = tempfile::tempdir().unwrap();
    let url = Url::from_directory_path(folder.path().join("table")).unwrap();
    (folder, url)
}

async fn create(url: &Url) -> Log {
    Log::create(url, schema(), &[], HashMap::from([("x".to_string(), Some("1".to_string()))])).await.unwrap()
}

fn says(application: &str, version: i64) -> Vec<String> {
    commit("WRITE", "Append", json!({}), vec![transaction(application, version)])
}

#[tokio::test]
async fn a_log_is_read_from_its_last_checkpoint() {
    let (folder, url) = table();
    let mut log = create(&url).await;
    for version in 1..=103 {
        assert_eq!(
            log.commit(|_| Ok(says(&format!("app {}", version % 7), version))).await.unwrap(),
            Some(version as u64)
        );
    }
    let log_folder = folder.path().join("table/_delta_log");
    assert!(log_folder.join("00000000000000000100.checkpoint.parquet").exists());
    for version in 0..100 {
        std::fs::remove_file(log_folder.join(format!("{version:020}.json"))).unwrap();
    }
    let read = Log::open(&url).await.unwrap().unwrap();
    assert_eq!(read.state.version, 103);
    assert_eq!(read.state.transactions, log.state.transactions);
    std::fs::remove_file(log_folder.join("00000000000000000102.json")).unwrap();
    let error = Log::open(&url).await.unwrap_err().to_string();
    assert!(error.contains("version 102 is missing"), "{error}");
}
