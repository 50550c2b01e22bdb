//! Runs that are interrupted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::runs::place::{File, Place, Running, had_nothing_to_do, summary};
use crate::server::{Reply, Server};
use crate::support::proxy::{Action, Gate};
use crate::support::table::log;

const A: File = ("a.parquet", 1..=7, "step");
const B: File = ("b.parquet", 11..=17, "step");

const IDS: std::ops::RangeInclusive<u32> = 1..=300;

fn has_rows(table: &Path) -> bool {
    log(table).iter().any(|(_, actions)| actions.iter().any(|action| action.get("add").is_some()))
}

/// Starts a run that calls `server` for every row and commits each finished slice of 5 rows.
fn asking(place: &Place, server: &Server, more: &[&str]) -> Running {
    asking_in_slices(place, server, &[&["--slice-rows", "5", "--commit-every", "0s"], more].concat())
}

fn asking_in_slices(place: &Place, server: &Server, more: &[&str]) -> Running {
    let base_url = format!("asap.anchor.base_url={}", server.base_url());
    let sets = ["--set", "asap.anchor.provider=openai", "--set", "asap.anchor.model=m", "--set", &base_url];
    place.start(&[&sets[..], more].concat())
}

#[test]
fn what_is_finished_is_committed_and_what_is_left_is_tried_later() {
    let place = Place::local();
    place.put(("a.parquet", IDS, "step"));
    let pipeline = "SELECT source, id, ai_complete(question) AS said, status, error FROM corpus";
    std::fs::write(place.path("mine.sql"), pipeline).unwrap();
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
        Reply::text(&call.prompt().replace("question", "answer"))
    });
    let mut run = asking(&place, &server, &["--grace", "1s"]);
    run.wait_until("a call without an answer", || is_silent.load(Ordering::SeqCst));
    run.terminate();
    let stopped = run.finish();
    assert_eq!(stopped.code, 75, "{}", stopped.stderr);
    let before = place.rows();
    assert!(before.output.len() < 240 && !before.output.is_empty(), "{}", before.output.len());

    let server = Server::start(|call| Reply::text(&call.prompt().replace("question", "answer")));
    asking(&place, &server, &[]).finish().ok();
    let rows = place.rows();
    assert_eq!((rows.output.len() + rows.rejects.len(), rows.rejects.len()), (300, 60));
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
fn a_run_that_is_asked_to_end_during_its_last_commit_is_done() {
    let place = Place::s3();
    place.put(A);
    place.run(&[]).ok();
    place.put(B);
    let gate = Gate::new();
    let held = gate.clone();
    place.proxy().follow(move |head| match head.commits_rows("out") {
        true => Action::Hold(held.clone()),
        false => Action::Pass,
    });
    let mut run = place.start(&[]);
    run.wait_until("its last commit", || gate.held() == 1);
    run.terminate();
    gate.open();
    summary(&run.finish(), 0);
    place.holds(&[A, B]);
    had_nothing_to_do(&place.run(&[]));
}

#[test]
fn a_run_that_is_asked_to_end_before_it_read_a_row_is_tried_later() {
    let place = Place::s3();
    place.put(A);
    let gate = Gate::new();
    let held = gate.clone();
    place.proxy().follow(move |head| match head.gets("in/a.parquet") {
        true => Action::Hold(held.clone()),
        false => Action::Pass,
    });
    let mut run = place.start(&["--grace", "1s"]);
    run.wait_until("its first read", || gate.held() == 1);
    run.terminate();
    let stopped = run.finish();
    assert_eq!(stopped.code, 75, "{}", stopped.stderr);
    gate.cut();
    place.proxy().calm();
    place.run(&[]).ok();
    place.holds(&[A]);
}

#[test]
fn the_rows_that_are_through_are_committed_though_their_slice_is_not() {
    let place = Place::local();
    place.put(("a.parquet", IDS, "step"));
    let pipeline = "SELECT source, id, ai_complete(question) AS said, status, error FROM corpus WHERE id <> '2'";
    std::fs::write(place.path("mine.sql"), pipeline).unwrap();
    // The server answers some calls, then no more.
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answered);
    let server = Server::start(move |call| match counted.fetch_add(1, Ordering::SeqCst) < 120 {
        true => Reply::text(&call.prompt().replace("question", "answer")),
        false => Reply::Hang,
    });
    let whole = ["--slice-rows", "300", "--grace", "2s"];
    let mut run = asking_in_slices(&place, &server, &whole);
    run.wait_until("calls without an answer", || answered.load(Ordering::SeqCst) > 120);
    run.terminate();
    let stopped = run.finish();
    assert_eq!(stopped.code, 75, "{}", stopped.stderr);
    let before = place.rows();
    let rows = before.output.len() + before.rejects.len();
    assert!((1..300).contains(&rows), "{rows}");

    let server = Server::start(|call| Reply::text(&call.prompt().replace("question", "answer")));
    asking_in_slices(&place, &server, &whole).finish().ok();
    let rows = place.rows();
    assert_eq!((rows.output.len() + rows.rejects.len(), rows.rejects.len()), (299, 60));
    had_nothing_to_do(&asking_in_slices(&place, &server, &whole).finish());
    place.execute(&["verify", "out"]).ok();
}

/// A pipeline with a call for every row, and a server that answers only the first calls.
fn silent_after(place: &Place, calls: usize) -> Server {
    let pipeline = "SELECT source, id, ai_complete(question) AS cot, status, error FROM corpus";
    std::fs::write(place.path("mine.sql"), pipeline).unwrap();
    Server::start(move |call| match call.number < calls {
        true => Reply::text(&call.prompt().replace("question", "answer")),
        false => Reply::Hang,
    })
}

#[test]
fn a_kill_loses_the_slices_in_progress_and_no_others() {
    let place = Place::local();
    place.put(("a.parquet", 1..=60, "step"));
    let server = silent_after(&place, 30);
    // Slices have twice as many rows as requests in flight.
    let few = ["--set", "asap.anchor.max_concurrent_requests=4", "--commit-every", "0s"];
    let out = place.path("out");
    let mut run = asking_in_slices(&place, &server, &few);
    run.wait_until("a call without an answer", || server.count() > 30 && has_rows(&out));
    run.kill();
    let before = place.rows().output.len();
    assert!((10..30).contains(&before), "{before} rows");
    let created = &log(&out)[0].1;
    let properties = created.iter().find_map(|action| action.get("metaData")).unwrap();
    assert_eq!(properties["configuration"]["asap.sliceRows"], "5");

    let server = silent_after(&place, usize::MAX);
    let rest = asking_in_slices(&place, &server, &["--set", "asap.anchor.max_concurrent_requests=64"]).finish();
    assert!(summary(&rest, 0)["rows_in"].as_u64().unwrap() <= 60 - before as u64);
    assert_eq!(place.rows().output.len() + place.rows().rejects.len(), 60);
}

#[test]
fn a_file_that_is_replaced_resumes_after_a_kill() {
    for is_killed in [true, false] {
        let place = Place::local();
        place.put(("a.parquet", 1..=60, "walk"));
        place.put(("b.parquet", 101..=104, "step"));
        asking(&place, &silent_after(&place, usize::MAX), &[]).finish().ok();
        place.put(("a.parquet", 201..=260, "step"));
        let server = silent_after(&place, 30);
        let more = ["--on-change", "reprocess", "--grace", "1s", "--set", "asap.anchor.max_concurrent_requests=4"];
        let staged = place.path("out/.asap/staged");
        let mut run = asking(&place, &server, &more);
        let receipts = || {
            std::fs::read_dir(&staged).map_or(0, |folders| {
                folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
            })
        };
        run.wait_until("slices that wait for the others of their file", || server.count() > 30 && receipts() >= 3);
        if is_killed {
            run.kill();
        } else {
            run.terminate();
            assert_eq!(run.finish().code, 75);
        }
        // Readers still see the old rows.
        let is_new = |id: &&str| id.parse::<u32>().unwrap() > 200;
        assert_eq!(place.rows().texts("id").iter().filter(|id| is_new(id)).count(), 0);

        let ended = asking(&place, &silent_after(&place, usize::MAX), &more).finish();
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
        place.execute(&["verify", "out"]).ok();
        place.is_whole();
        had_nothing_to_do(&asking(&place, &silent_after(&place, usize::MAX), &[]).finish());
    }
}
