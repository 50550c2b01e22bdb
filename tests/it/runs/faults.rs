//! A small job whose n-th request to the store fails, for each n until a job ends without it, and each kind of failure.
//! After each failure, one run without faults makes every row once.
//!
//! `ASAP_FAULTS` is the step between two n: 1 tries all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::runs::crash::orphans;
use crate::runs::place::{File, Place, Running, had_nothing_to_do, wait_until};
use crate::support::proxy::{Action, Gate};

const FILES: [File; 3] = [("a.parquet", 1..=8, "step"), ("b.parquet", 11..=18, "step"), ("c.parquet", 21..=28, "step")];
const A_NEXT: File = ("a.parquet", 2..=9, "later");
const STEP: &str = "17";
/// Jobs at once: most of their time is the start of processes.
const AT_ONCE: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Refused,
    /// The request takes effect, and its reply is lost.
    Lost,
    /// The request arrives after the client has given up on it.
    TimedOut,
    KilledBefore,
    /// The process is killed after the request took effect.
    KilledAfter,
}

/// The commands of the job: six slices with rejects, a replaced file, merged shards, removed leftovers.
fn commands(out: &str, from: &str) -> [Vec<String>; 4] {
    let run = "run mine.sql --slice-rows 4 --commit-every 0s --on-change reprocess --from";
    [format!("{run} {from} --to {out}"), format!("{run} {from} --to {out}"), format!("optimize {out}"), vacuum(out)]
        .map(|command| command.split(' ').map(str::to_string).collect())
}

fn vacuum(out: &str) -> String {
    format!("vacuum {out} --retain 0s --now")
}

/// Runs the job with one fault, and the run after it. Returns whether the job came to its n-th request.
fn job(fault: Fault, n: usize) -> bool {
    let place = Place::s3().with(&FILES);
    let (gate, is_met) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let action = match fault {
        Fault::Refused => Action::Status(403, "AccessDenied"),
        Fault::Lost => Action::LoseReply,
        Fault::TimedOut | Fault::KilledBefore => Action::Hold(gate.clone()),
        Fault::KilledAfter => Action::HoldReply(gate.clone()),
    };
    let met = Arc::clone(&is_met);
    place.proxy().follow(move |head| match head.number == n {
        true => {
            met.store(true, Ordering::SeqCst);
            action.clone()
        }
        false => Action::Pass,
    });
    let (mut files, out) = (FILES, place.location("out"));
    for (number, arguments) in commands(&out, &place.location("in")).iter().enumerate() {
        if number == 1 {
            place.put(A_NEXT);
            files[0] = A_NEXT;
        }
        let mut command = place.command(arguments);
        command.env("AWS_TIMEOUT", "1s");
        let mut run = Running::start(command);
        if matches!(fault, Fault::KilledBefore | Fault::KilledAfter) {
            wait_until("the request or the end", || gate.held() == 1 || run.is_over());
            if gate.held() == 1 {
                run.kill();
                gate.cut();
                break;
            }
        }
        let expected: &[i32] = if matches!(fault, Fault::Refused) { &[0, 1, 3] } else { &[0, 75] };
        let ended = run.finish();
        assert!(expected.contains(&ended.code), "{arguments:?} ended with {}: {}", ended.code, ended.stderr);
        if ended.code != 0 {
            break;
        }
    }
    if is_met.load(Ordering::SeqCst) {
        gate.open();
        wait_until("the late request", || place.proxy().log().iter().any(|logged| logged.head.number == n));
    }
    place.proxy().calm();
    place.is_whole();
    place.makes(&["--on-change", "reprocess"], &files);
    place.execute(&vacuum(&out).split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(orphans(&place.path("out")), BTreeSet::new(), "objects that no log names");
    place.execute(&["verify", &out]).ok();
    had_nothing_to_do(&place.run(&["--on-change", "reprocess"]));
    place.holds(&files);
    is_met.load(Ordering::SeqCst)
}

/// Runs the job for every n in steps, several at once. Returns the last n that a job came to.
fn every(fault: Fault, first: usize, step: usize) -> usize {
    let (next, last, is_over) = (AtomicUsize::new(first), AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !is_over.load(Ordering::SeqCst) {
            let n = next.fetch_add(step, Ordering::SeqCst);
            match job(fault, n) {
                true => drop(last.fetch_max(n, Ordering::SeqCst)),
                false => is_over.store(true, Ordering::SeqCst),
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let name = format!("{fault:?}, worker {worker}");
            std::thread::Builder::new().name(name).spawn_scoped(scope, work).unwrap();
        }
    });
    last.into_inner()
}

#[test]
fn whichever_request_fails_the_next_run_makes_every_row_once() {
    let step: usize = std::env::var("ASAP_FAULTS").unwrap_or(STEP.to_string()).parse().unwrap();
    let faults = [Fault::Refused, Fault::Lost, Fault::TimedOut, Fault::KilledBefore, Fault::KilledAfter];
    for (number, fault) in faults.into_iter().enumerate() {
        let started = Instant::now();
        let last = every(fault, (3 * number) % step, step);
        assert!(last > 50, "{fault:?}: the job made only {last} requests");
        println!(
            "{fault:?}: every {step}th request until {last}, {:.1} minutes",
            started.elapsed().as_secs_f64() / 60.0
        );
    }
}
