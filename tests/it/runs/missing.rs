//! Shards that are deleted before or after their commit. A run commits no missing shard and processes its rows again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::table::{REJECTS, live_files};

use super::delta_table::Table;
use super::place::{File, Place, had_nothing_to_do, summary};

const A: File = ("a.parquet", 1..=9, "step");
const B: File = ("b.parquet", 11..=19, "step");
const C: File = ("c.parquet", 21..=29, "step");

fn first_live(place: &Place, table: &str) -> PathBuf {
    let table = place.path(table);
    table.join(live_files(&table).pop_first().unwrap())
}

#[test]
fn a_short_retention_is_confirmed() {
    let place = Place::local().filled(&[A]);
    for retain in ["0s", "1s", "23h"] {
        place.execute(&["table", "vacuum", "out", "--retain", retain]).ends(2, &["--now"]);
        place.execute(&["table", "vacuum", "out", "--retain", retain, "--now"]).ok();
        place.execute(&["table", "vacuum", "out", "--retain", retain, "--dry-run"]).ok();
    }
    place.execute(&["table", "vacuum", "out", "--retain", "24h"]).ok();
    place.holds(&[A]);
}

#[test]
fn shards_that_are_gone_before_their_commit_are_not_committed() {
    // The slices of a replaced file are committed together, so the first slices wait.
    for replaces in [false, true] {
        let place = Place::s3();
        if replaces {
            place.fill(&[("a.parquet", 1..=9, "walk")]);
        }
        place.put(A);
        let before = if replaces { place.shards() } else { BTreeSet::new() };
        // The rejects of a slice are written after its rows.
        let rejects = format!("out/{REJECTS}");
        let gate = place.proxy().hold(move |head| head.puts(&rejects) && head.path.ends_with(".parquet"));
        let mut run = place.start(&["--on-change", "reprocess", "--set=run.commit_seconds=0"]);
        run.wait_until("rejects that wait", || gate.held() > 0);
        let written: Vec<String> = place.shards().difference(&before).cloned().collect();
        assert_eq!(written.len(), 1);
        std::fs::remove_file(place.path("out").join(&written[0])).unwrap();
        // Slices younger than a second are committed without a check.
        std::thread::sleep(Duration::from_millis(1100));
        gate.open();
        assert!(summary(&run.finish(), 75)["slices_deleted"].as_u64().unwrap() > 0);
        place.is_whole();
        place.proxy().calm();
        place.makes(&["--on-change", "reprocess"], &[A]);
    }
}

#[test]
fn rows_of_lost_shards_are_made_again() {
    let rejects = format!("out/{REJECTS}");
    let cases = [("out", false, false), ("out", true, false), ("out", false, true), (&*rejects, false, false)];
    for (table, is_merged, is_cut) in cases {
        let place = Place::local().with(&[A, B, C]);
        place.run(&["--set=run.slice_rows=4"]).ok();
        if is_merged {
            place.execute(&["table", "optimize", "out"]).ok();
        }
        let lost = first_live(&place, table);
        match is_cut {
            true => std::fs::OpenOptions::new().write(true).open(lost).unwrap().set_len(100).unwrap(),
            false => std::fs::remove_file(lost).unwrap(),
        }
        let status = place.execute(&["table", "verify", "out", "--format", "json"]);
        let found = summary(&status.ends(1, &["the same asap run command"]), 1);
        assert!(found["lost"].as_u64().unwrap() > 0, "{found}");
        let again = place.run(&[]).ends(0, &["is missing or damaged"]);
        // Only the files that had rows in the shard are read again.
        let rows = if is_merged { 27 } else { 9 };
        assert_eq!(summary(&again, 0)["rows_in"], rows, "{}", again.stderr);
        place.holds(&[A, B, C]);
        place.is_whole();
        place.execute(&["table", "verify", "out"]).ok();
        had_nothing_to_do(&place.run(&[]));
    }
}

#[test]
fn lost_rows_of_a_table_are_made_again_where_rows_may_be_replaced() {
    let place = Place::local();
    let table = Table::filled(&place, &[A, B]);
    table.append(&[C]);
    place.run(&[]).ok();
    std::fs::remove_file(first_live(&place, "out")).unwrap();
    place.run(&[]).ends(1, &["--on-change reprocess"]);
    place.run(&["--on-change", "reprocess"]).ok();
    place.is_done(&[A, B, C]);
}
