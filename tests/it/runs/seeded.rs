//! Runs with faults, and killed runs, each by a seed. `ASAP_SEEDS` and `ASAP_KILLS` set their number.
//!
//! A seed fixes which requests fail and how, and when a process dies. The interleaving of requests depends on the
//! machine.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::runs::place::{File, Place, TALK, had_nothing_to_do};
use crate::support::proxy::{Action, RequestHead};

const A: File = ("a.parquet", 1..=9, "step");
const FILES: [File; 4] =
    [A, ("b/b.parquet", 11..=19, "step"), ("c.parquet", 21..=22, "step"), ("d.parquet", 31..=39, "step")];
const A_NEXT: File = ("a.parquet", 2..=13, "later");
/// The same as conversations.
const TALKS: [File; 4] = [
    ("a.parquet", 1..=9, "talk"),
    ("b/b.parquet", 11..=19, "talk"),
    ("c.parquet", 21..=22, "talk"),
    ("d.parquet", 31..=39, "talk"),
];
const A_OF_TALKS_NEXT: File = ("a.parquet", 2..=13, "talk later");

/// The pipeline of conversations, which only `pruned` lets pass.
const PRUNED: &str = "SELECT source, id, cot, turns, status, error FROM \
     pruned((SELECT *, [1] AS kept FROM corpus WHERE id NOT LIKE '%7'), 'first')";

/// Many slices with one commit each, which gives many points of failure.
const SLICED: [&str; 2] = ["--set=run.slice_rows=4", "--set=run.commit_seconds=0"];
const SLICED_AGAIN: [&str; 3] = ["--set=run.slice_rows=4", "--set=run.commit_seconds=0", "--on-change=reprocess"];
/// The number of seeds that run in parallel: most of their time is the wait before a retry.
const AT_ONCE: u64 = 4;
/// The number of starts with faults. Later starts have none.
const DISTURBED: u64 = 8;

pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        dice.set_stream(purpose);
        Self(dice)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

/// Tries as many seeds as a variable says, or a range of seeds (`250..260`). The name of a thread contains its seed.
fn try_seeds(variable: &str, default: u64, trial: impl Fn(u64) + Sync) {
    let seeds = std::env::var(variable).unwrap_or(default.to_string());
    let (from, to) = seeds.split_once("..").unwrap_or(("0", &seeds));
    let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
    for first in (from..to).step_by(AT_ONCE as usize) {
        std::thread::scope(|scope| {
            for seed in first..to.min(first + AT_ONCE) {
                let trial = &trial;
                std::thread::Builder::new()
                    .name(format!("{variable}: seed {seed}"))
                    .spawn_scoped(scope, move || trial(seed))
                    .unwrap();
            }
        });
    }
}

/// Draws the action for a request: `faults` of a thousand fail, and three times as many of conditional creates such as
/// commits.
fn fault(seed: u64, start: u64, faults: u64, head: &RequestHead) -> Action {
    let mut dice = Dice::new(seed, start << 32 | head.number as u64);
    let creates = head.is_create();
    if dice.below(1000) >= if creates { 3 * faults } else { faults } {
        return Action::Pass;
    }
    let both = [
        Action::Status(403, "AccessDenied"),
        Action::Status(503, "SlowDown"),
        Action::Status(429, "SlowDown"),
        Action::Status(500, "InternalError"),
        Action::Cut,
        Action::LoseReply,
        Action::Slow(Duration::from_millis(20)),
    ];
    let more = match head.method.as_str() {
        "GET" | "HEAD" => vec![Action::CutBody],
        _ if creates => vec![
            Action::Status(409, "ConditionalRequestConflict"),
            Action::ReplyAfterLoss(500),
            Action::ReplyAfterLoss(503),
            Action::LoseReply,
        ],
        _ => vec![Action::ReplyAfterLoss(500)],
    };
    dice.one_of(&[&both[..], &more].concat())
}

/// Starts runs, one or two at a time, until all of them report success.
fn run_among_faults(place: &Place, seed: u64, first_start: u64, arguments: &[&str]) {
    let mut dice = Dice::new(seed, 0);
    let faults = dice.one_of(&[20, 50, 100]);
    let at_once = dice.one_of(&[1, 1, 2]);
    for start in first_start..first_start + DISTURBED + 2 {
        let faults = if start < first_start + DISTURBED { faults } else { 0 };
        place.proxy().follow(move |head| fault(seed, start, faults, head));
        let runs: Vec<_> = (0..at_once).map(|_| place.start(arguments)).collect();
        let ended: Vec<_> = runs.into_iter().map(|mut run| run.finish()).collect();
        for ended in &ended {
            let is_foreseen = [0, 1, 3, 75].contains(&ended.code) || at_once > 1 && ended.code == 4;
            assert!(is_foreseen, "start {start}: {}: {}", ended.code, ended.stderr);
        }
        place.is_whole();
        // Rejects of a failed run may remain without counting, until the next run deletes them.
        if ended.iter().all(|ended| [0, 4].contains(&ended.code)) {
            return;
        }
    }
    panic!("not done in runs without faults");
}

/// A place with these files, and with a pipeline that takes their rows.
fn filled(place: Place, files: &[File]) -> Place {
    if files[0].2.starts_with(TALK) {
        place.pipeline(PRUNED);
    }
    place.with(files)
}

/// Returns the result of an undisturbed run on this machine.
fn undisturbed(files: &[File]) -> Place {
    let place = filled(Place::local(), files);
    place.makes(&[], files);
    place
}

#[test]
fn faults_of_the_store_lose_and_double_no_row() {
    let corpora = [(FILES, A_NEXT), (TALKS, A_OF_TALKS_NEXT)].map(|(files, next)| {
        let mut changed = files.clone();
        changed[0] = next.clone();
        let expected = [&files, &changed].map(|files| undisturbed(files).rows());
        (files, next, expected)
    });
    try_seeds("ASAP_SEEDS", 4, |seed| {
        let (files, next, expected) = &corpora[(seed % 2) as usize];
        let place = filled(Place::s3(), files);
        run_among_faults(&place, seed, 1, &SLICED);
        assert_eq!(place.rows(), expected[0]);
        place.put(next.clone());
        run_among_faults(&place, seed, 1000, &SLICED_AGAIN);
        assert_eq!(place.rows(), expected[1]);
        place.proxy().calm();
        had_nothing_to_do(&place.run(&[]));
    });
}

/// Kills a run on this machine at a random time below `within`.
fn kill_in_time(place: &Place, dice: &mut Dice, within: Duration, arguments: &[&str]) {
    let run = place.start(arguments);
    std::thread::sleep(Duration::from_micros(dice.below(within.as_micros() as u64)));
    run.kill();
}

/// `faults` kills runs in a bucket at each request.
#[test]
fn runs_that_are_killed_lose_and_double_no_row() {
    let started = Instant::now();
    drop(undisturbed(&FILES));
    let within = started.elapsed();
    try_seeds("ASAP_KILLS", 4, |seed| {
        let mut dice = Dice::new(seed, 0);
        let (mut files, next) = if seed % 4 < 2 { (FILES, A_NEXT) } else { (TALKS, A_OF_TALKS_NEXT) };
        let place = filled(Place::local(), &files);
        let mut arguments = &SLICED[..];
        if seed % 2 == 1 {
            // The killed run replaces rows.
            place.run(arguments).ok();
            place.put(next.clone());
            (files[0], arguments) = (next, &SLICED_AGAIN[..]);
        }
        for _ in 0..1 + dice.below(3) {
            kill_in_time(&place, &mut dice, within, arguments);
            place.is_whole();
        }
        place.makes(arguments, &files);
        had_nothing_to_do(&place.run(arguments));
    });
}
