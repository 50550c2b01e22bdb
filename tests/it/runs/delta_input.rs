//! Delta tables as input: what a run reads of them, and one that changes during a run. `cases` has the others.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::runs::delta_table::Table;
use crate::runs::place::{A, B, Place, had_nothing_to_do};

#[test]
fn files_that_are_done_are_not_read_again() {
    let place = Place::s3();
    let table = Table::new(&place);
    table.append(&[A]);
    place.run(&[]).ok();
    table.append(&[B]);
    place.recovers(&[A, B]);
    assert_eq!(place.proxy().count_of(|head| head.path.ends_with("in/a.parquet")), 0);
    place.proxy().calm();
    had_nothing_to_do(&place.run(&[]));
    let of_log = place.proxy().count_of(|head| head.reads_log("in"));
    let others = place.proxy().count_of(|head| head.path.starts_with("/lake/in/") && !head.reads_log("in"));
    assert_eq!(others, 0, "objects outside of the log are read");
    assert!(of_log <= 7, "{of_log} requests for a log of three versions");
}

#[test]
fn two_first_runs_of_other_versions_are_not_mixed() {
    let place = Place::s3();
    let table = Table::new(&place);
    table.append(&[("a.parquet", 1..=4, "step")]);
    let seen = AtomicUsize::new(0);
    // The first commit makes the table.
    let gate = place.proxy().hold(move |head| head.commits("out") && seen.fetch_add(1, Ordering::SeqCst) == 1);
    let mut late = place.start(&["--set=run.slice_rows=2"]);
    late.wait_until("its first rows", || gate.held() == 1);
    place.put(("a2.parquet", 1..=4, "stop"));
    table.commit(&[table.remove("a.parquet"), table.add("a2.parquet")]);
    place.run(&["--set=run.slice_rows=2", "--limit", "2"]).ok();
    gate.open();
    late.finish().ends(75, &["version 2 of"]);
    place.makes(&[], &[("a2.parquet", 1..=4, "stop")]);
}
