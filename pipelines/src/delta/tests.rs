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
async fn who_makes_a_table_second_finds_the_first() {
    let (_folder, url) = table();
    assert!(Log::open(&url).await.unwrap().is_none());
    let (one, two) = (create(&url).await, create(&url).await);
    assert_eq!(one.state.metadata.id, two.state.metadata.id);
    assert_eq!((one.state.version, one.state.metadata.configuration["x"].as_str()), (0, "1"));
    assert_eq!(one.state.schema().unwrap(), *schema());
}

#[tokio::test]
async fn a_commit_is_prepared_anew_on_what_another_one_did() {
    let (_folder, url) = table();
    let (mut one, mut two) = (create(&url).await, create(&url).await);
    assert_eq!(one.commit(|_| Ok(says("x", 1))).await.unwrap(), Some(1));
    let mut seen = Vec::new();
    let prepare = |state: &LogState| {
        seen.push(state.transactions.contains_key("x"));
        Ok(if state.transactions.contains_key("x") { vec![] } else { says("x", 3) })
    };
    assert_eq!(two.commit(prepare).await.unwrap(), None);
    assert_eq!(seen, [false, true]);
    assert_eq!(two.state.transactions["x"].version, 1);
}

#[tokio::test]
async fn a_commit_that_is_there_already_by_its_own_bytes_is_ours() {
    let (folder, url) = table();
    let mut log = create(&url).await;
    let lines = says("x", 1);
    // What a lost reply leaves.
    let path = folder.path().join("table/_delta_log/00000000000000000001.json");
    std::fs::write(path, lines.join("\n")).unwrap();
    assert_eq!(log.commit(|_| Ok(lines.clone())).await.unwrap(), Some(1));
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

#[tokio::test]
async fn two_who_commit_at_once_both_get_in_once() {
    let (_folder, url) = table();
    create(&url).await;
    let writers = (0..4).map(|writer| {
        let url = url.clone();
        tokio::spawn(async move {
            let mut log = Log::open(&url).await.unwrap().unwrap();
            for commit in 0..10 {
                log.commit(|_| Ok(says(&format!("{writer}/{commit}"), 1))).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let log = Log::open(&url).await.unwrap().unwrap();
    assert_eq!((log.state.version, log.state.transactions.len()), (40, 40));
}
