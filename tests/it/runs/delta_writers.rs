//! Delta tables as input that other writers write, clean, clone and replace.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::prelude::{col, lit};
use deltalake_core::{DeltaTable, open_table};
use serde_json::json;
use url::Url;

use crate::common::{Finished, now};
use crate::runs::delta_table::{Table, clean, columns, metadata, protocol};
use crate::runs::place::{A, B, Place, had_nothing_to_do, summary};

fn url(place: &Place) -> Url {
    Url::from_directory_path(place.path("in")).unwrap()
}

/// Checks that a run was refused before it wrote, with these texts in its message.
#[track_caller]
fn refused(place: &Place, finished: Finished, texts: &[&str]) {
    finished.ends_in(&[1, 2], texts);
    assert!(!place.path("out").exists(), "something was written");
}

#[test]
fn what_is_not_kept_to_is_refused_by_its_name() {
    let mapping = |mode: &str| json!({ "delta.columnMapping.mode": mode });
    for (features, configuration, named) in [
        (&["columnMapping"][..], mapping("name"), "columnMapping"),
        (&["columnMapping"], mapping("id"), "columnMapping"),
        (&["typeWidening"], json!({}), "typeWidening"),
        (&["deletionVectors", "v2Checkpoint"], json!({}), "v2Checkpoint"),
        (&["variantType"], json!({}), "variantType"),
    ] {
        let place = Place::local();
        let table = Table::at(&place, "in");
        table.commit(&[protocol(features), metadata(&columns(), &[], configuration)]);
        table.append(&[A]);
        refused(&place, place.run(&[]), &["in uses", named]);
        place.execute(&["sql", "--from", "in", "-c", "SELECT count(*) FROM corpus"]).ends(1, &[named]);
    }
    // A supported feature that is not used.
    let place = Place::local();
    let table = Table::at(&place, "in");
    table.commit(&[protocol(&["columnMapping"]), metadata(&columns(), &[], mapping("none"))]);
    table.append(&[A]);
    place.makes(&[], &[A]);
}

#[test]
fn a_file_outside_of_the_tables_folder_is_refused() {
    for path in ["file:///elsewhere/a.parquet", "s3://lake/a.parquet", "/elsewhere/a.parquet"] {
        let place = Place::local();
        let table = Table::new(&place);
        place.put(A);
        let mut add = table.add("a.parquet");
        add["add"]["path"] = json!(path);
        table.commit(&[add]);
        refused(&place, place.run(&[]), &["outside of its folder", path, "clone"]);
    }
}

#[test]
fn another_table_in_the_same_place_is_an_error() {
    let place = Place::local();
    Table::new(&place).append(&[A]);
    place.run(&[]).ok();
    std::fs::remove_dir_all(place.path("in")).unwrap();
    let table = Table::at(&place, "in");
    let mut other = metadata(&columns(), &[], json!({}));
    other["metaData"]["id"] = json!("another-table");
    table.commit(&[protocol(&[]), other]);
    table.append(&[B]);
    place.run(&[]).ends(1, &["another table (id another-table)"]);
    place.holds(&[A]);
    place.makes(&["--new-generation"], &[B]);
    // The table was recreated with fewer versions.
    std::fs::remove_file(place.path("in/_delta_log/00000000000000000001.json")).unwrap();
    place.run(&[]).ends(1, &["newest version is 0"]);
}

fn batch(ids: std::ops::RangeInclusive<u32>) -> RecordBatch {
    let ids: Vec<u32> = ids.collect();
    let texts =
        |what: &str| Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("{what}{id}")))) as ArrayRef;
    let columns = [("id", texts("")), ("question", texts("q")), ("cot", texts("step ")), ("answer", texts("a"))];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn what_another_engine_writes_is_followed() {
    let place = Place::local();
    place.pipeline("SELECT source, id, cot, status, error FROM corpus");
    let write = |ids| {
        now(async {
            let table = DeltaTable::try_from_url(url(&place)).await.unwrap();
            table.write([batch(ids)]).await.unwrap();
        });
    };
    let open = async || open_table(url(&place)).await.unwrap();
    let ids = || place.rows().ids();
    write(1..=3);
    write(4..=6);
    place.run(&[]).ok();
    assert_eq!(ids(), [1, 2, 3, 4, 5, 6]);
    now(async { open().await.optimize().await.unwrap() });
    had_nothing_to_do(&place.run(&[]));
    write(7..=9);
    assert_eq!(summary(&place.run(&[]), 0)["rows_in"], 3);
    // A delete and an update rewrite the files that contain their rows.
    now(async { open().await.delete().with_predicate(col("id").eq(lit("8"))).await.unwrap() });
    summary(&place.run(&[]), 3);
    assert_eq!(summary(&place.run(&["--on-change=reprocess"]), 0)["rows_in"], 2);
    assert_eq!(ids(), [1, 2, 3, 4, 5, 6, 7, 9]);
    let update = async {
        let update = open().await.update().with_predicate(col("id").eq(lit("9")));
        update.with_update("id", lit("99")).await.unwrap()
    };
    now(update);
    place.run(&["--on-change=reprocess"]).ok();
    assert_eq!(ids(), [1, 2, 3, 4, 5, 6, 7, 99]);
    let version = now(async { open().await.version().unwrap() });
    clean(&place, version);
    had_nothing_to_do(&place.run(&[]));
    // A row of a merged file is deleted, with and without the merge in the log.
    for (deleted, left) in [("2", &[1, 3, 4, 5, 6, 7, 99, 100][..]), ("5", &[1, 3, 4, 6, 7, 99, 100, 101])] {
        now(async { open().await.optimize().await.unwrap() });
        had_nothing_to_do(&place.run(&[]));
        let version = now(async { open().await.version().unwrap() });
        clean(&place, version);
        now(async { open().await.delete().with_predicate(col("id").eq(lit(deleted))).await.unwrap() });
        let next = left[left.len() - 1];
        write(next..=next);
        summary(&place.run(&[]), 3);
        place.run(&["--on-change=reprocess"]).ok();
        assert_eq!(ids(), left);
        had_nothing_to_do(&place.run(&[]));
    }
}
