//! A small job whose n-th request to the store fails, for each n until a job ends without it, and each kind of failure.
//! After each failure, one run without faults makes every row once.
//!
//! `ASAP_FAULTS` is the step between two n: 1 tries all of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::Builder;
use std::time::Instant;

use crate::runs::place::{File, Place, Running, wait_until};
use crate::support::proxy::{Action, Gate};
use crate::support::table::orphans;

const FILES: [File; 3] = [("a.parquet", 1..=8, "step"), ("b.parquet", 11..=18, "step"), ("c.parquet", 21..=28, "step")];
const A_NEXT: File = ("a.parquet", 2..=9, "later");
/// The commands of the job: six slices with rejects, a replaced file, merged shards, removed leftovers.
const JOB: [&str; 4] = [RUN, RUN, "table optimize s3://lake/out", VACUUM];
const RUN: &str = "run mine.sql --from s3://lake/in --to s3://lake/out --set asap.run.slice_rows=4 --set asap.run.commit_seconds=0 --on-change reprocess";
const VACUUM: &str = "table vacuum s3://lake/out --retain 0s --now";
/// Jobs at once: most of their time is the start of processes.
const AT_ONCE: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Refused,
    /// The request takes effect, and its reply is lost.
    Lost,
    /// The request arrives after the client has given up on it.
    TimedOut,
    /// The process is killed before the request takes effect.
    Killed,
}

fn execute(place: &Place, command: &str) {
    place.execute(&command.split(' ').collect::<Vec<_>>()).ok();
}

/// Runs the job with one fault, and the run after it. Returns whether the job came to its n-th request.
fn job(fault: Fault, n: usize) -> bool {
    let (place, gate) = (Place::s3().with(&FILES), Gate::new());
    let action = match fault {
        Fault::Refused => Action::Status(403, "AccessDenied"),
        Fault::Lost => Action::LoseReply,
        Fault::TimedOut | Fault::Killed => Action::Hold(gate.clone()),
    };
    place.proxy().follow(move |head| if head.number == n { action.clone() } else { Action::Pass });
    let mut files = FILES;
    for (number, command) in JOB.iter().enumerate() {
        if number == 1 {
            place.put(A_NEXT);
            files[0] = A_NEXT;
        }
        let mut process = place.command(command.split(' '));
        // On a busy machine other requests may take a second, too.
        if fault == Fault::TimedOut {
            process.env("AWS_TIMEOUT", "1s");
        }
        let mut run = Running::start(process);
        if fault == Fault::Killed {
            wait_until("the request or the end", || gate.held() == 1 || run.is_over());
            if gate.held() == 1 {
                run.kill();
                gate.cut();
                break;
            }
        }
        let expected: &[i32] = if fault == Fault::Refused { &[0, 1, 3] } else { &[0, 75] };
        if run.finish().ends_in(expected, &[]).code != 0 {
            break;
        }
    }
    let is_met = place.proxy().count() > n;
    gate.open();
    let is_over = || place.proxy().log().iter().any(|logged| logged.head.number == n);
    wait_until("the late request", || !is_met || is_over());
    place.proxy().calm();
    place.is_whole();
    place.makes(&["--on-change", "reprocess"], &files);
    execute(&place, VACUUM);
    assert_eq!(orphans(&place.path("out")), BTreeSet::new(), "objects that no log names");
    execute(&place, "table verify s3://lake/out");
    is_met
}

/// Runs the job for every n in steps, several at once. Returns the last n that a job came to.
fn every(fault: Fault, first: usize, step: usize) -> usize {
    let (next, last, is_over) = (AtomicUsize::new(first), AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !is_over.load(SeqCst) {
            let n = next.fetch_add(step, SeqCst);
            // The name of the thread tells which job failed.
            let named = Builder::new().name(format!("{fault:?} {n}"));
            match named.spawn(move || job(fault, n)).unwrap().join().unwrap() {
                true => drop(last.fetch_max(n, SeqCst)),
                false => is_over.store(true, SeqCst),
            }
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    last.into_inner()
}

#[test]
fn whichever_request_fails_the_next_run_makes_every_row_once() {
    let step = std::env::var("ASAP_FAULTS").map_or(17, |step| step.parse().unwrap());
    let faults = [Fault::Refused, Fault::Lost, Fault::TimedOut, Fault::Killed];
    for (number, fault) in faults.into_iter().enumerate() {
        let started = Instant::now();
        let last = every(fault, (3 * number) % step, step);
        println!("{fault:?}: every {step}th until {last}, {:.1} minutes", started.elapsed().as_secs_f64() / 60.0);
        assert!(last > 50, "{fault:?}: the job made only {last} requests");
    }
}
