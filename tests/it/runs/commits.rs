//! Commits with lost replies, refused and racing commits, and runs that die between two commits. `faults` fails every
//! other request of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::runs::place::{A, B, File, Place, Running, had_nothing_to_do, summary, wait_until};
use crate::support::proxy::{Action, Gate, RequestHead};
use crate::support::table::{REJECTS, live_files, log};

/// A place on S3 whose output holds [`A`]; [`B`] waits.
fn one_done() -> Place {
    let place = Place::s3().filled(&[A]);
    place.put(B);
    place
}

/// Loses the reply of the first commit of rows. After it, does `then`.
fn lose_the_commit(place: &Place, then: impl Fn(&RequestHead) -> Action + Send + Sync + 'static) {
    let lost = AtomicBool::new(false);
    place.proxy().follow(move |head| {
        if lost.load(Ordering::SeqCst) {
            return then(head);
        }
        if head.commits_rows("out") {
            lost.store(true, Ordering::SeqCst);
            return Action::ReplyAfterLoss(500);
        }
        Action::Pass
    });
}

#[test]
fn a_commit_of_which_no_one_can_know_keeps_its_shards_and_is_found_by_the_next_run() {
    let place = one_done();
    lose_the_commit(&place, |head| match head.reads_log("out") {
        true => Action::Status(403, "AccessDenied"),
        false => Action::Pass,
    });
    let unknown = place.run(&[]);
    place.holds(&[A, B]);
    unknown.ends(75, &[]);
    place.proxy().calm();
    had_nothing_to_do(&place.run(&[]));
    place.holds(&[A, B]);
}

#[test]
fn a_log_that_cannot_be_listed_for_a_moment_after_a_lost_reply_costs_no_row() {
    let place = one_done();
    let refused = AtomicUsize::new(0);
    lose_the_commit(&place, move |head| {
        let is_refused = head.lists("out/_delta_log") && refused.fetch_add(1, Ordering::SeqCst) < 2;
        if is_refused { Action::Status(403, "AccessDenied") } else { Action::Pass }
    });
    let ended = place.run(&[]);
    place.holds(&[A, B]);
    ended.ends_in(&[0, 75], &[]);
    place.proxy().calm();
    had_nothing_to_do(&place.run(&[]));
    place.holds(&[A, B]);
}

#[test]
fn a_commit_whose_reply_never_comes_is_found_in_the_log() {
    let place = one_done();
    let gate = Gate::new();
    place.proxy().fault(1, |head| head.commits_rows("out"), Action::HoldReply(gate.clone()));
    let mut command = place.run_command(&[]);
    command.env("AWS_TIMEOUT", "1s");
    Running::start(command).finish().ok();
    gate.cut();
    place.holds(&[A, B]);
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
    let ended = runs.map(|run| run.finish().ends_in(&[0, 4], &[]));
    assert!(ended.iter().any(|ended| ended.code == 0), "both runs report that the other one did it");
}

#[test]
fn two_first_runs_at_once_make_each_row_once() {
    let place = Place::s3().with(&[A, B]);
    race(&place);
    place.is_done(&[A, B]);
}

#[test]
fn two_first_runs_at_once_without_rejects_make_each_row_once() {
    let place = Place::s3();
    let file: File = ("a.parquet", 1..=4, "step");
    place.put(file.clone());
    race(&place);
    place.holds(&[file]);
}

#[test]
fn two_later_runs_at_once_make_each_row_once() {
    let place = one_done();
    race(&place);
    place.is_done(&[A, B]);
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

/// Starts a run and overtakes it by another while it is about to read a file. It resumes when the gate opens.
fn overtake(place: &Place, file: &'static str) -> (Running, Gate) {
    let gate = place.proxy().hold(move |head| head.gets(file));
    let mut late = place.start(&[]);
    late.wait_until("its reading", || gate.held() > 0);
    place.proxy().calm();
    place.run(&[]).ok();
    (late, gate)
}

#[test]
fn rejects_of_a_run_that_was_overtaken_do_not_stay() {
    let place = Place::s3().with(&[A]);
    for (file, files) in [("in/a.parquet", &[A][..]), ("in/b.parquet", &[A, B])] {
        let (late, gate) = overtake(&place, file);
        gate.open();
        late.finish().ends_in(&[0, 4], &[]);
        place.is_done(files);
        place.put(B);
    }
}

#[test]
fn rejects_of_a_run_that_was_overtaken_and_died_are_taken_out_by_the_next_one() {
    let place = one_done();
    let (mut late, reading) = overtake(&place, "in/b.parquet");
    let committing = place.proxy().hold(|head| head.commits("out"));
    reading.open();
    wait_until("its commit", || committing.held() > 0 || late.is_over());
    late.kill();
    committing.cut();
    place.proxy().calm();
    had_nothing_to_do(&place.run(&[]));
    place.holds(&[A, B]);
}

/// Kills a run during its commit of the output, which the gate holds.
fn die_at_commit(place: &Place) -> Gate {
    let gate = place.proxy().hold(|head| head.commits_rows("out"));
    let mut run = place.start(&[]);
    run.wait_until("the commit of the output", || gate.held() == 1);
    run.kill();
    gate
}

/// Like [`die_at_commit`], after the commit of the rejects.
fn die_between(place: &Place) -> Gate {
    let rejects = place.path("out").join(REJECTS);
    let before = log(&rejects).len();
    let gate = die_at_commit(place);
    assert_eq!(log(&rejects).len(), before + 1, "the rejects are committed first");
    gate
}

#[test]
fn a_commit_that_lands_after_its_run_died_is_found_by_the_next_one() {
    let place = one_done();
    let gate = die_between(&place);
    let before = log(&place.path("out")).len();
    gate.open();
    wait_until("the commit", || log(&place.path("out")).len() > before);
    place.recovers(&[A, B]);
}

#[test]
fn a_commit_that_lands_after_the_next_run_is_refused_by_the_store() {
    let place = one_done();
    let gate = die_between(&place);
    place.proxy().calm();
    place.run(&[]).ok();
    place.proxy().calm();
    gate.open();
    wait_until("the reply to the late commit", || place.proxy().count_of(|head| head.commits_rows("out")) == 1);
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
fn a_new_table_generation_that_was_planned_for_an_older_one_is_refused() {
    let place = Place::s3().filled(&[A]);
    let gate = place.proxy().hold_first(|head| head.lists("in"));
    let mut late = place.start(&["--new-generation"]);
    late.wait_until("its listing of the input", || gate.held() == 1);
    place.run(&["--new-generation"]).ok();
    gate.open();
    late.finish().ends(4, &["this run was planned for 0"]);
    had_nothing_to_do(&place.run(&[]));
    place.holds(&[A]);
}

#[test]
fn a_run_that_loses_a_race_leaves_no_shard() {
    let place = Place::s3().with(&[A]);
    let gate = place.proxy().hold_first(|head| head.commits_rows("out"));
    let mut late = place.start(&[]);
    late.wait_until("its commit", || gate.held() == 1);
    place.run(&[]).ok();
    gate.open();
    assert_eq!(late.finish().code, 4);
    place.holds(&[A]);
    let shards = place.shards();
    assert_eq!(shards, live_files(&place.path("out")), "shards differ from those that the log names");
}

/// A check that ends at a time-out says nothing about the store.
#[test]
fn a_check_of_conditional_creates_that_times_out_is_made_again() {
    let place = Place::s3().with(&[A]);
    let gate = Gate::new();
    let is_check =
        |head: &RequestHead| head.puts("out/_delta_log") && head.path.contains(".asap-probe-") && head.is_create();
    place.proxy().fault(1, is_check, Action::HoldReply(gate.clone()));
    let mut run = place.run_command(&[]);
    run.env("AWS_TIMEOUT", "3s");
    Running::start(run).finish().ok();
    gate.open();
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

/// An output whose shards can be merged, and the command that merges them.
fn mergeable() -> (Place, impl Fn(&Place) -> Running) {
    let place = Place::s3().with(&[A, B]);
    place.run(&["--set=run.slice_rows=2", "--set=run.commit_seconds=0"]).ok();
    (place, |place| Running::start(place.command(["table", "optimize", "s3://lake/out"])))
}

#[test]
fn merged_shards_whose_commit_lost_its_reply_are_committed_once() {
    let (place, merge) = mergeable();
    place.proxy().fault(1, |head| head.commits_rows("out"), Action::LoseReply);
    merge(&place).finish().ok();
    place.is_done(&[A, B]);
    place.is_whole();
}

#[test]
fn two_merges_at_once_make_each_row_once() {
    let (place, merge) = mergeable();
    let gate = Gate::new();
    place.proxy().fault(2, |head| head.commits_rows("out"), Action::Hold(gate.clone()));
    let merges = [merge(&place), merge(&place)];
    wait_until("both commits", || gate.held() == 2);
    gate.let_go();
    let codes = BTreeSet::from(merges.map(|merge| merge.finish().ends_in(&[0, 75], &[]).code));
    assert_eq!(codes, BTreeSet::from([0, 75]));
    place.is_done(&[A, B]);
}
