//! The identity of a row: its file's path below the input, and the file's content.

use serde_json::json;

use crate::runs::place::{A, B, C, File, Place, failed, had_nothing_to_do, summary};

/// The next content of [`A`]: more rows, other rejects.
const A_NEXT: File = ("a.parquet", 2..=13, "later");

#[test]
fn a_changed_file_fails_by_name_and_the_others_are_processed() {
    for place in Place::both() {
        place.fill(&[A, B]);
        place.put_all(&[A_NEXT, C]);
        let changed = place.run(&[]).ends(3, &["a.parquet", "--on-change"]);
        assert_eq!(failed(&summary(&changed, 3)), ["a.parquet"]);
        place.holds(&[A, B, C]);
    }
}

#[test]
fn a_changed_file_replaces_its_rows_and_rejects_where_that_is_asked() {
    for place in Place::both() {
        place.put_all(&[A, B]);
        place.run(&["--set=run.slice_rows=3", "--set=run.commit_seconds=0"]).ok();
        let reprocess = ["--on-change=reprocess", "--set=run.slice_rows=3", "--set=run.commit_seconds=0"];
        // An earlier content that returns is processed again.
        for file in [A_NEXT, A, ("a.parquet", 3..=4, "short"), A_NEXT] {
            place.put(file.clone());
            place.run(&reprocess).ok();
            place.is_done(&[file, B]);
        }
    }
}

#[test]
fn a_changed_file_stays_as_it_was_where_that_is_asked() {
    for place in Place::both() {
        place.fill(&[A]);
        place.put_all(&[A_NEXT, B]);
        place.makes(&["--on-change=ignore"], &[A, B]);
        place.makes(&["--on-change=ignore"], &[A, B]);
    }
}

/// The size, the footer and every statistic are unchanged. Only the content differs.
#[test]
fn a_change_of_equal_length_in_a_middle_row_is_a_change() {
    for place in Place::both() {
        place.put(("a.parquet", 1..=4, "step"));
        let before = std::fs::read(place.path("in/a.parquet")).unwrap();
        place.run(&[]).ok();
        let at = before.windows(6).position(|window| window == b"step 3").unwrap();
        let mut after = before.clone();
        after[at..at + 6].copy_from_slice(b"stop 3");
        place.put_bytes("in/a.parquet", &after);
        place.fails_for("a.parquet", &[("a.parquet", 1..=4, "step")]);
        place.run(&["--on-change=reprocess"]).ok();
        assert_eq!(place.rows().texts("cot"), ["step 1", "step 2", "stop 3", "step 4"]);
        place.put_bytes("in/a.parquet", &before);
        place.makes(&["--on-change=reprocess"], &[("a.parquet", 1..=4, "step")]);
    }
}

#[test]
fn a_file_that_was_taken_away_leaves_its_rows() {
    let place = Place::local().filled(&[A, B]);
    std::fs::remove_file(place.path("in/a.parquet")).unwrap();
    had_nothing_to_do(&place.run(&[]));
    place.put(C);
    place.makes(&[], &[A, B, C]);
}

#[test]
fn the_same_files_elsewhere_on_this_machine_are_done() {
    let place = Place::local().filled(&[A, ("deep/b.parquet", 11..=17, "step")]);
    let here = place.path("").canonicalize().unwrap();
    std::os::unix::fs::symlink("in", place.path("link")).unwrap();
    std::fs::create_dir_all(place.path("mount/copy/deep")).unwrap();
    for name in ["a.parquet", "deep/b.parquet"] {
        std::fs::copy(place.path("in").join(name), place.path("mount/copy").join(name)).unwrap();
    }
    let absolute = here.join("in").display().to_string();
    let url = format!("file://{absolute}");
    let with_slash = format!("{url}/");
    for from in ["in/", "./in", "deep/../in", "link", "link/", "mount/copy", &absolute, &url, &with_slash] {
        had_nothing_to_do(&place.run_from(from, &[]));
    }
    had_nothing_to_do(&place.run_from("in/a.parquet", &[]));
    place.holds(&[A, ("deep/b.parquet", 11..=17, "step")]);
}

#[test]
fn the_same_objects_under_another_url_are_done() {
    let place = Place::s3().filled(&[A, B]);
    for name in ["a.parquet", "b.parquet"] {
        place.put_bytes(&format!("copy/{name}"), &std::fs::read(place.path("in").join(name)).unwrap());
    }
    for from in ["s3://lake/in/", "s3a://lake/in", "s3a://lake/in/", "s3://lake/copy", "s3://lake/in/b.parquet"] {
        had_nothing_to_do(&place.run_from(from, &[]));
    }
    let to = ["run", "mine.sql", "--from", "s3://lake/in", "--to", "s3a://lake/out/", "--format", "json"];
    had_nothing_to_do(&place.execute(&to));
    place.holds(&[A, B]);
}

/// None of these rows is a reject or filtered.
const FIRST: File = ("a.parquet", 1..=4, "step");
const LATER: File = ("b.parquet", 11..=14, "step");

#[test]
fn a_limit_holds_for_the_output_and_raising_it_goes_on() {
    for place in Place::both() {
        place.put(LATER);
        place.run(&["--limit", "2"]).ok();
        assert_eq!(place.rows().sources(), ["b.parquet:0", "b.parquet:1"]);
        // Its name sorts before the file that was begun.
        place.put(FIRST);
        place.run(&["--limit", "2"]).ok();
        assert_eq!(place.rows().sources(), ["b.parquet:0", "b.parquet:1"]);
        place.run(&["--limit", "5"]).ok();
        let rows = place.rows();
        assert_eq!(rows.output.len(), 5, "{:?}", rows.sources());
        for row in ["b.parquet:0", "b.parquet:1"] {
            assert!(rows.sources().contains(&row.to_string()), "{row} went");
        }
        place.run(&["--limit", "3"]).ok();
        assert_eq!(place.rows(), rows);
        place.makes(&[], &[FIRST, LATER]);
        had_nothing_to_do(&place.run(&["--limit", "2"]));
        had_nothing_to_do(&place.run(&["--limit", "100"]));
    }
}

#[test]
fn files_share_a_limit_evenly() {
    let place = Place::local().with(&[FIRST, LATER]);
    place.run(&["--limit", "5"]).ok();
    assert_eq!(place.rows().sources(), ["a.parquet:0", "a.parquet:1", "a.parquet:2", "b.parquet:0", "b.parquet:1"]);
}

#[test]
fn a_sample_is_chosen_once_for_all_runs_and_parts() {
    let place = Place::local().with(&[FIRST, LATER]);
    let run = |more: &[&str]| place.run(&[&["--sample", "5", "--seed", "3", "--set=run.slice_rows=1"], more].concat());
    run(&["--part", "1/2"]).ok();
    place.put(("c.parquet", 21..=24, "step"));
    run(&["--part", "2/2"]).ok();
    let rows = place.rows();
    assert_eq!((rows.output.len(), rows.rejects.len()), (5, 0), "{:?}", rows.sources());
    assert!(rows.sources().iter().all(|source| !source.starts_with("c.parquet")), "{:?}", rows.sources());
    had_nothing_to_do(&run(&[]));
    place.run(&[]).ends(1, &["--sample ('5 --seed 3' there, not set here)"]);
    let chosen = summary(&run(&["--new-generation"]), 0);
    assert_eq!((&chosen["rows_in"], &chosen["sample"]["of"]), (&json!(5), &json!(12)));
    place.makes(&["--new-generation"], &[FIRST, LATER, ("c.parquet", 21..=24, "step")]);
}

#[test]
fn a_limit_that_ends_in_a_slice_goes_on_where_it_ended() {
    let place = Place::local().with(&[A, B]);
    for limit in ["1", "2", "5", "6", "9"] {
        place.run(&["--limit", limit, "--set=run.slice_rows=3"]).ok();
        let rows = place.rows();
        assert!(rows.output.len() + rows.rejects.len() <= limit.parse().unwrap(), "{limit}: {rows:?}");
    }
    place.makes(&["--set=run.slice_rows=4"], &[A, B]);
    had_nothing_to_do(&place.run(&["--set=run.slice_rows=2"]));
}
