//! The commands over an output of `asap run`, from the user's view.

use std::path::Path;

use crate::common::{files_below, now};
use crate::runs::place::{B, File, Place};
use crate::support::table::{REJECTS, checkpoint, forget_commits, live_files, log};
use asap_test_support::{Reply, Server};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::prelude::{col, lit};
use serde_json::{Value, json};

const OLD: File = ("a.parquet", 1..=7, "step");
const NEW: File = ("a.parquet", 1..=7, "walk");

/// An output with rejects and filtered rows, and with one replaced input file.
fn filled() -> Place {
    let place = Place::local().filled(&[OLD, B]);
    place.put(NEW);
    place.makes(&["--on-change", "reprocess"], &[NEW, B]);
    place
}

/// Returns the files of a table that are in folders of attempts.
fn written(folder: &Path) -> Vec<String> {
    let is_own = |name: &String| !name.starts_with("_delta_log") && !name.starts_with(".asap");
    files_below(folder).into_iter().filter(is_own).collect()
}

fn live(folder: &Path) -> Vec<String> {
    live_files(folder).into_iter().collect()
}

fn without_times(text: &str) -> String {
    let mut text = text.to_string();
    for (pattern, with) in [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[time]             "),
        (r"  files of .*\n", ""),
        (r"\b[0-9a-f]{32}\b", "[hash]"),
        (r"\b[0-9a-f]{12}\b", "[attempt]   "),
        (r"[0-9,]+ bytes", "[n] bytes"),
        (r"\d,\d{3}\n", "[bytes]\n"),
    ] {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

#[test]
fn an_output_says_what_it_holds_and_how_it_came() {
    let place = filled();
    let status = place.execute(&["table", "status", "out"]);
    insta::assert_snapshot!("status", without_times(status.ok()));
    let history = place.execute(&["table", "history", "out"]);
    insta::assert_snapshot!("history", without_times(history.ok()));
}

fn commit(table: &Path, action: Value) {
    let next = log(table).last().unwrap().0 + 1;
    std::fs::write(table.join(format!("_delta_log/{next:020}.json")), action.to_string()).unwrap();
}

/// Adds a copy of a shard to a table.
fn add_copy(table: &Path, shard: &str, copy: &str) {
    std::fs::copy(table.join(shard), table.join(copy)).unwrap();
    let mut actions = log(table).into_iter().flat_map(|(_, actions)| actions);
    let mut add = actions.rfind(|action| action["add"]["path"].as_str() == Some(shard)).unwrap();
    add["add"]["path"] = json!(copy);
    commit(table, add);
}

#[test]
fn faults_are_named() {
    let place = filled();
    let sound = place.execute(&["table", "verify", "out", "--format", "json"]).json();
    let counts = ["rows", "rejects", "filtered", "doubled", "strange"].map(|name| sound[name].as_u64().unwrap());
    assert_eq!((counts, &sound["faults"]), ([10, 2, 2, 0, 0], &json!([])));

    // A copy of a shard under another name.
    let out = place.path("out");
    let shards = live(&out);
    let first = &shards[0];
    let copy = format!("{first}.copy.parquet");
    add_copy(&out, first, &copy);
    place.execute(&["table", "verify", "out"]).ends(1, &["exists twice"]);

    std::fs::remove_file(out.join(&shards[1])).unwrap();
    place.execute(&["table", "verify", "out"]).ends(1, &[&format!("shard {} is missing", shards[1])]);
}

fn is_readable(bytes: &[u8]) -> bool {
    let bytes = hyper::body::Bytes::copy_from_slice(bytes);
    let read = || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).ok()?.build().ok()?;
        reader.map(|batch| batch.ok()).collect::<Option<Vec<_>>>()
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_ok_and(|read| read.is_some())
}

#[test]
fn a_shard_that_cannot_be_read_is_named() {
    let place = filled();
    let out = place.path("out");
    let name = live(&out).remove(0);
    let whole = std::fs::read(out.join(&name)).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    // The footer is read in any case.
    let data = whole.len() - 8 - u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap()) as usize;
    let broken: Vec<usize> = (4..data).filter(|at| !is_readable(&flipped(*at))).collect();
    let mut unseen_by_quick = 0;
    for at in broken.iter().step_by(broken.len().div_ceil(12)) {
        std::fs::write(out.join(&name), flipped(*at)).unwrap();
        place.execute(&["table", "verify", "out"]).ends(1, &[&format!("shard {name} cannot be read")]);
        unseen_by_quick += usize::from(place.execute(&["table", "verify", "out", "--quick"]).code == 0);
    }
    assert!(unseen_by_quick > 0, "{broken:?}");
    std::fs::write(out.join(&name), &whole).unwrap();
    place.execute(&["table", "verify", "out"]).ok();
}

#[test]
fn lost_rows_are_not_taken_for_filtered_ones() {
    // A row deleted by another engine, a shard removed from the log, and one of the rejects.
    let delete = |place: &Place| {
        let url = url::Url::from_directory_path(place.path("out")).unwrap();
        now(async {
            let table = deltalake_core::open_table(url).await.unwrap();
            table.delete().with_predicate(col("id").eq(lit("12"))).await.unwrap();
        });
    };
    let remove = |table: &Path| {
        let remove = json!({ "path": live(table)[0], "deletionTimestamp": 1, "dataChange": true });
        commit(table, json!({ "remove": remove }));
    };
    type Lose<'a> = &'a dyn Fn(&Place);
    let losses: [(Lose, u64); 3] = [
        (&delete, 1),
        (&|place| remove(&place.path("out")), 5),
        (&|place| remove(&place.path("out").join(REJECTS)), 1),
    ];
    for (lose, rows) in losses {
        let place = filled();
        lose(&place);
        for more in [&[][..], &["--quick"]] {
            let found = place.execute(&[&["table", "verify", "out", "--format", "json"], more].concat());
            let found = found.ends(1, &["the commits record"]);
            let found: Value = serde_json::from_str(found.stdout.trim()).unwrap();
            assert_eq!((&found["lost"], &found["filtered"]), (&json!(rows), &json!(2)));
        }
    }
}

#[test]
fn a_reject_that_no_run_wrote_is_found() {
    let place = filled();
    let rejects = place.path("out").join(REJECTS);
    let shard = live(&rejects).remove(0);
    add_copy(&rejects, &shard, "part-0.parquet");
    place.execute(&["table", "verify", "out"]).ends(1, &["part-0.parquet of the rejects"]);
}

#[test]
fn the_counts_of_commits_hold_whatever_replaced_slices() {
    let place = Place::local();
    let sound = |faults: u64| {
        let found = place.execute(&["table", "verify", "out", "--format", "json"]).json();
        let counts = ["lost", "doubled", "strange", "files_not_compared"].map(|name| found[name].as_u64().unwrap());
        assert_eq!(counts, [0, 0, 0, faults], "{found}");
    };
    place.put_all(&[OLD, B]);
    place.run(&["--set=run.slice_rows=2", "--limit", "9"]).ok();
    sound(0);
    place.run(&["--set=run.slice_rows=3"]).ok();
    place.put(NEW);
    place.run(&["--on-change", "reprocess", "--set=run.slice_rows=2"]).ok();
    sound(0);
    place.run(&["--retry-rejects"]).ok();
    sound(0);
    place.execute(&["table", "optimize", "out"]).ok();
    place.put(OLD);
    place.run(&["--on-change", "reprocess"]).ok();
    sound(0);
    place.run(&["--new-generation", "--set=run.slice_rows=3"]).ok();
    sound(0);
    place.holds(&[OLD, B]);
    // The log before a checkpoint is cleaned.
    let out = place.path("out");
    let last = log(&out).last().unwrap().0;
    checkpoint(&out, last);
    forget_commits(&out, last + 1);
    sound(2);
    assert!(place.execute(&["table", "verify", "out"]).ok().contains("no longer has the commits of 2 files"));
}

#[test]
fn what_a_killed_run_and_a_replaced_file_left_is_removed() {
    let place = Place::local();
    place.pipeline(
        "SELECT source, id, ai_complete(question) AS said, cot, status, error FROM corpus WHERE id NOT LIKE '%7'",
    );
    let server = Server::start(|call| match call.prompt().ends_with("question 30") {
        true => Reply::Hang,
        false => Reply::text("said"),
    });
    place.ask(&server);
    place.fill(&[OLD, B]);
    place.put(NEW);
    place.run(&["--on-change", "reprocess"]).ok();
    place.put(("c.parquet", 21..=31, "step"));
    let before = written(&place.path("out"));
    let mut run = place.start(&["--set=run.slice_rows=2", "--set=run.commit_seconds=3600"]);
    let is_shard = |name: &String| name.ends_with(".parquet") && !before.contains(name);
    run.wait_until("a shard that no commit names", || written(&place.path("out")).iter().any(is_shard));
    run.kill();
    let probes = ["out/_delta_log/.asap-probe-1", "out/.asap/cache/.asap-probe-2"];
    let left = ["out/asap-0123456789ab/part-0.parquet#1", "out/asap-0123456789ab/probe", "out/notes.txt"];
    left.iter().chain(&probes).for_each(|name| place.workplace.write(name, "cut"));
    let out = place.path("out");

    place.execute(&["table", "vacuum", "out", "--retain", "0s"]).ends(2, &["--now"]);
    let young = place.execute(&["table", "vacuum", "out", "--format", "json"]).json();
    assert_eq!(young["objects"], 0);
    let before = written(&out);
    let would = place.execute(&["table", "vacuum", "out", "--retain", "0s", "--dry-run", "--format", "json"]).json();
    assert_eq!((written(&out), would["dry_run"].as_bool()), (before, Some(true)));
    let done = place.execute(&["table", "vacuum", "out", "--retain", "0s", "--now", "--format", "json"]).json();
    assert!(done["objects"].as_u64() >= Some(3) && done["bytes"].as_u64() > Some(0), "{done}");

    let kept: Vec<_> = written(&out).into_iter().filter(|name| name != "notes.txt").collect();
    assert_eq!(kept, live(&out));
    assert!(out.join("notes.txt").exists() && !probes.iter().any(|probe| place.path(probe).exists()));
    let rejects = out.join(REJECTS);
    assert_eq!(written(&rejects), live(&rejects));
    place.holds(&[NEW, B]);
    place.execute(&["table", "verify", "out"]).ok();
}
