//! Commits with lost replies and racing commits. `cases` has more of them, and `faults` fails every other request of a
//! run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::runs::place::{A, B, File, Place, had_nothing_to_do, summary, wait_until};
use crate::support::proxy::{Action, Gate, RequestHead};
use crate::support::table::REJECTS;

/// A place on S3 whose output holds [`A`]; [`B`] waits.
fn one_done() -> Place {
    let place = Place::s3().filled(&[A]);
    place.put(B);
    place
}

#[test]
fn a_commit_of_which_no_one_can_know_keeps_its_shards_and_is_found_by_the_next_run() {
    // After its lost reply, the log cannot be read, or not be listed for a moment.
    type Case<'a> = (fn(&RequestHead) -> bool, usize, &'a [i32]);
    let cases: [Case; 2] =
        [(|head| head.reads_log("out"), usize::MAX, &[75]), (|head| head.lists("out/_delta_log"), 2, &[0, 75])];
    for (is_meant, times, codes) in cases {
        let place = one_done();
        let (is_lost, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
        place.proxy().follow(move |head| match is_lost.load(Ordering::SeqCst) {
            false if head.commits_rows("out") => {
                is_lost.store(true, Ordering::SeqCst);
                Action::ReplyAfterLoss(500)
            }
            true if is_meant(head) && refused.fetch_add(1, Ordering::SeqCst) < times => {
                Action::Status(403, "AccessDenied")
            }
            _ => Action::Pass,
        });
        let ended = place.run(&[]);
        place.holds(&[A, B]);
        ended.ends_in(codes, &[]);
        place.proxy().calm();
        had_nothing_to_do(&place.run(&[]));
        place.holds(&[A, B]);
    }
}

/// Longer than the time between two commits of a run.
const ALONE: Duration = Duration::from_secs(2);

/// Starts two runs with synchronized commits: each commit waits until the other run has one too, ends, or has had none
/// for a while.
fn race(place: &Place) {
    let rejects = format!("out/{REJECTS}");
    let gate = place.proxy().hold(move |head| head.commits("out") || head.commits(&rejects));
    let mut runs = [place.start(&[]), place.start(&[])];
    let mut alone_since = Instant::now();
    wait_until("the end of both runs", || {
        let over = runs.iter_mut().filter_map(|run| run.is_over().then_some(())).count();
        match gate.held() {
            0 => alone_since = Instant::now(),
            1 if over == 0 && alone_since.elapsed() < ALONE => {}
            _ => gate.let_go(),
        }
        over == 2
    });
    let ended = runs.map(|mut run| run.finish().ends_in(&[0, 4], &[]));
    assert!(ended.iter().any(|ended| ended.code == 0), "both runs report that the other one did it");
}

#[test]
fn two_runs_at_once_make_each_row_once() {
    // The first runs, the first runs without rejects, and later ones.
    let few: [File; 1] = [("a.parquet", 1..=4, "step")];
    let places = [(Place::s3().with(&[A, B]), &[A, B][..]), (Place::s3().with(&few), &few), (one_done(), &[A, B])];
    for (place, files) in places {
        race(&place);
        place.is_done(files);
    }
}

#[test]
fn a_run_that_loses_a_part_of_its_work_does_the_rest() {
    let place = Place::s3().with(&[A]);
    let gate = place.proxy().hold(move |head| head.commits("out"));
    let mut first = place.start(&[]);
    first.wait_until("its commit", || gate.held() == 1);
    place.put(B);
    let mut second = place.start(&[]);
    wait_until("the second commit", || gate.held() == 2 || second.is_over());
    gate.open();
    let codes = [first.finish().code, second.finish().code];
    assert!([0, 4].contains(&codes[0]) && codes[1] == 0, "{codes:?}");
    place.holds(&[A, B]);
}

/// The pipeline of [`Place`], with chains in capitals.
const NEW: &str = "SELECT source, id, upper(cot) AS cot, status, error FROM corpus WHERE id NOT LIKE '%7'";

const SLICES: [&str; 2] = ["--set=run.slice_rows=3", "--set=run.commit_seconds=0"];

#[test]
fn a_run_that_meets_a_new_table_generation_commits_nothing_to_it() {
    for replaces in [false, true] {
        let place = Place::s3().with(&[A]);
        if replaces {
            place.run(&[]).ok();
        }
        let (gate, own) = (Gate::new(), std::sync::Mutex::new(None));
        let held = gate.clone();
        // Holds the first read of the log after the run's own commit.
        place.proxy().follow(move |head| {
            let mut own = own.lock().unwrap();
            if own.is_none() && head.commits_rows("out") {
                *own = Some(head.path.clone());
            } else if head.method == "GET" && own.as_deref() == Some(&head.path) {
                *own = Some(String::new());
                return Action::Hold(held.clone());
            }
            Action::Pass
        });
        let more = if replaces { &["--new-generation"][..] } else { &[] };
        let mut old = place.start(&[&SLICES[..], more].concat());
        old.wait_until("a look at its own commit", || gate.held() == 1);
        place.pipeline(NEW);
        place.run(&[&SLICES[..], &["--new-generation"]].concat()).ok();
        gate.open();
        old.finish().ends(4, &["another run replaces all rows"]);
        assert_eq!(place.rows().texts("cot"), ["STEP 1", "STEP 2", "STEP 3", "STEP 4", "STEP 6"]);
        had_nothing_to_do(&place.run(&[]));
        place.execute(&["table", "verify", &place.location("out")]).ok();
    }
}

#[test]
fn shards_that_are_gone_before_their_commit_are_not_committed() {
    // The slices of a replaced file are committed together, so the first slices wait.
    for replaces in [false, true] {
        let place = Place::s3();
        if replaces {
            place.fill(&[("a.parquet", 1..=9, "walk")]);
        }
        let file: File = ("a.parquet", 1..=9, "step");
        place.put(file.clone());
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
        place.makes(&["--on-change", "reprocess"], &[file]);
    }
}
