//! Files that are added, damaged, replaced during a run, or that have different columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, Decimal256Array, Int64Array, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use serde_json::json;

use crate::runs::place::{A, B, C, File, Place, failed, had_nothing_to_do, parquet_file, summary, wait_until};
use crate::support::proxy::Action;

type Damage = fn(&mut Vec<u8>);

/// Damages of a file, and what is said of it.
const DAMAGES: [(Damage, &str); 7] = [
    (|bytes| bytes.clear(), "is not a Parquet file"),
    (|bytes| bytes.truncate(bytes.len() - 20), "cut short"),
    (|bytes| *bytes = b"not a table".to_vec(), "is not a Parquet file"),
    // The middle is lost and the footer stays.
    (|bytes| drop(bytes.drain(10..200)), ""),
    // The footer is invalid.
    (
        |bytes| {
            let end = bytes.len() - 8;
            bytes[end - 100..end].fill(0xff);
        },
        "",
    ),
    // One bit of the footer: the first column begins at -5 instead of 4.
    (
        |bytes| {
            let tail = bytes.len() - 8;
            let footer = tail - u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
            let at = footer + bytes[footer..].windows(2).position(|two| two == [0x26, 0x08]).unwrap();
            bytes[at + 1] = 0x09;
        },
        "",
    ),
    // The first page is invalid, which only reading its rows reveals.
    (|bytes| bytes[4..60].fill(0xff), "damaged"),
];

type Columns = Vec<(&'static str, ArrayRef)>;

/// The columns of whole files that no run can take, and what is said of them.
fn unfit() -> [(Columns, &'static [&'static str]); 4] {
    let whole =
        |last: (&'static str, ArrayRef)| vec![("question", text("q")), ("cot", text("c")), ("answer", text("a")), last];
    let wide = Decimal256Array::from(vec![None]).with_precision_and_scale(50, 2).unwrap();
    [
        (vec![("alpha", text("x")), ("beta", text("y"))], &["alpha", "beta", "--columns"]),
        (vec![("question", number(1)), ("cot", text("c")), ("answer", text("a"))], &["question", "Int64"]),
        (whole(("wide", Arc::new(wide))), &["wide", "Decimal256"]),
        (whole(("long", new_null_array(&DataType::Interval(IntervalUnit::YearMonth), 1))), &["long", "Interval"]),
    ]
}

/// Runs with a file that no run can take, and then with one of rows in its place.
#[track_caller]
fn only_it_fails(place: &Place, name: &str, bytes: &[u8], said: &[&str]) {
    place.put_all(&[A, C]);
    place.put_bytes(&format!("in/{name}"), bytes);
    for counts in [[14, 10, 2], [0; 3]] {
        let broken = place.run(&[]).ends(3, said).ends(3, &[name]);
        assert!(!broken.stderr.contains("panicked"), "{}", broken.stderr);
        let failing = summary(&broken, 3);
        assert_eq!(failed(&failing), [name], "{said:?}");
        let error = failing["files_failed"][0]["error"].as_str().unwrap();
        assert!(said.iter().all(|text| error.contains(text)), "{error}");
        assert_eq!(["rows_in", "rows_out", "rows_rejected"].map(|count| failing[count].as_u64()), counts.map(Some));
        place.holds(&[A, C]);
    }
    let fixed: File = (name, B.1, B.2);
    place.put(fixed.clone());
    let last = summary(&place.run(&[]), 0);
    assert_eq!((failed(&last), &last["rows_in"]), (vec![], &json!(7)));
    place.is_done(&[A, C, fixed]);
}

fn damaged(damage: Damage) -> Vec<u8> {
    let place = Place::local().with(&[B]);
    let mut bytes = std::fs::read(place.path("in/b.parquet")).unwrap();
    damage(&mut bytes);
    bytes
}

#[test]
fn a_broken_file_fails_by_name_and_is_taken_when_it_is_fixed() {
    for (number, (damage, said)) in DAMAGES.into_iter().enumerate() {
        let place = if number % 2 == 0 { Place::local() } else { Place::s3() };
        only_it_fails(&place, "b.parquet", &damaged(damage), &[said]);
    }
}

#[test]
fn a_file_whose_columns_do_not_fit_fails_by_name_and_is_taken_when_it_is_fixed() {
    for (columns, said) in unfit() {
        let bytes = parquet_file(&RecordBatch::try_from_iter(columns).unwrap());
        only_it_fails(&Place::local(), "b.parquet", &bytes, said);
    }
}

/// The first file defines the columns, unless it cannot be taken.
#[test]
fn a_bad_file_that_comes_first_costs_no_other() {
    for (damage, said) in [DAMAGES[2], DAMAGES[6]] {
        only_it_fails(&Place::local(), "!first.parquet", &damaged(damage), &[said]);
    }
    let [(columns, said), ..] = unfit();
    let bytes = parquet_file(&RecordBatch::try_from_iter(columns).unwrap());
    only_it_fails(&Place::local(), "!first.parquet", &bytes, said);
}

#[test]
fn a_file_that_may_not_be_read_fails_by_name() {
    let place = Place::s3().with(&[A, B, C]);
    place.proxy().faults(|head| head.path.ends_with("in/b.parquet"), Action::Status(403, "AccessDenied"));
    place.fails_for("b.parquet", &[A, C]);
    place.recovers(&[A, B, C]);
}

#[test]
fn where_every_file_is_broken_nothing_is_committed() {
    let place = Place::local();
    place.put_bytes("in/a.parquet", b"not a table");
    place.put_bytes("in/b.parquet", b"");
    place.run(&[]).ends_in(&[1, 3], &["a.parquet"]);
    place.holds(&[]);
    place.put_all(&[A, B]);
    place.makes(&[], &[A, B]);
}

#[test]
fn an_empty_input_is_nothing_to_do_yet() {
    for place in Place::both() {
        had_nothing_to_do(&place.run(&[]).ends(0, &["note: "]));
        place.put(A);
        place.makes(&[], &[A]);
        std::fs::remove_file(place.path("in/a.parquet")).unwrap();
        had_nothing_to_do(&place.run(&[]));
        place.holds(&[A]);
    }
}

fn put_empty(place: &Place, name: &str) {
    let none = || Arc::new(StringArray::from(Vec::<&str>::new())) as ArrayRef;
    let columns = ["id", "question", "cot", "answer"].map(|name| (name, none()));
    place.put_batch(&format!("in/{name}"), &RecordBatch::try_from_iter(columns).unwrap());
}

#[test]
fn a_file_that_an_empty_one_replaces_loses_its_rows() {
    for place in Place::both() {
        place.fill(&[A, B]);
        put_empty(&place, "a.parquet");
        place.fails_for("a.parquet", &[A, B]);
        let emptied = place.run(&["--on-change", "reprocess"]).ends(0, &["the rows of a.parquet are deleted"]);
        assert_eq!(summary(&emptied, 0)["nothing_to_do"], false);
        place.holds(&[B]);
        had_nothing_to_do(&place.run(&["--on-change", "reprocess"]));
        had_nothing_to_do(&place.run(&[]));
        place.execute(&["table", "verify", &place.location("out")]).ok();
        place.put(A);
        place.reads(&[], 7, &[A, B]);
    }
}

#[test]
fn an_empty_file_and_a_new_one_come_in_one_run() {
    let place = Place::local().filled(&[A, B]);
    put_empty(&place, "a.parquet");
    place.put(C);
    place.reads(&["--on-change", "reprocess"], 7, &[B, C]);
    had_nothing_to_do(&place.run(&[]));
}

#[test]
fn a_file_without_rows_is_done() {
    let place = Place::local().with(&[A]);
    put_empty(&place, "b.parquet");
    place.reads(&[], 7, &[A]);
    had_nothing_to_do(&place.run(&[]));
}

/// Writes a file of one row with id, question and these columns, in this order.
fn put_one(place: &Place, name: &str, id: &str, more: &[(&str, ArrayRef)]) {
    let columns = [("id", text(id)), ("question", text("q"))].into_iter().chain(more.iter().cloned());
    place.put_batch(&format!("in/{name}"), &RecordBatch::try_from_iter(columns).unwrap());
}

fn text(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

fn number(number: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![number]))
}

#[test]
fn a_new_column_is_added_and_columns_are_matched_by_name() {
    for place in Place::both() {
        put_one(&place, "b.parquet", "1", &[("cot", text("c")), ("answer", text("a")), ("level", number(3))]);
        place.run(&[]).ok();
        // Its name sorts first. Its columns are in another order, with one added and one missing.
        put_one(&place, "a.parquet", "2", &[("split", text("train")), ("answer", text("A")), ("cot", text("C"))]);
        put_one(&place, "c.parquet", "3", &[("answer", text("z")), ("level", number(4)), ("cot", text("x"))]);
        place.run(&[]).ok();
        let rows = place.rows();
        let found = |column: &str| rows.output.values().map(|row| row[column].clone()).collect::<Vec<_>>();
        assert_eq!(found("id"), ["2", "1", "3"]);
        assert_eq!(found("cot"), ["C", "c", "x"]);
        assert_eq!(found("level"), [json!(null), json!(3), json!(4)]);
        assert_eq!(found("split"), [json!("train"), json!(null), json!(null)]);
        had_nothing_to_do(&place.run(&[]));
        // A column stays although no current file has it.
        for name in ["a", "b", "c"] {
            std::fs::remove_file(place.path(&format!("in/{name}.parquet"))).unwrap();
        }
        put_one(&place, "d.parquet", "4", &[("cot", text("y")), ("answer", text("w"))]);
        place.run(&[]).ok();
        assert_eq!(place.rows().texts("id"), ["2", "1", "3", "4"]);
        assert_eq!(place.rows().texts("split"), ["train", "NULL", "NULL", "NULL"]);
    }
}

#[test]
fn a_new_column_is_added_to_the_rejects_too() {
    let place = Place::local().filled(&[A]);
    put_one(&place, "b.parquet", "1", &[("cot", text("")), ("answer", text("a")), ("level", number(3))]);
    put_one(&place, "c.parquet", "2", &[("cot", text("c")), ("answer", text("a"))]);
    place.run(&[]).ok();
    let rows = place.rows();
    assert_eq!(rows.rejects[&("b.parquet".to_string(), 0)]["level"], 3);
    assert_eq!(rows.rejected(), ["a.parquet:4", "b.parquet:0"]);
}

#[test]
fn a_new_column_is_refused_where_that_is_asked() {
    let place = Place::local().filled(&[A]);
    put_one(&place, "b.parquet", "1", &[("cot", text("c")), ("answer", text("a")), ("level", number(3))]);
    place.run(&["--on-schema-change=fail"]).ends_in(&[1, 3], &["level"]);
    place.holds(&[A]);
    place.run(&["--on-schema-change=add"]).ok();
    assert_eq!(place.rows().output[&("b.parquet".to_string(), 0)]["level"], 3);
}

#[test]
fn a_column_that_has_become_another_type_is_null_in_its_file() {
    let place = Place::local();
    let put = |place: &Place, name: &str, level: ArrayRef| {
        put_one(place, name, name, &[("cot", text("c")), ("answer", text("a")), ("level", level)]);
    };
    put(&place, "a.parquet", number(3));
    place.run(&[]).ok();
    put(&place, "b.parquet", text("hard"));
    put(&place, "c.parquet", number(5));
    let changed = summary(&place.run(&[]), 0);
    let note = changed["notes"].to_string();
    assert!(note.contains("column level is Utf8 in") && note.contains("Int64 in the output"), "{note}");
    let rows = place.rows();
    let levels = ["a", "b", "c"].map(|name| rows.output[&(format!("{name}.parquet"), 0)]["level"].clone());
    assert_eq!(levels, [json!(3), json!(null), json!(5)]);

    // Both in one run, and without original columns.
    let place = Place::local();
    put(&place, "a.parquet", number(3));
    put(&place, "b.parquet", text("hard"));
    assert_eq!(summary(&place.run(&["--originals", "none"]), 0)["rows_out"], 2);
}

#[test]
fn every_row_is_counted_once() {
    for place in Place::both() {
        place.put_all(&[A, B, C]);
        // All rows are filtered, then half of the rows are rejects.
        place.put_all(&[("d.parquet", 27..=27, "step"), ("e.parquet", 30..=31, "step")]);
        let summary = summary(&place.run(&["--set=run.slice_rows=2"]), 0);
        let counts = ["rows_in", "rows_out", "rows_rejected", "rows_filtered"].map(|name| summary[name].as_u64());
        assert_eq!(counts, [Some(24), Some(16), Some(4), Some(4)]);
        assert_eq!(summary["rejects"], json!({ "empty_chain": 4 }));
        place.holds(&[A, B, C, ("d.parquet", 27..=27, "step"), ("e.parquet", 30..=31, "step")]);
    }
}

/// Runs while an object is replaced by one of equal size and footer, after the given number of reads.
#[track_caller]
fn replace_after(reads: usize) {
    let place = Place::s3().with(&[A, B]);
    let seen = AtomicUsize::new(0);
    let gate =
        place.proxy().hold(move |head| head.gets("in/b.parquet") && seen.fetch_add(1, Ordering::SeqCst) >= reads);
    let mut run = place.start(&[]);
    wait_until("the reading of rows", || gate.held() > 0 || run.is_over());
    let was_held = gate.held() > 0;
    let next: File = ("b.parquet", 11..=17, "stop");
    place.put(next.clone());
    gate.open();
    let ended = run.finish();
    if was_held {
        assert_eq!(failed(&summary(&ended, 3)), ["b.parquet"], "{}", ended.stderr);
        place.holds(&[A]);
        place.recovers(&[A, next]);
    } else {
        // Everything was read before: the rows are those of the listed object.
        summary(&ended, 0);
        place.holds(&[A, B]);
    }
}

#[test]
fn an_object_that_is_replaced_between_listing_and_reading_fails_by_name() {
    (0..3).for_each(replace_after);
}

#[test]
fn an_object_that_is_deleted_between_listing_and_reading_fails_by_name() {
    let place = Place::s3().with(&[A, B]);
    let gate = place.proxy().hold(move |head| head.gets("in/b.parquet"));
    let mut run = place.start(&[]);
    run.wait_until("the reading of a file", || gate.held() > 0);
    std::fs::remove_file(place.path("in/b.parquet")).unwrap();
    gate.open();
    assert_eq!(failed(&summary(&run.finish(), 3)), ["b.parquet"]);
    place.is_done(&[A]);
}

/// Throttled, broken and slow replies of a store are normal.
#[test]
fn reads_that_break_off_are_made_again() {
    let slow = std::time::Duration::from_millis(5);
    for action in [Action::Status(503, "SlowDown"), Action::Cut, Action::LoseReply, Action::CutBody, Action::Slow(slow)]
    {
        let place = Place::s3().with(&[A, B]);
        place.proxy().fault(3, |head| head.method == "GET" && head.path.starts_with("/lake/in/"), action);
        place.makes(&[], &[A, B]);
    }
}

#[test]
fn a_file_whose_name_no_store_can_have_is_left_out_by_name() {
    let place = Place::local().with(&[A, B]);
    std::fs::copy(place.path("in/a.parquet"), place.path("in/a\nb.parquet")).unwrap();
    place.run(&[]).ends(0, &[r"in/a\nb.parquet"]);
    place.holds(&[A, B]);
}
