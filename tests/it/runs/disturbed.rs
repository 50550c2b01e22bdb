//! Outputs that other programs, a full disk, a kill or a damaged log disturb.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::prelude::{col, lit};
use deltalake_core::open_table;
use deltalake_core::operations::write::SchemaMode;
use serde_json::Value;
use url::Url;

use crate::common::{files_below, now};
use crate::runs::place::{A, B, C, Place, Running, had_nothing_to_do, summary};
use crate::support::table::{checkpoint, forget_commits, log};

#[test]
fn another_writer_changes_an_output_during_a_run() {
    let place = Place::s3().filled(&[A]);
    place.put(B);
    let gate = place.proxy().hold(|head| head.commits_rows("out"));
    let mut run = place.start(&[]);
    run.wait_until("its commit", || gate.held() == 1);
    let texts = |texts: [&str; 2]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
    let foreign = [("id", texts(["900", "901"])), ("note", texts(["by hand", "too"]))];
    let foreign = RecordBatch::try_from_iter(foreign).unwrap();
    now(async {
        let table = open_table(Url::from_directory_path(place.path("out")).unwrap()).await.unwrap();
        let table = table.write([foreign]).with_schema_mode(SchemaMode::Merge).await.unwrap();
        table.delete().with_predicate(col("id").eq(lit("1"))).await.unwrap();
    });
    gate.open();
    let ended = run.finish().ends(0, &["another program changed the rows of s3://lake/out"]);
    assert_eq!(summary(&ended, 0)["rows_in"], 7);
    had_nothing_to_do(&place.run(&[]));
    place.put(C);
    assert_eq!(summary(&place.run(&[]), 0)["rows_in"], 7);
    let ids = place.workplace.csv_of("s3/lake/out", "SELECT id, note FROM t ORDER BY id");
    let own = [11, 12, 13, 14, 16, 2, 21, 22, 23, 24, 26, 3, 4, 6].map(|id| format!("{id},\n")).concat();
    assert_eq!(ids, format!("id,note\n{own}900,by hand\n901,too\n"));
    place
        .execute(&["table", "verify", &place.location("out")])
        .ends(1, &["belongs to no done slice", "rows of a.parquet"]);
}

/// Changes the lines of the commits of a table.
fn rewrite(table: &Path, change: impl Fn(u64, &mut Vec<Value>)) {
    for (version, mut actions) in log(table) {
        change(version, &mut actions);
        let lines: Vec<String> = actions.iter().map(Value::to_string).collect();
        std::fs::write(table.join(format!("_delta_log/{version:020}.json")), lines.join("\n")).unwrap();
    }
}

#[test]
fn sums_that_do_not_fit_the_rows_end_runs_and_feeds() {
    let place = Place::local();
    place.pipeline("SELECT source, id, question, cot, answer, status, error FROM corpus WHERE id NOT LIKE '%7'");
    place.put_all(&[A, B]);
    place.run(&["--set=run.slice_rows=4", "--set=run.commit_seconds=0"]).ok();
    let sums = "SELECT CAST(sum(rows_in) AS INT) AS rows_in, sum(rows_out) + sum(rows_rejected) + sum(rows_filtered) AS \
                parts, max(calls) AS calls, max(seconds) > 0 AS has_seconds FROM cot_history('out')";
    assert_eq!(place.workplace.csv(&[sums]), "rows_in,parts,calls,has_seconds\n14,14,0,true\n");
    let feed = || place.execute(&["feed", "--model", "data/model", "--data", "out", "--count"]);
    feed().ok();
    // An earlier version of asap records no sums.
    let (out, whole) = (place.path("out"), log(&place.path("out")));
    let is_sum = |action: &Value| action["txn"]["appId"].as_str().is_some_and(|name| name.starts_with("asap/kept"));
    rewrite(&out, |_, actions| actions.retain(|action| !is_sum(action)));
    had_nothing_to_do(&place.run(&[]));
    feed().ok();
    place.execute(&["table", "verify", "out"]).ok();
    // A commit loses its shard.
    let adds = |actions: &[Value]| actions.iter().any(|action| action.get("add").is_some());
    let first = whole.iter().find(|(_, actions)| adds(actions)).unwrap().0;
    rewrite(&out, |version, actions| {
        actions.clone_from(&whole[version as usize].1);
        actions.retain(|action| version != first || action.get("add").is_none());
    });
    place.put(C);
    let named = ["its log was damaged", "asap table verify out"];
    place.run(&[]).ends(1, &named);
    feed().ends(1, &named);
    place.execute(&["table", "verify", "out"]).ends(1, &["its log was damaged"]);
    place.makes(&["--new-generation"], &[A, B, C]);
}

#[test]
fn a_damaged_checkpoint_costs_no_row() {
    let place = Place::local().filled(&[A]);
    let out = place.path("out");
    let version = log(&out).last().unwrap().0;
    checkpoint(&out, version);
    let checkpoint = out.join(format!("_delta_log/{version:020}.checkpoint.parquet"));
    let whole = std::fs::read(&checkpoint).unwrap();
    let named = "a checkpoint in out/_delta_log cannot be read";
    for damaged in [&whole[..whole.len() / 2], b"", &[&b"PAR1"[..], &[7; 90]].concat()] {
        std::fs::write(&checkpoint, damaged).unwrap();
        had_nothing_to_do(&place.run(&[]).ends(0, &[named]));
        place.execute(&["table", "verify", "out"]).ends(1, &[named]);
    }
    for hint in ["{\"version\":", "{\"version\":70,\"size\":1}", ""] {
        std::fs::write(out.join("_delta_log/_last_checkpoint"), hint).unwrap();
        had_nothing_to_do(&place.run(&[]));
    }
    place.put(B);
    place.run(&[]).ok();
    std::fs::write(&checkpoint, &whole).unwrap();
    place.is_done(&[A, B]);
    place.execute(&["table", "verify", "out"]).ok();
    // Without the commits before it, the checkpoint is needed.
    forget_commits(&out, version);
    std::fs::write(&checkpoint, b"PAR1").unwrap();
    place.run(&[]).ends(1, &["cannot read the log of out", "Parquet"]);
}

#[test]
fn an_export_that_was_killed_is_written_again() {
    let place = Place::s3().filled(&[A]);
    let (out, plain) = (place.location("out"), place.location("plain"));
    let export = ["export", &out, "--to", &plain];
    for point in ["train-00000-of-00001.parquet", "dataset_info.json", "README.md"] {
        let gate = place.proxy().hold(move |head| head.method == "PUT" && head.path.ends_with(point));
        let mut killed = Running::start(place.command(export));
        killed.wait_until("a request", || gate.held() == 1);
        place.kill(killed, &gate);
        assert!(place.path("plain/_unfinished").exists());
    }
    place.put_bytes("plain/train-00001-of-00002.parquet", b"of an export of more rows");
    place.execute(&export).ok();
    let files: Vec<String> = files_below(&place.path("plain")).into_iter().collect();
    assert_eq!(files, ["README.md", "dataset_info.json", "train-00000-of-00001.parquet"]);
    place.execute(&export).ends(1, &["not empty"]);
}
