//! Delta tables as input: a snapshot, then version by version.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::runs::delta_table::Table;
use crate::runs::place::{A, B, C, D, File, PIPELINE, Place, Running, failed, had_nothing_to_do, summary, wait_until};
use crate::support::table::log;

/// Runs a test with a place on this machine and with one in a bucket.
fn everywhere(test: impl Fn(&Place)) {
    Place::both().iter().for_each(test);
}

#[test]
fn a_table_is_read_as_a_snapshot_and_then_version_by_version() {
    everywhere(|place| {
        let table = Table::new(place);
        had_nothing_to_do(&place.run(&[]).ends(0, &["has no files"]));
        table.append(&[A]);
        table.append(&[B]);
        // The table does not contain it.
        place.put(D);
        place.reads(&[], 14, &[A, B]);
        had_nothing_to_do(&place.run(&[]));
        let version = log(&place.path("out")).len();
        had_nothing_to_do(&place.run(&[]));
        assert_eq!(log(&place.path("out")).len(), version, "a run with nothing to do commits");
        table.append(&[C]);
        place.reads(&[], 7, &[A, B, C]);
        had_nothing_to_do(&place.run(&[]));
    });
}

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
fn a_version_that_only_rewrites_files_changes_nothing() {
    everywhere(|place| {
        let table = Table::filled(place, &[A, B]);
        table.merge(&["a.parquet", "b.parquet"], ("ab.parquet", 1..=14, "step"));
        had_nothing_to_do(&place.run(&[]));
        table.append(&[C]);
        place.reads(&[], 7, &[A, B, C]);
        // The output has the rows of the rewritten file under their original files.
        table.commit(&[table.remove("ab.parquet")]);
        let refused = place.run(&[]).ends(3, &["OPTIMIZE", "--on-change reprocess", "--on-change ignore"]);
        assert_eq!(failed(&summary(&refused, 3)), ["ab.parquet"]);
        place.holds(&[A, B, C]);
        let reprocessed = place.run(&["--on-change=reprocess"]).ends(0, &["a.parquet and b.parquet are deleted"]);
        assert_eq!(summary(&reprocessed, 0)["rows_in"], 0);
        place.is_done(&[C]);
    });
}

/// The output contains A, B and D. The table has C, and A and B merged into one file, of which a later version deletes
/// a row.
fn merged_and_changed(place: &Place) -> Table<'_> {
    let table = Table::new(place);
    table.append(&[A, B]);
    table.append(&[D]);
    place.run(&["--set=run.slice_rows=3"]).ok();
    table.merge(&["a.parquet", "b.parquet"], ("ab.parquet", 1..=14, "step"));
    had_nothing_to_do(&place.run(&[]));
    place.put(("rest.parquet", 2..=14, "stop"));
    table.commit(&[table.remove("ab.parquet"), table.add("rest.parquet")]);
    table.append(&[C]);
    table
}

/// The content of the table of [`merged_and_changed`].
const REST: [File; 3] = [("rest.parquet", 2..=14, "stop"), C, D];

#[test]
fn a_version_that_changes_a_merged_file_replaces_all_that_was_merged() {
    everywhere(|place| {
        let table = merged_and_changed(place);
        place.fails_for("ab.parquet", &[A, B, D]);
        place.reads(&["--on-change=reprocess"], 20, &REST);
        had_nothing_to_do(&place.run(&[]));
        // From now on the file has its own name.
        table.commit(&[table.remove("rest.parquet")]);
        place.makes(&["--on-change=reprocess"], &[C, D]);
        had_nothing_to_do(&place.run(&["--on-change=reprocess"]));
        place.execute(&["table", "verify", &place.location("out")]).ok();
    });
}

#[test]
fn a_merged_file_is_passed_over_where_that_is_asked() {
    let place = Place::local();
    merged_and_changed(&place);
    place.reads(&["--on-change=ignore"], 7, &[A, B, C, D]);
    had_nothing_to_do(&place.run(&[]));
}

#[test]
fn rows_of_a_merged_file_that_a_deletion_vector_marks_are_gone() {
    let place = Place::local();
    let table = Table::filled(&place, &[A, B]);
    table.merge(&["a.parquet", "b.parquet"], ("ab.parquet", 1..=14, "step"));
    let vector = &table.vectors(&[&[0]])[0];
    table.commit(&[table.remove("ab.parquet"), table.add_with("ab.parquet", vector)]);
    place.run(&["--on-change=reprocess"]).ok();
    let rows = place.rows();
    assert_eq!(rows.ids(), [2, 3, 4, 6, 8, 9, 11, 12, 13, 14]);
    assert!(rows.sources().iter().all(|source| source.starts_with("ab.parquet:")), "{:?}", rows.sources());
    had_nothing_to_do(&place.run(&[]));
}

#[test]
fn two_runs_and_dead_ones_replace_what_was_merged_once() {
    let place = Place::s3();
    merged_and_changed(&place);
    place.run_twice_at_once(&["--on-change=reprocess", "--set=run.slice_rows=2", "--set=run.commit_seconds=0"]);
    place.makes(&["--on-change=reprocess"], &REST);
    for deaths in 0..4 {
        let place = Place::s3();
        merged_and_changed(&place);
        die_at_commit(&place, deaths);
        place.run(&["--on-change=reprocess"]).ok();
        place.is_done(&REST);
    }
}

/// Runs with `--on-change reprocess`, and kills the run during the commit after `commits` commits.
fn die_at_commit(place: &Place, commits: usize) {
    let seen = AtomicUsize::new(0);
    let gate = place.proxy().hold(move |head| head.commits("out") && seen.fetch_add(1, Ordering::SeqCst) >= commits);
    let mut run = place.start(&["--on-change=reprocess", "--set=run.commit_seconds=0"]);
    wait_until("a commit", || gate.held() > 0 || run.is_over());
    place.kill(run, &gate);
}

#[test]
fn open_files_are_read_from_where_they_were_before_they_were_rewritten() {
    let place = Place::local();
    let table = Table::new(&place);
    table.append(&[A]);
    place.makes(&[], &[A]);
    table.append(&[B, C]);
    table.merge(&["a.parquet", "b.parquet", "c.parquet"], ("abc.parquet", 1..=21, "step"));
    std::fs::remove_file(place.path("in/c.parquet")).unwrap();
    let vacuumed = place.run(&[]).ends(3, &["version 3", "vacuumed", "--new-generation"]);
    assert_eq!(failed(&summary(&vacuumed, 3)), ["c.parquet"]);
    place.holds(&[A, B]);
    place.fill(&[C]);
    place.is_done(&[A, B, C]);
}

/// A table with a version that deletes all of one file and rewrites another, between versions that only add. The output
/// contains the earlier rows.
fn changed(place: &Place) {
    let table = Table::filled(place, &[A, B, C]);
    place.put(("b2.parquet", 12..=16, "stop"));
    table.commit(&[table.remove("a.parquet"), table.remove("b.parquet"), table.add("b2.parquet")]);
    table.append(&[D]);
}

#[test]
fn a_version_that_removes_rows_fails_by_name_and_ends_what_is_followed() {
    everywhere(|place| {
        changed(place);
        for _ in 0..2 {
            let texts = ["version 2", "in removed", "1 other file", "--on-change reprocess"];
            let summary = summary(&place.run(&[]).ends(3, &texts), 3);
            assert_eq!((failed(&summary), &summary["rows_in"]), (vec!["a.parquet"], &json!(0)));
            place.holds(&[A, B, C]);
        }
    });
}

#[test]
fn a_version_that_removes_rows_is_passed_over_where_that_is_asked() {
    everywhere(|place| {
        changed(place);
        let ignored = summary(&place.run(&["--on-change=ignore"]), 0);
        assert_eq!(ignored["files_ignored"], json!(["a.parquet", "b.parquet"]));
        place.holds(&[A, B, C, D]);
        // Skipped versions stay skipped.
        had_nothing_to_do(&place.run(&[]));
    });
}

#[test]
fn rows_that_a_version_removed_are_taken_back_where_that_is_asked() {
    everywhere(|place| {
        changed(place);
        let reprocessed = place.run(&["--on-change=reprocess"]).ends(0, &["version 2"]);
        assert_eq!(summary(&reprocessed, 0)["rows_in"], 12);
        let now: [File; 3] = [("b2.parquet", 12..=16, "stop"), C, D];
        place.is_done(&now);
        let table = Table::at(place, "in");
        table.commit_as(4, &[table.remove("d.parquet")]);
        let taken = summary(&place.run(&["--on-change=reprocess"]), 0);
        assert_eq!((&taken["nothing_to_do"], &taken["rows_in"]), (&json!(false), &json!(0)));
        place.is_done(&now[..2]);
        // It comes back, as after a restore.
        table.commit_as(5, &[table.add("d.parquet")]);
        place.makes(&[], &now);
    });
}

#[test]
fn a_run_that_dies_while_it_takes_rows_back_is_finished_by_the_next() {
    // At the first commit, which deletes rows, and at each later one.
    for deaths in 0..4 {
        let place = Place::s3();
        changed(&place);
        die_at_commit(&place, deaths);
        place.run(&["--on-change=reprocess"]).ok();
        place.is_done(&[("b2.parquet", 12..=16, "stop"), C, D]);
    }
}

#[test]
fn a_snapshot_that_was_begun_is_completed_before_what_came_after() {
    let place = Place::s3();
    let table = Table::new(&place);
    table.append(&[A, B]);
    table.append(&[C]);
    let seen = AtomicUsize::new(0);
    // The first commit makes the table.
    let gate = place.proxy().hold(move |head| head.commits("out") && seen.fetch_add(1, Ordering::SeqCst) > 1);
    let mut run = place.start(&["--set=run.slice_rows=2", "--set=run.commit_seconds=0"]);
    run.wait_until("its third commit", || gate.held() == 1);
    place.kill(run, &gate);
    let before = place.rows().output.len();
    assert!(before > 0 && before < 15, "{before}");
    // The table changes: open rows are removed, and others are added.
    table.commit(&[table.remove("c.parquet")]);
    table.append(&[D]);
    place.fails_for("c.parquet", &[A, B, C]);
    place.run(&["--on-change=reprocess"]).ok();
    place.is_done(&[A, B, D]);
}

#[test]
fn a_run_of_parts_and_limits_is_as_that_of_a_folder() {
    let place = Place::local();
    let table = Table::new(&place);
    table.append(&[A, B]);
    place.run(&["--part", "1/2", "--set=run.slice_rows=2"]).ok();
    table.append(&[C]);
    place.run(&["--part", "2/2", "--set=run.slice_rows=2"]).ok();
    place.makes(&["--part", "1/2", "--set=run.slice_rows=2"], &[A, B, C]);
    table.append(&[D]);
    place.run(&["--limit", "25"]).ok();
    had_nothing_to_do(&place.run(&["--limit", "25"]));
    place.reads(&[], 3, &[A, B, C, D]);
}

#[test]
fn two_first_runs_at_once_make_each_row_once() {
    everywhere(|place| {
        Table::new(place).append(&[A, B, C, D]);
        place.run_twice_at_once(&["--set=run.slice_rows=3", "--set=run.commit_seconds=0"]);
        place.is_done(&[A, B, C, D]);
    });
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

#[test]
fn rejects_are_tried_again_from_files_that_have_left_their_table() {
    everywhere(|place| {
        let table = Table::filled(place, &[A, B]);
        had_nothing_to_do(&place.run(&[]));
        table.merge(&["a.parquet", "b.parquet"], ("ab.parquet", 1..=14, "step"));
        place.reads(&["--retry-rejects"], 2, &[A, B]);
        std::fs::remove_file(place.path("in/a.parquet")).unwrap();
        let vacuumed = place.run(&["--retry-rejects"]).ends(0, &["cannot retry the rejects of a.parquet"]);
        assert_eq!(summary(&vacuumed, 0)["rows_in"], 1);
        place.holds(&[A, B]);
    });
}

#[test]
fn a_watch_sees_new_versions() {
    let place = Place::local();
    let table = Table::new(&place);
    table.append(&[A]);
    let mut run = place.start(&["--watch=50ms"]);
    let rows = |run: &mut Running, wanted: usize| {
        run.wait_until("rows", || {
            let adds = log(&place.path("out")).into_iter().flat_map(|(_, actions)| actions);
            adds.filter(|action| action.get("add").is_some()).count() == wanted
        });
    };
    rows(&mut run, 1);
    table.append(&[B]);
    rows(&mut run, 2);
    run.terminate();
    run.finish().ok();
    place.holds(&[A, B]);
}

#[test]
fn tables_and_folders_are_read_together_by_their_names() {
    let place = Place::local();
    let table = Table::new(&place);
    table.append(&[A]);
    place.put_bytes("more/a.parquet", &std::fs::read(place.path("in/a.parquet")).unwrap());
    let run = || {
        let base = ["run", "mine.sql", "--from", "table=in", "--from", "more", "--to", "out", "--format", "json"];
        place.execute(&base)
    };
    run().ok();
    place.holds(&[("table/a.parquet", 1..=7, "step"), A]);
    table.append(&[B]);
    assert_eq!(summary(&run(), 0)["rows_in"], 7);
    place.holds(&[("table/a.parquet", 1..=7, "step"), ("table/b.parquet", 11..=17, "step"), A]);
    had_nothing_to_do(&run());
}

#[test]
fn what_comes_after_a_version_that_failed_is_not_read() {
    let place = Place::local().filled(&[("a.parquet", 1..=4, "step")]);
    let follow = |more: &[&str]| place.run_between("out", "next", more);
    assert_eq!(summary(&follow(&[]), 0)["rows_out"], 4);
    // A new table generation deletes all rows in one version, and adds the new ones in later versions.
    place.pipeline(&format!("{PIPELINE} AND id <> '3'"));
    place.run(&["--new-generation"]).ok();
    place.pipeline(PIPELINE);
    let failed = follow(&[]);
    assert_eq!(summary(&failed, 3)["rows_in"], 0, "{}", failed.stderr);
    assert_eq!(summary(&follow(&["--on-change", "reprocess"]), 0)["rows_out"], 3);
}
