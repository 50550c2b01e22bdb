//! Parts, table generations, retried rejects, and named inputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::runs::place::{A, B, C, D, File, PIPELINE, Place, had_nothing_to_do, summary};
use crate::support::table::REJECTS;
use asap_test_support::{Reply, Server};

#[test]
fn parts_that_run_at_once_make_each_row_once() {
    for place in Place::both() {
        let files = [A, B, C, D, ("e.parquet", 41..=47, "step"), ("f.parquet", 51..=57, "step")];
        place.put_all(&files);
        let parts = ["1/3", "2/3", "3/3"].map(|part| place.start(&["--part", part, "--set=run.slice_rows=2"]));
        for part in parts {
            part.finish().ok();
        }
        place.is_done(&files);
    }
}

#[test]
fn a_part_leaves_the_others_their_rows() {
    let place = Place::local().with(&[A, B, C, D]);
    let part = |part: &str| place.run(&["--part", part, "--set=run.slice_rows=2"]);
    let first = summary(&part("1/2"), 0)["rows_in"].as_u64().unwrap();
    had_nothing_to_do(&part("1/2"));
    let second = summary(&part("2/2"), 0)["rows_in"].as_u64().unwrap();
    assert!(first > 0 && second > 0 && first + second == 28, "{first} and {second}");
    for wrong in ["0/2", "3/2", "1/0", "one"] {
        assert_eq!(place.run(&["--part", wrong]).code, 2, "{wrong}");
    }
}

#[test]
fn inputs_with_names_are_kept_apart() {
    let place = Place::local().with(&[A]);
    place.put_bytes("other/a.parquet", &std::fs::read(place.path("in/a.parquet")).unwrap());
    place.put_bytes("single.parquet", &std::fs::read(place.path("in/a.parquet")).unwrap());
    let run = |from: &[&str]| {
        let from = from.iter().flat_map(|from| ["--from", from]);
        let base = ["run", "mine.sql", "--to", "out", "--format", "json"];
        place.execute(&base.into_iter().chain(from).collect::<Vec<_>>())
    };
    run(&["first=in", "more=other", "one=single.parquet"]).ok();
    let named = ["first/a.parquet", "more/a.parquet", "one/single.parquet"];
    place.holds(&named.map(|name| (name, 1..=7, "step")));
    had_nothing_to_do(&run(&["one=single.parquet", "first=in/", "more=other/a.parquet"]));
    had_nothing_to_do(&run(&["more=other"]));
    run(&["more=other", "more=single.parquet"]).ends(2, &["more"]);
}

#[test]
fn more_rejects_than_are_allowed_end_in_a_code_of_their_own() {
    let place = Place::local().with(&[A, B]);
    place.makes(&["--max-rejects", "2"], &[A, B]);
    for limit in ["1", "0", "5%"] {
        let place = Place::local().with(&[A, B]);
        let refused = place.run(&["--max-rejects", limit]).ends(3, &["--max-rejects"]);
        let told: Value = serde_json::from_str(refused.stdout.trim()).unwrap();
        assert!(told["error"].as_str().unwrap().contains("--max-rejects") && told["slices"].is_u64(), "{told}");
        place.is_whole();
        // Committed rows stay, and the rest is added.
        place.makes(&["--max-rejects", "50%"], &[A, B]);
    }
}

/// A pipeline that rejects rows without an answer.
const ASKING: &str = "SELECT source, id, ai_complete(question) AS cot, \
    CASE WHEN status IS NULL AND ai_complete(question) IS NULL THEN 'unanswered' ELSE status END AS status, error FROM corpus";

/// Sets up [`ASKING`] with a server that refuses ids ending in 3, until `is_fixed`.
fn ask(place: &Place, is_fixed: &Arc<AtomicBool>) -> Server {
    place.pipeline(ASKING);
    let is_fixed = Arc::clone(is_fixed);
    let server = Server::start(move |call| match call.prompt().ends_with('3') && !is_fixed.load(Ordering::SeqCst) {
        true => Reply::error(400, "not this one"),
        false => Reply::text(&call.prompt().replace("question", "step")),
    });
    place.ask(&server);
    server
}

/// No id ends in 7, so that [`ASKING`] and the pipeline of the other tests give the same rows.
const FIRST: File = ("a.parquet", 1..=6, "step");
const LATER: File = ("b.parquet", 11..=16, "step");

#[test]
fn rejects_that_are_tried_again_move_to_the_output() {
    for place in Place::both() {
        let is_fixed = Arc::default();
        let _server = ask(&place, &is_fixed);
        place.put_all(&[FIRST, LATER]);
        summary(&place.run(&[]), 0);
        assert_eq!(place.rows().rejected(), ["a.parquet:2", "a.parquet:4", "b.parquet:2", "b.parquet:4"]);
        had_nothing_to_do(&place.run(&[]));
        // Those that fail again stay, once.
        place.run(&["--retry-rejects"]).ok();
        assert_eq!(place.rows().rejected(), ["a.parquet:2", "a.parquet:4", "b.parquet:2", "b.parquet:4"]);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        is_fixed.store(true, Ordering::SeqCst);
        place.run(&["--retry-rejects=empty_chain,too_long"]).ok();
        assert_eq!(place.rows().rejected(), ["a.parquet:2", "a.parquet:4", "b.parquet:2", "b.parquet:4"]);
        place.makes(&["--retry-rejects=unanswered"], &[FIRST, LATER]);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        place.makes(&["--retry-rejects"], &[FIRST, LATER]);
    }
}

#[test]
fn rejects_that_are_tried_again_are_there_once_though_the_run_died() {
    // At the commit of the output, and at that of the rejects after it.
    for table in ["out".to_string(), format!("out/{REJECTS}")] {
        for retries_again in [true, false] {
            let place = Place::s3();
            let is_fixed = Arc::default();
            let _server = ask(&place, &is_fixed);
            place.fill(&[FIRST, LATER]);
            is_fixed.store(true, Ordering::SeqCst);
            let dies_at = table.clone();
            let gate = place.proxy().hold(move |head| head.commits(&dies_at));
            let mut run = place.start(&["--retry-rejects"]);
            run.wait_until("its commit", || gate.held() == 1);
            place.kill(run, &gate);
            // A run without --retry-rejects cannot know whether the killed one is dead, and leaves its files.
            let more: &[&str] = if retries_again { &["--retry-rejects"] } else { &[] };
            place.run(more).ok();
            if !retries_again {
                place.run(&["--retry-rejects"]).ok();
            }
            place.holds(&[FIRST, LATER]);
        }
    }
}

#[test]
fn a_new_generation_replaces_what_another_pipeline_made() {
    for place in Place::both() {
        place.put_all(&[A, B]);
        place.pipeline("SELECT source, id, upper(cot) AS cot FROM corpus");
        place.run(&[]).ok();
        place.pipeline(PIPELINE);
        place.run(&[]).ends(1, &["--new-generation"]);
        place.run(&["--new-generation"]).ok();
        place.is_done(&[A, B]);
    }
}

#[test]
fn rows_are_divided_by_any_text() {
    for place in Place::both() {
        let file: File = ("a.parquet", 1..=9, "a b/ü=%:#?*2F");
        place.put(file.clone());
        place.pipeline(&format!("{PIPELINE} AND id NOT LIKE '%3'"));
        let summary = summary(&place.run(&["--partition-by", "cot", "--set=run.slice_rows=4"]), 0);
        assert_eq!(summary["rows_out"], 6, "{summary}");
        let marks: Vec<String> = [1, 2, 4, 6, 8, 9].map(|id| format!("{} {id}", file.2)).to_vec();
        let (rows, mut read) = (place.rows(), marks.clone());
        read.sort();
        let mut found = rows.texts("cot");
        found.sort();
        assert_eq!(found, read);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
        place.execute(&["table", "optimize", &place.location("out")]).ok();
        place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
        assert_eq!(place.rows(), rows);
    }
}

#[test]
fn files_of_one_schema_fit_the_table_that_the_first_of_them_made() {
    use datafusion::arrow::array::{ArrayRef, Float16Array, RecordBatch, StringArray, UInt8Array, UInt16Array};
    let place = Place::local();
    let file = |name: &str| {
        let text = || -> ArrayRef { Arc::new(StringArray::from(vec!["x"])) };
        let columns: [(&str, ArrayRef); 6] = [
            ("question", text()),
            ("cot", text()),
            ("answer", text()),
            ("small", Arc::new(UInt8Array::from(vec![255]))),
            ("middle", Arc::new(UInt16Array::from(vec![65535]))),
            ("half", Arc::new(Float16Array::new_null(1))),
        ];
        place.put_batch(&format!("in/{name}.parquet"), &RecordBatch::try_from_iter(columns).unwrap());
    };
    file("a");
    place.run(&[]).ok();
    file("b");
    assert_eq!(summary(&place.run(&[]), 0)["rows_out"], 1);
    assert_eq!(place.rows().output.len(), 2);
}

#[test]
fn a_new_generation_of_no_rows_is_refused_and_takes_nothing_back() {
    let place = Place::local().filled(&[A]);
    std::fs::remove_file(place.path("in/a.parquet")).unwrap();
    place.run(&["--new-generation"]).ends(1, &["the input has no files"]);
    place.put_bytes("in/b.parquet", b"no Parquet");
    place.run(&["--new-generation"]).ends(1, &["b.parquet is not a Parquet file"]);
    place.holds(&[A]);
}

#[test]
fn a_renamed_file_keeps_its_rows_and_its_old_name() {
    for place in Place::both() {
        place.put(A);
        place.run(&["--limit", "3", "--set=run.slice_rows=3"]).ok();
        std::fs::rename(place.path("in/a.parquet"), place.path("in/z.parquet")).unwrap();
        let renamed = place.run(&["--set=run.slice_rows=3"]);
        let renamed = renamed.ends(0, &["z.parquet has the content of a.parquet, which no longer exists"]);
        assert_eq!(summary(&renamed, 0)["rows_in"], 4);
        place.is_done(&[A]);
    }
}

#[test]
fn a_copied_file_is_read_as_another_file() {
    let place = Place::local().filled(&[A]);
    std::fs::copy(place.path("in/a.parquet"), place.path("in/z.parquet")).unwrap();
    // Also with a pattern that lists only the copy.
    place.run_from("in/z*.parquet", &[]).ok();
    place.is_done(&[A, ("z.parquet", A.1, A.2)]);
}
