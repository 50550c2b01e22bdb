//! Commands that are refused before a row is read, with an error that names the cause.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use datafusion::arrow::array::{ArrayRef, Decimal256Array, RecordBatch, StringArray};

use crate::common::{Finished, files_below};
use crate::runs::place::{A, Place, Running};
use crate::support::proxy::{Action, Gate};
use asap_test_support::{Reply, Server};

/// Checks that a run was refused with every text in its message, and wrote nothing.
#[track_caller]
fn check(place: &Place, finished: Finished, named: &[&str]) {
    let finished = finished.ends_in(&[1, 2], named);
    assert!(finished.stderr.starts_with("error: "), "{}", finished.stderr);
    is_untouched(place);
}

#[track_caller]
fn is_untouched(place: &Place) {
    assert_eq!(files_below(&place.path("out")), BTreeSet::new(), "something was written");
}

/// A Delta table at `tables/delta`, and its source corpus at `in`.
fn delta(place: &Place) {
    place.put(A);
    let (from, to) = (place.location("in"), place.location("tables/delta"));
    place.execute(&["run", "mine.sql", "--from", &from, "--to", &to]).ok();
}

#[test]
fn what_lies_around_or_in_a_delta_table_is_no_corpus() {
    for place in Place::both() {
        delta(&place);
        let table = place.path("tables/delta");
        let attempt = std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let attempt = format!("tables/delta/{}", attempt.into_iter().find(|name| name.starts_with("asap-")).unwrap());
        let shard = std::fs::read_dir(place.path(&attempt)).unwrap().next().unwrap().unwrap().file_name();
        let shard = format!("{attempt}/{}", shard.to_str().unwrap());
        for inside in ["tables", "tables/", &attempt, &shard] {
            check(&place, place.run_from(&place.location(inside), &[]), &["tables/delta", "Delta table"]);
        }
    }
}

#[test]
fn tables_of_iceberg_and_hudi_are_no_corpus() {
    let mark = |place: &Place, format: &str| match format {
        "Iceberg" => place.put_bytes("tables/t/metadata/v1.metadata.json", b"{\"format-version\": 2}"),
        _ => place.put_bytes("tables/t/.hoodie/hoodie.properties", b"hoodie.table.name=t\n"),
    };
    for (place, format) in [(Place::s3(), "Iceberg"), (Place::local(), "Hudi")] {
        place.put(A);
        let file = std::fs::read(place.path("in/a.parquet")).unwrap();
        place.put_bytes("tables/t/data/day=1/a.parquet", &file);
        mark(&place, format);
        for from in ["tables", "tables/t", "tables/t/", "tables/t/data", "tables/t/data/day=1/a.parquet"] {
            check(&place, place.run_from(&place.location(from), &[]), &["tables/t", format]);
        }
        // Files next to the table can be read.
        place.run(&[]).ok();
    }
}

#[test]
fn an_output_in_the_input_is_refused_with_and_without_a_slash() {
    for place in Place::both() {
        place.put(A);
        for (from, to) in [("in", "in/out"), ("in/", "in/out/"), ("in", "in/deep/out"), ("in", "in"), ("in/", "in")] {
            let (from, to) = (place.location(from), place.location(to));
            place.execute(&["run", "mine.sql", "--from", &from, "--to", &to]).ends(2, &["choose another output"]);
        }
        assert_eq!(std::fs::read_dir(place.path("in")).unwrap().count(), 1, "something was written");
        // A name with the same prefix is not inside it.
        let (from, to) = (place.location("in"), place.location("input-pruned"));
        place.execute(&["run", "mine.sql", "--from", &from, "--to", &to]).ok();
    }
}

#[test]
fn an_output_in_the_input_under_another_spelling_is_refused() {
    let place = Place::local().with(&[A]);
    std::os::unix::fs::symlink("in", place.path("link")).unwrap();
    let refused = place.execute(&["run", "mine.sql", "--from", "link", "--to", "in/out"]);
    check(&place, refused, &["choose another output"]);
    let place = Place::s3().with(&[A]);
    let refused = place.execute(&["run", "mine.sql", "--from", "s3a://lake/in", "--to", "s3://lake/in/out"]);
    check(&place, refused, &["choose another output"]);
}

#[test]
fn a_pipeline_that_makes_a_source_of_its_own_is_refused() {
    let place = Place::local().with(&[A]);
    for source in [
        "named_struct('file', 'x', 'row', 1)",
        "named_struct('file', source['file'], 'row', source['row'] + 1)",
        "CASE WHEN id = '1' THEN source END",
        "coalesce(source, named_struct('file', 'x', 'row', 1))",
    ] {
        place.pipeline(&format!("SELECT {source} AS source, id, cot FROM corpus"));
        check(&place, place.run(&[]), &["source"]);
    }
    let twice = "WITH a AS (SELECT named_struct('file', 'x', 'row', 1) AS source, cot FROM corpus) SELECT * FROM a";
    place.pipeline(twice);
    check(&place, place.run(&[]), &["source"]);
}

#[test]
fn a_pipeline_that_passes_its_source_on_is_taken() {
    let place = Place::local().with(&[("a.parquet", 1..=4, "step")]);
    let passed = "WITH a AS (SELECT c.source AS s, c.* FROM corpus AS c), b AS (SELECT s AS source, id, cot FROM a) \
                  SELECT b.source, b.id, b.cot FROM b WHERE id <> '2'";
    place.pipeline(passed);
    place.run(&[]).ok();
    assert_eq!(place.rows().sources(), ["a.parquet:0", "a.parquet:2", "a.parquet:3"]);
}

#[test]
fn a_pipeline_that_hides_what_is_not_row_to_row_under_the_name_of_the_corpus_is_refused() {
    let place = Place::local().with(&[A]);
    for (pipeline, named) in [
        ("WITH corpus AS (SELECT * FROM corpus ORDER BY id LIMIT 3) SELECT source, cot FROM corpus", "LIMIT"),
        ("SELECT source, cot FROM (SELECT * FROM corpus LIMIT 3) AS corpus", "LIMIT"),
        ("WITH corpus AS (SELECT DISTINCT * FROM corpus) SELECT source, cot FROM corpus", "DISTINCT"),
    ] {
        place.pipeline(pipeline);
        check(&place, place.run(&[]), &[named]);
    }
}

/// Runs a pipeline that calls a server for every row, and checks that it was refused before the first call.
#[track_caller]
fn refused_before_any_row(place: &Place, columns: &str, named: &[&str]) {
    let server = Server::start(|_| Reply::text("yes"));
    let pipeline = format!("SELECT source, {columns}, ai_complete(question) AS said, status, error FROM corpus");
    place.pipeline(&pipeline);
    place.ask(&server);
    let refused = place.run(&[]).ends_in(&[1, 2], named);
    assert!(!refused.stderr.contains("Where another run was faster"), "{}", refused.stderr);
    assert_eq!(server.count(), 0, "rows were read before");
    is_untouched(place);
}

#[test]
fn names_that_differ_in_case_only_are_refused_before_any_row() {
    let place = Place::local().with(&[A]);
    refused_before_any_row(&place, "cot, cot AS \"Cot\"", &["Cot"]);
    refused_before_any_row(&place, "cot AS \"a b\", cot AS a_b", &["a_b"]);
}

#[test]
fn a_type_that_no_table_holds_is_refused_before_any_row() {
    let place = Place::local();
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let amount = Decimal256Array::from(vec![Some(7.into())]).with_precision_and_scale(50, 2).unwrap();
    let columns =
        [("question", text("q")), ("cot", text("c")), ("answer", text("a")), ("amount", Arc::new(amount) as ArrayRef)];
    place.put_batch("in/a.parquet", &RecordBatch::try_from_iter(columns).unwrap());
    refused_before_any_row(&place, "cot", &["amount", "Decimal256"]);
    place.put(A);
    refused_before_any_row(&place, "arrow_cast('1', 'Decimal256(50, 2)') AS amount", &["amount", "Decimal256"]);
    refused_before_any_row(&place, "INTERVAL '1' DAY AS pause", &["pause", "Interval"]);
}

#[test]
fn a_log_that_cannot_be_written_is_found_before_any_row() {
    let place = Place::s3().with(&[A]);
    place.proxy().faults(|head| head.puts("out/_delta_log"), Action::Status(403, "AccessDenied"));
    refused_before_any_row(&place, "cot", &["cannot write to the log of s3://lake/out"]);
}

/// A store that ignores `If-None-Match` loses commits.
#[test]
fn a_store_without_conditional_creates_is_refused_before_any_row() {
    let place = Place::s3().with(&[A]);
    place.proxy().follow(|head| match head.method.as_str() {
        "PUT" if head.header("if-none-match").is_some() => Action::HideRefusal,
        _ => Action::Pass,
    });
    refused_before_any_row(&place, "cot", &["the log of s3://lake/out", "ignores If-None-Match"]);
}

/// A check that ends at a time-out says nothing about the store.
#[test]
fn a_check_of_conditional_creates_that_times_out_is_made_again() {
    let (place, gate) = (Place::s3().with(&[A]), Gate::new());
    let (is_first, held) = (AtomicBool::new(true), gate.clone());
    place.proxy().follow(move |head| {
        let is_check =
            head.puts("out/_delta_log") && head.path.contains(".asap-probe-") && head.header("if-none-match").is_some();
        if is_check && is_first.swap(false, SeqCst) { Action::HoldReply(held.clone()) } else { Action::Pass }
    });
    let mut run = place.run_command(&[]);
    run.env("AWS_TIMEOUT", "3s");
    Running::start(run).finish().ends_in(&[0], &[]);
    gate.open();
    place.holds(&[A]);
}
