//! Runs that are interrupted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::Finished;
use crate::runs::place::{Place, Running, had_nothing_to_do, summary};
use crate::support::table::{OutputRows, log};
use asap_test_support::{Call, Reply, Server};

const IDS: std::ops::RangeInclusive<u32> = 1..=300;

fn has_rows(table: &Path) -> bool {
    log(table).iter().any(|(_, actions)| actions.iter().any(|action| action.get("add").is_some()))
}

/// Starts a run that calls `server` for every row and commits each finished slice of 5 rows.
fn asking(place: &Place, server: &Server, more: &[&str]) -> Running {
    place.ask(server);
    place.start(&[&["--set=run.slice_rows=5", "--set=run.commit_seconds=0"], more].concat())
}

/// The reply of a server that answers.
fn answer(call: &Call) -> Reply {
    Reply::text(&call.prompt().replace("question", "answer"))
}

/// Waits until something is true, and asks a run to end, which leaves rows for later.
#[track_caller]
fn stop(mut run: Running, what: &str, is_true: impl Fn() -> bool) -> Finished {
    run.wait_until(what, is_true);
    run.terminate();
    run.finish().ends(75, &[])
}

/// Checks the number of rows in the output and the rejects, and returns them.
#[track_caller]
fn check_counts(place: &Place, all: usize, rejects: usize) -> OutputRows {
    let rows = place.rows();
    assert_eq!((rows.output.len() + rows.rejects.len(), rows.rejects.len()), (all, rejects));
    rows
}

#[test]
fn what_is_finished_is_committed_and_what_is_left_is_tried_later() {
    let place = Place::local().with(&[("a.parquet", IDS, "step")]);
    place.pipeline("SELECT source, id, ai_complete(question) AS said, status, error FROM corpus");
    // The server answers until the first rows are committed.
    let out = place.path("out");
    let is_silent = Arc::new(AtomicBool::new(false));
    let answered: Arc<Mutex<Vec<String>>> = Arc::default();
    let (silent, kept) = (Arc::clone(&is_silent), Arc::clone(&answered));
    let server = Server::start(move |call| {
        if has_rows(&out) {
            silent.store(true, Ordering::SeqCst);
            return Reply::Hang;
        }
        kept.lock().unwrap().push(call.prompt().to_string());
        answer(call)
    });
    let run = asking(&place, &server, &["--set=run.grace_seconds=1"]);
    let stopped = stop(run, "a call without an answer", || is_silent.load(Ordering::SeqCst));
    let done = summary(&stopped.ends(75, &["run the same command to resume"]), 75);
    let before = place.rows();
    assert!(before.output.len() < 240 && !before.output.is_empty(), "{}", before.output.len());

    let server = Server::start(answer);
    let rest = summary(&asking(&place, &server, &[]).finish(), 0);
    let [done, rest] = [done, rest].map(|summary| summary["rows_in"].as_u64().unwrap());
    assert!(done > 0 && rest > 0 && done + rest == 300, "{done} and {rest}");
    let rows = check_counts(&place, 300, 60);
    for (id, said) in rows.texts("id").iter().zip(rows.texts("said")) {
        assert_eq!(said, format!("answer {id}"));
    }
    let answered = answered.lock().unwrap();
    for call in server.calls() {
        assert!(!answered.iter().any(|prompt| prompt == call.prompt()), "{} is paid twice", call.prompt());
    }
    had_nothing_to_do(&asking(&place, &server, &[]).finish());
}

#[test]
fn the_rows_that_are_through_are_committed_though_their_slice_is_not() {
    let place = Place::local().with(&[("a.parquet", IDS, "step")]);
    place.pipeline("SELECT source, id, ai_complete(question) AS said, status, error FROM corpus WHERE id <> '2'");
    let server = silent_after(120);
    place.ask(&server);
    let whole = ["--set=run.slice_rows=300", "--set=run.grace_seconds=2"];
    stop(place.start(&whole), "calls without an answer", || server.count() > 120);
    let before = place.rows();
    let rows = before.output.len() + before.rejects.len();
    assert!((1..300).contains(&rows), "{rows}");

    let server = Server::start(answer);
    place.ask(&server);
    place.run(&whole).ok();
    check_counts(&place, 299, 60);
    had_nothing_to_do(&place.run(&whole));
    place.execute(&["table", "verify", "out"]).ok();
}

/// A server that answers only the first calls.
fn silent_after(calls: usize) -> Server {
    Server::start(move |call| if call.number < calls { answer(call) } else { Reply::Hang })
}

/// Calls the server for every row.
const ASKING: &str = "SELECT source, id, ai_complete(question) AS cot, status, error FROM corpus";

#[test]
fn a_kill_loses_the_slices_in_progress_and_no_others() {
    let place = Place::local().with(&[("a.parquet", 1..=60, "step")]);
    place.pipeline(ASKING);
    let server = silent_after(30);
    place.ask(&server);
    // Slices have twice as many rows as requests in flight.
    let few = ["--set", "asap.anchor.max_concurrent_requests=4", "--set=run.commit_seconds=0"];
    let out = place.path("out");
    let mut run = place.start(&few);
    run.wait_until("a call without an answer", || server.count() > 30 && has_rows(&out));
    run.kill();
    let before = place.rows().output.len();
    assert!((10..30).contains(&before), "{before} rows");
    let created = &log(&out)[0].1;
    let properties = created.iter().find_map(|action| action.get("metaData")).unwrap();
    assert_eq!(properties["configuration"]["asap.sliceRows"], "5");

    let server = Server::start(answer);
    place.ask(&server);
    let rest = summary(&place.run(&["--set", "asap.anchor.max_concurrent_requests=64"]), 0);
    assert!(rest["rows_in"].as_u64().unwrap() <= 60 - before as u64);
    assert_eq!(place.rows().output.len() + place.rows().rejects.len(), 60);
}

#[test]
fn a_file_that_is_replaced_resumes_after_a_kill() {
    for is_killed in [true, false] {
        let place = Place::local().with(&[("a.parquet", 1..=60, "walk"), ("b.parquet", 101..=104, "step")]);
        place.pipeline(ASKING);
        asking(&place, &Server::start(answer), &[]).finish().ok();
        place.put(("a.parquet", 201..=260, "step"));
        let server = silent_after(30);
        let more =
            ["--on-change", "reprocess", "--set=run.grace_seconds=1", "--set", "asap.anchor.max_concurrent_requests=4"];
        let staged = place.path("out/.asap/staged");
        let mut run = asking(&place, &server, &more);
        let receipts = || {
            std::fs::read_dir(&staged).map_or(0, |folders| {
                folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
            })
        };
        run.wait_until("slices that wait for the others of their file", || server.count() > 30 && receipts() >= 3);
        match is_killed {
            true => run.kill(),
            false => drop(stop(run, "nothing", || true)),
        }
        // Readers still see the old rows.
        let is_new = |id: &&str| id.parse::<u32>().unwrap() > 200;
        assert_eq!(place.rows().texts("id").iter().filter(|id| is_new(id)).count(), 0);

        let ended = asking(&place, &Server::start(answer), &more).finish();
        assert_eq!(summary(&ended, 0)["rows_in"], 60);
        let rows = place.rows();
        assert_eq!(rows.output.len() + rows.rejects.len(), 64);
        assert_eq!(rows.texts("id").iter().filter(|id| is_new(id)).count(), rows.output.len() - 4);
        // One commit replaces the rows, with shards of both runs.
        let replacing = log(&place.path("out"))
            .into_iter()
            .find(|(_, actions)| actions.iter().any(|action| action.get("remove").is_some()));
        let (_, actions) = replacing.unwrap();
        let added = actions.iter().filter_map(|action| action["add"]["path"].as_str()?.split('/').next());
        assert_eq!(added.collect::<BTreeSet<_>>().len(), 2);
        assert_eq!(receipts(), 0);
        place.execute(&["table", "verify", "out"]).ok();
        place.is_whole();
        had_nothing_to_do(&asking(&place, &Server::start(answer), &[]).finish());
    }
}
