//! Runs that die at chosen points, and the recovery by the next run.
//!
//! A point is a request, since only requests leave traces in the store. `seeded` chooses other points at random.

use std::collections::{BTreeMap, BTreeSet};

use crate::runs::place::{File, Place, had_nothing_to_do, wait_until};
use crate::support::proxy::{Action, Gate, RequestHead};
use crate::support::table::orphans;
use asap_test_support::{Call, Reply, Server};

/// Calls a language model for each kept row.
const PIPELINE: &str = "SELECT source, id, cot_anchor(question, answer)['thought'] AS thought, status, error \
                        FROM corpus WHERE id NOT LIKE '%7'";
const MORE: [&str; 4] =
    ["--set=run.slice_rows=1", "--set=run.commit_seconds=0", "--set", "asap.anchor.max_concurrent_requests=4"];
/// Requests in flight, which is also the maximum of answers that are not yet cached.
const CALLS: usize = 4;

/// The name of a point, and the test for the request that marks it.
type Point = (&'static str, fn(&RequestHead) -> bool);

/// The points of a run that begins and ends with rejects, in order. Rejects that were committed without their slice are
/// deleted at the end of the run that does the slice.
const POINTS: [Point; 10] = [
    ("the check of the log", |head| head.puts("out/_delta_log") && head.path.contains("probe")),
    ("the output's table is made", |head| head.commits("out") && head.path.ends_with("/00000000000000000000.json")),
    ("the rejects' table is made", |head| {
        head.commits(REJECTS_TABLE) && head.path.ends_with("/00000000000000000000.json")
    }),
    ("slices are committed", |head| head.commits_rows("out")),
    ("an answer is kept", |head| head.puts("out/.asap/cache") && head.path.ends_with(".answers.parquet")),
    ("a shard of the output", |head| head.method == "PUT" && head.path.starts_with("/lake/out/asap-")),
    ("a shard of the rejects", |head| head.puts("out/.asap/rejects") && head.path.contains("/asap-")),
    ("rejects are committed", |head| head.commits_rows(REJECTS_TABLE)),
    ("rejects that do not count are taken out", |head| {
        head.commits(REJECTS_TABLE) && head.body.contains("{\"remove\":")
    }),
    ("the end is said", |head| head.commits("out") && head.body.contains("asap/finished")),
];
const REJECTS_TABLE: &str = "out/.asap/rejects";

fn place(files: &[File]) -> (Place, Server) {
    let place = Place::s3();
    place.pipeline(PIPELINE);
    place.put_all(files);
    let server = Server::start(|call: &Call| Reply::Text(format!("Think of {}.", call.between("problem"))));
    place.ask(&server);
    (place, server)
}

/// Starts a run and kills it at a request, before or after the server sees it, depending on `action`. Returns whether
/// the request came.
fn crash(
    place: &Place,
    action: Action,
    gate: &Gate,
    is_point: impl Fn(&RequestHead) -> bool + Send + Sync + 'static,
) -> bool {
    place.proxy().fault(1, is_point, action);
    let mut run = place.start(&MORE);
    wait_until("the point or the end", || gate.held() == 1 || run.is_over());
    let came = gate.held() == 1;
    place.kill(run, gate);
    place.is_whole();
    came
}

/// Checks that the output equals an undisturbed one, that vacuuming leaves no object without a log entry, and that each
/// death cost at most the requests in flight.
fn ends_as_undisturbed(place: &Place, server: &Server, files: &[File], deaths: usize) {
    place.run(&MORE).ok();
    had_nothing_to_do(&place.run(&MORE));
    let (whole, other) = self::place(files);
    whole.run(&MORE).ok();
    assert_eq!(place.rows(), whole.rows());
    place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
    assert_eq!(orphans(&place.path("out")), BTreeSet::new(), "objects that no log names");
    assert_eq!(place.rows(), whole.rows());
    let (paid, needed) = (server.answered(), other.answered());
    assert!(paid <= needed + deaths * CALLS, "{paid} paid calls, {needed} needed calls, {deaths} deaths");
}

#[test]
fn a_run_goes_on_after_a_death_at_each_point() {
    // More calls than all deaths can lose, so that some remain for each point.
    let files: [File; 4] = [
        ("a.parquet", 105..=105, "step"),
        ("b.parquet", 211..=268, "step"),
        ("c.parquet", 311..=318, "step"),
        ("d.parquet", 405..=405, "step"),
    ];
    let (place, server) = place(&files);
    let mut reached: BTreeMap<&str, usize> = BTreeMap::new();
    let mut deaths = 0;
    for (name, is_point) in POINTS {
        for is_seen in [false, true] {
            let gate = Gate::new();
            let action = if is_seen { Action::HoldReply(gate.clone()) } else { Action::Hold(gate.clone()) };
            if crash(&place, action, &gate, is_point) {
                *reached.entry(name).or_default() += 1;
                deaths += 1;
            }
        }
    }
    let expected: BTreeMap<&str, usize> = POINTS.iter().map(|(name, _)| (*name, 2)).collect();
    assert_eq!(reached, expected, "number of times each point was reached");
    ends_as_undisturbed(&place, &server, &files, deaths);
}
