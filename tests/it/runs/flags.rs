//! Rejects that are tried again, and rows that are divided by a column.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::runs::place::{File, PIPELINE, Place, had_nothing_to_do, summary};
use crate::support::table::REJECTS;
use asap_test_support::{Reply, Server};

/// A pipeline that rejects rows without an answer.
const ASKING: &str = "SELECT source, id, ai_complete(question) AS cot, \
    CASE WHEN status IS NULL AND ai_complete(question) IS NULL THEN 'unanswered' ELSE status END AS status, error FROM corpus";

/// Sets up [`ASKING`] with a server that refuses ids ending in 3, until `is_fixed`.
fn ask(place: &Place, is_fixed: &Arc<AtomicBool>) -> Server {
    place.pipeline(ASKING);
    let is_fixed = Arc::clone(is_fixed);
    let server = Server::start(move |call| match call.prompt().ends_with('3') && !is_fixed.load(Ordering::SeqCst) {
        true => Reply::error(400, "not this one"),
        false => Reply::text(&call.prompt().replace("question", "step")),
    });
    place.ask(&server);
    server
}

/// No id ends in 7, so that [`ASKING`] and the pipeline of the other tests give the same rows.
const FIRST: File = ("a.parquet", 1..=6, "step");
const LATER: File = ("b.parquet", 11..=16, "step");

#[test]
fn rejects_that_are_tried_again_move_to_the_output() {
    for place in Place::both() {
        let is_fixed = Arc::default();
        let _server = ask(&place, &is_fixed);
        place.put_all(&[FIRST, LATER]);
        summary(&place.run(&[]), 0);
        assert_eq!(place.rows().rejected(), ["a.parquet:2", "a.parquet:4", "b.parquet:2", "b.parquet:4"]);
        had_nothing_to_do(&place.run(&[]));
        // Those that fail again stay, once.
        place.run(&["--retry-rejects"]).ok();
        assert_eq!(place.rows().rejected(), ["a.parquet:2", "a.parquet:4", "b.parquet:2", "b.parquet:4"]);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        is_fixed.store(true, Ordering::SeqCst);
        place.run(&["--retry-rejects=empty_chain,too_long"]).ok();
        assert_eq!(place.rows().rejected(), ["a.parquet:2", "a.parquet:4", "b.parquet:2", "b.parquet:4"]);
        place.makes(&["--retry-rejects=unanswered"], &[FIRST, LATER]);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        place.makes(&["--retry-rejects"], &[FIRST, LATER]);
    }
}

#[test]
fn rejects_that_are_tried_again_are_there_once_though_the_run_died() {
    // At the commit of the output, and at that of the rejects after it.
    for table in ["out".to_string(), format!("out/{REJECTS}")] {
        for retries_again in [true, false] {
            let place = Place::s3();
            let is_fixed = Arc::default();
            let _server = ask(&place, &is_fixed);
            place.fill(&[FIRST, LATER]);
            is_fixed.store(true, Ordering::SeqCst);
            let dies_at = table.clone();
            let gate = place.proxy().hold(move |head| head.commits(&dies_at));
            let mut run = place.start(&["--retry-rejects"]);
            run.wait_until("its commit", || gate.held() == 1);
            place.kill(run, &gate);
            // A run without --retry-rejects cannot know whether the killed one is dead, and leaves its files.
            let more: &[&str] = if retries_again { &["--retry-rejects"] } else { &[] };
            place.run(more).ok();
            if !retries_again {
                place.run(&["--retry-rejects"]).ok();
            }
            place.holds(&[FIRST, LATER]);
        }
    }
}

#[test]
fn rows_are_divided_by_any_text() {
    for place in Place::both() {
        let file: File = ("a.parquet", 1..=9, "a b/ü=%:#?*2F");
        place.put(file.clone());
        place.pipeline(&format!("{PIPELINE} AND id NOT LIKE '%3'"));
        let summary = summary(&place.run(&["--partition-by", "cot", "--set=run.slice_rows=4"]), 0);
        assert_eq!(summary["rows_out"], 6, "{summary}");
        let marks: Vec<String> = [1, 2, 4, 6, 8, 9].map(|id| format!("{} {id}", file.2)).to_vec();
        let (rows, mut read) = (place.rows(), marks.clone());
        read.sort();
        let mut found = rows.texts("cot");
        found.sort();
        assert_eq!(found, read);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
        place.execute(&["table", "optimize", &place.location("out")]).ok();
        place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
        assert_eq!(place.rows(), rows);
    }
}
