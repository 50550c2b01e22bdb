//! Commands that are refused before a row is read, with an error that names the cause.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal256Array, RecordBatch, StringArray};

use crate::common::Finished;
use crate::runs::place::{File, Place};
use crate::server::{Reply, Server};
use crate::support::proxy::Action;

const A: File = ("a.parquet", 1..=7, "step");

/// Checks that a run was refused with every text in its message, and wrote nothing.
#[track_caller]
fn check(place: &Place, finished: &Finished, named: &[&str]) {
    assert!([1, 2].contains(&finished.code), "{}: {}{}", finished.code, finished.stdout, finished.stderr);
    assert!(finished.stderr.starts_with("error: "), "{}", finished.stderr);
    for text in named {
        assert!(finished.stderr.contains(text), "no '{text}' in: {}", finished.stderr);
    }
    is_untouched(place);
}

#[track_caller]
fn is_untouched(place: &Place) {
    let mut folders = vec![place.path("out")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            assert!(path.is_dir(), "{} was written", path.display());
            folders.push(path);
        }
    }
}

/// A Delta table at `tables/delta`, and its source corpus at `in`.
fn delta(place: &Place) {
    place.put(A);
    let (from, to) = (place.location("in"), place.location("tables/delta"));
    place.execute(&["run", "mine.sql", "--from", &from, "--to", &to]).ok();
}

#[test]
fn what_lies_around_or_in_a_delta_table_is_no_corpus() {
    for place in [Place::local(), Place::s3()] {
        delta(&place);
        let table = place.path("tables/delta");
        let attempt = std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let attempt = format!("tables/delta/{}", attempt.into_iter().find(|name| name.starts_with("asap-")).unwrap());
        let shard = std::fs::read_dir(place.path(&attempt)).unwrap().next().unwrap().unwrap().file_name();
        let shard = format!("{attempt}/{}", shard.to_str().unwrap());
        for inside in ["tables", "tables/", &attempt, &shard] {
            let refused = place.run_from(&place.location(inside), &[]);
            check(&place, &refused, &["tables/delta", "Delta table"]);
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
            let refused = place.run_from(&place.location(from), &[]);
            check(&place, &refused, &["tables/t", format]);
        }
        // Files next to the table can be read.
        place.run(&[]).ok();
    }
}

#[test]
fn an_output_in_the_input_is_refused_with_and_without_a_slash() {
    for place in [Place::local(), Place::s3()] {
        place.put(A);
        for (from, to) in [("in", "in/out"), ("in/", "in/out/"), ("in", "in/deep/out"), ("in", "in"), ("in/", "in")] {
            let (from, to) = (place.location(from), place.location(to));
            let refused = place.execute(&["run", "mine.sql", "--from", &from, "--to", &to]);
            assert_eq!(refused.code, 2, "{from} to {to}: {}", refused.stderr);
            assert!(refused.stderr.contains("choose another output"), "{}", refused.stderr);
        }
        assert_eq!(std::fs::read_dir(place.path("in")).unwrap().count(), 1, "something was written");
        // A name with the same prefix is not inside it.
        let (from, to) = (place.location("in"), place.location("input-pruned"));
        place.execute(&["run", "mine.sql", "--from", &from, "--to", &to]).ok();
    }
}

#[test]
fn an_output_in_the_input_under_another_spelling_is_refused() {
    let place = Place::local();
    place.put(A);
    std::os::unix::fs::symlink("in", place.path("link")).unwrap();
    let refused = place.execute(&["run", "mine.sql", "--from", "link", "--to", "in/out"]);
    check(&place, &refused, &["choose another output"]);
    let place = Place::s3();
    place.put(A);
    let refused = place.execute(&["run", "mine.sql", "--from", "s3a://lake/in", "--to", "s3://lake/in/out"]);
    check(&place, &refused, &["choose another output"]);
}

#[test]
fn a_pipeline_that_makes_a_source_of_its_own_is_refused() {
    let place = Place::local();
    place.put(A);
    for source in [
        "named_struct('file', 'x', 'row', 1)",
        "named_struct('file', source['file'], 'row', source['row'] + 1)",
        "CASE WHEN id = '1' THEN source END",
        "coalesce(source, named_struct('file', 'x', 'row', 1))",
    ] {
        std::fs::write(place.path("mine.sql"), format!("SELECT {source} AS source, id, cot FROM corpus")).unwrap();
        check(&place, &place.run(&[]), &["source"]);
    }
    let twice = "WITH a AS (SELECT named_struct('file', 'x', 'row', 1) AS source, cot FROM corpus) SELECT * FROM a";
    std::fs::write(place.path("mine.sql"), twice).unwrap();
    check(&place, &place.run(&[]), &["source"]);
}

#[test]
fn a_pipeline_that_passes_its_source_on_is_taken() {
    let place = Place::local();
    place.put(("a.parquet", 1..=4, "step"));
    let passed = "WITH a AS (SELECT c.source AS s, c.* FROM corpus AS c), b AS (SELECT s AS source, id, cot FROM a) \
                  SELECT b.source, b.id, b.cot FROM b WHERE id <> '2'";
    std::fs::write(place.path("mine.sql"), passed).unwrap();
    place.run(&[]).ok();
    assert_eq!(place.rows().sources(), ["a.parquet:0", "a.parquet:2", "a.parquet:3"]);
}

#[test]
fn a_pipeline_that_hides_what_is_not_row_to_row_behind_the_name_of_the_corpus_is_refused() {
    let place = Place::local();
    place.put(A);
    for (pipeline, named) in [
        ("WITH corpus AS (SELECT * FROM corpus ORDER BY id LIMIT 3) SELECT source, cot FROM corpus", "LIMIT"),
        ("SELECT source, cot FROM (SELECT * FROM corpus LIMIT 3) AS corpus", "LIMIT"),
        ("WITH corpus AS (SELECT DISTINCT * FROM corpus) SELECT source, cot FROM corpus", "DISTINCT"),
    ] {
        std::fs::write(place.path("mine.sql"), pipeline).unwrap();
        check(&place, &place.run(&[]), &[named]);
    }
}

/// Columns that call a server for every row, which reveals a run that reads rows.
fn asking(server: &Server) -> Vec<String> {
    let base_url = format!("asap.anchor.base_url={}", server.base_url());
    let sets = ["asap.anchor.provider=openai", "asap.anchor.model=m", &base_url];
    sets.iter().flat_map(|set| ["--set".to_string(), set.to_string()]).collect()
}

/// Runs a pipeline that calls a server, and checks that it was refused before the first call.
#[track_caller]
fn refused_before_any_row(place: &Place, columns: &str, named: &[&str]) {
    let server = Server::start(|_| Reply::text("yes"));
    let pipeline = format!("SELECT source, {columns}, ai_complete(question) AS said, status, error FROM corpus");
    std::fs::write(place.workplace.path("mine.sql"), pipeline).unwrap();
    let asking = asking(&server);
    let refused = place.run(&asking.iter().map(String::as_str).collect::<Vec<_>>());
    assert!([1, 2].contains(&refused.code), "{}: {}{}", refused.code, refused.stdout, refused.stderr);
    for text in named {
        assert!(refused.stderr.contains(text), "no '{text}' in: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("Where another run was faster"), "{}", refused.stderr);
    assert_eq!(server.count(), 0, "rows were read before");
    is_untouched(place);
}

#[test]
fn names_that_differ_in_case_only_are_refused_before_any_row() {
    let place = Place::local();
    place.put(A);
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
    let place = Place::s3();
    place.put(A);
    place.proxy().follow(|head| match head.puts("out/_delta_log") {
        true => Action::Status(403, "AccessDenied"),
        false => Action::Pass,
    });
    refused_before_any_row(&place, "cot", &["s3://lake/out"]);
}

/// A store that ignores `If-None-Match` loses commits.
#[test]
fn a_store_without_conditional_creates_is_refused_before_any_row() {
    let place = Place::s3();
    place.put(A);
    place.proxy().follow(|head| match head.method.as_str() {
        "PUT" if head.header("if-none-match").is_some() => Action::HideRefusal,
        _ => Action::Pass,
    });
    refused_before_any_row(&place, "cot", &["s3://lake/out"]);
}
