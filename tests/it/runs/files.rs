//! Files that are added, damaged, replaced during a run, or that have different columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use serde_json::json;

use crate::runs::place::{File, Place, failed, had_nothing_to_do, summary, wait_until};
use crate::support::proxy::{Action, Gate};

const A: File = ("a.parquet", 1..=7, "step");
const B: File = ("b.parquet", 11..=17, "step");
const C: File = ("c.parquet", 21..=27, "step");

const DAMAGES: [fn(&mut Vec<u8>); 7] = [
    |bytes| bytes.clear(),
    |bytes| bytes.truncate(bytes.len() - 20),
    |bytes| *bytes = b"not a table".to_vec(),
    // The middle is lost and the footer stays.
    |bytes| drop(bytes.drain(10..200)),
    // The footer is invalid.
    |bytes| {
        let end = bytes.len() - 8;
        bytes[end - 100..end].fill(0xff);
    },
    // One bit of the footer: the first column begins at -5 instead of 4.
    |bytes| {
        let tail = bytes.len() - 8;
        let footer = tail - u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
        let at = footer + bytes[footer..].windows(2).position(|two| two == [0x26, 0x08]).unwrap();
        bytes[at + 1] = 0x09;
    },
    // The first page is invalid, which only reading its rows reveals.
    |bytes| bytes[4..60].fill(0xff),
];

#[test]
fn a_broken_file_fails_by_name_and_is_taken_when_it_is_mended() {
    for (number, damage) in DAMAGES.iter().enumerate() {
        let place = if number % 2 == 0 { Place::local() } else { Place::s3() };
        place.put_all(&[A, B, C]);
        let mut bytes = std::fs::read(place.path("in/b.parquet")).unwrap();
        damage(&mut bytes);
        place.put_bytes("in/b.parquet", &bytes);
        for _ in 0..2 {
            let broken = place.run(&[]);
            assert_eq!(failed(&summary(&broken, 3)), ["b.parquet"], "damage {number}");
            assert!(broken.stderr.contains("b.parquet") && !broken.stderr.contains("panicked"), "{}", broken.stderr);
            place.holds(&[A, C]);
        }
        place.put(B);
        let mended = summary(&place.run(&[]), 0);
        assert_eq!((failed(&mended), &mended["rows_in"]), (vec![], &json!(7)));
        place.holds(&[A, B, C]);
    }
}

#[test]
fn a_file_that_may_not_be_read_fails_by_name() {
    let place = Place::s3();
    place.put_all(&[A, B, C]);
    place.proxy().follow(|head| match head.path.ends_with("in/b.parquet") {
        true => Action::Status(403, "AccessDenied"),
        false => Action::Pass,
    });
    assert_eq!(failed(&summary(&place.run(&[]), 3)), ["b.parquet"]);
    place.holds(&[A, C]);
    place.proxy().calm();
    place.run(&[]).ok();
    place.holds(&[A, B, C]);
}

#[test]
fn where_every_file_is_broken_nothing_is_committed() {
    let place = Place::local();
    place.put_bytes("in/a.parquet", b"not a table");
    place.put_bytes("in/b.parquet", b"");
    let broken = place.run(&[]);
    assert!([1, 3].contains(&broken.code), "{}: {}", broken.code, broken.stderr);
    assert!(broken.stderr.contains("a.parquet"), "{}", broken.stderr);
    place.holds(&[]);
    place.put(A);
    place.put(B);
    place.run(&[]).ok();
    place.holds(&[A, B]);
}

#[test]
fn an_empty_input_is_nothing_to_do_yet() {
    for place in [Place::local(), Place::s3()] {
        let empty = place.run(&[]);
        had_nothing_to_do(&empty);
        assert!(empty.stderr.contains("note: "), "{}", empty.stderr);
        place.put(A);
        place.run(&[]).ok();
        place.holds(&[A]);
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
    for place in [Place::local(), Place::s3()] {
        place.put_all(&[A, B]);
        place.run(&[]).ok();
        put_empty(&place, "a.parquet");
        assert_eq!(failed(&summary(&place.run(&[]), 3)), ["a.parquet"]);
        place.holds(&[A, B]);
        let emptied = place.run(&["--on-change", "reprocess"]);
        assert_eq!(summary(&emptied, 0)["nothing_to_do"], false);
        assert!(emptied.stderr.contains("the rows of a.parquet are deleted"), "{}", emptied.stderr);
        place.holds(&[B]);
        had_nothing_to_do(&place.run(&["--on-change", "reprocess"]));
        had_nothing_to_do(&place.run(&[]));
        place.execute(&["verify", &place.location("out")]).ok();
        place.put(A);
        assert_eq!(summary(&place.run(&[]), 0)["rows_in"], 7);
        place.holds(&[A, B]);
    }
}

#[test]
fn an_empty_file_and_a_new_one_come_in_one_run() {
    let place = Place::local();
    place.put_all(&[A, B]);
    place.run(&[]).ok();
    put_empty(&place, "a.parquet");
    place.put(C);
    assert_eq!(summary(&place.run(&["--on-change", "reprocess"]), 0)["rows_in"], 7);
    place.holds(&[B, C]);
    had_nothing_to_do(&place.run(&[]));
}

#[test]
fn a_file_without_rows_is_done() {
    let place = Place::local();
    place.put(A);
    put_empty(&place, "b.parquet");
    assert_eq!(summary(&place.run(&[]), 0)["rows_in"], 7);
    place.holds(&[A]);
    had_nothing_to_do(&place.run(&[]));
}

/// Writes a file of one row with id, question and these columns, in this order.
fn put_one(place: &Place, name: &str, id: &str, more: &[(&str, ArrayRef)]) {
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
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
    for place in [Place::local(), Place::s3()] {
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
        std::fs::remove_file(place.path("in/a.parquet")).unwrap();
        std::fs::remove_file(place.path("in/b.parquet")).unwrap();
        std::fs::remove_file(place.path("in/c.parquet")).unwrap();
        put_one(&place, "d.parquet", "4", &[("cot", text("y")), ("answer", text("w"))]);
        place.run(&[]).ok();
        assert_eq!(place.rows().texts("id"), ["2", "1", "3", "4"]);
        assert_eq!(place.rows().texts("split"), ["train", "NULL", "NULL", "NULL"]);
    }
}

#[test]
fn a_new_column_is_added_to_the_rejects_too() {
    let place = Place::local();
    place.put(A);
    place.run(&[]).ok();
    put_one(&place, "b.parquet", "1", &[("cot", text("")), ("answer", text("a")), ("level", number(3))]);
    put_one(&place, "c.parquet", "2", &[("cot", text("c")), ("answer", text("a"))]);
    place.run(&[]).ok();
    let rows = place.rows();
    assert_eq!(rows.rejects[&("b.parquet".to_string(), 0)]["level"], 3);
    assert_eq!(rows.rejected(), ["a.parquet:4", "b.parquet:0"]);
}

#[test]
fn a_new_column_is_refused_where_that_is_asked() {
    let place = Place::local();
    place.put(A);
    place.run(&[]).ok();
    put_one(&place, "b.parquet", "1", &[("cot", text("c")), ("answer", text("a")), ("level", number(3))]);
    let refused = place.run(&["--on-schema-change=fail"]);
    assert!([1, 3].contains(&refused.code), "{}: {}", refused.code, refused.stderr);
    assert!(refused.stderr.contains("level"), "{}", refused.stderr);
    place.holds(&[A]);
    place.run(&["--on-schema-change=add"]).ok();
    assert_eq!(place.rows().output[&("b.parquet".to_string(), 0)]["level"], 3);
}

#[test]
fn a_column_that_has_become_another_type_is_null_in_its_file() {
    let place = Place::local();
    put_one(&place, "a.parquet", "1", &[("cot", text("c")), ("answer", text("a")), ("level", number(3))]);
    place.run(&[]).ok();
    put_one(&place, "b.parquet", "2", &[("cot", text("c")), ("answer", text("a")), ("level", text("hard"))]);
    put_one(&place, "c.parquet", "3", &[("cot", text("c")), ("answer", text("a")), ("level", number(5))]);
    let changed = summary(&place.run(&[]), 0);
    let note = changed["notes"].to_string();
    assert!(note.contains("column level is Utf8 in") && note.contains("Int64 in the output"), "{note}");
    let rows = place.rows();
    let levels = ["a", "b", "c"].map(|name| rows.output[&(format!("{name}.parquet"), 0)]["level"].clone());
    assert_eq!(levels, [json!(3), json!(null), json!(5)]);

    // Both in one run, and without original columns.
    let place = Place::local();
    for (name, level) in [("a.parquet", number(3)), ("b.parquet", text("hard"))] {
        put_one(&place, name, name, &[("cot", text("c")), ("answer", text("a")), ("level", level)]);
    }
    assert_eq!(summary(&place.run(&["--originals", "none"]), 0)["rows_out"], 2);
}

#[test]
fn every_row_is_counted_once() {
    for place in [Place::local(), Place::s3()] {
        place.put_all(&[A, B, C]);
        // All rows are filtered, then half of the rows are rejects.
        place.put(("d.parquet", 27..=27, "step"));
        place.put(("e.parquet", 30..=31, "step"));
        let summary = summary(&place.run(&["--slice-rows", "2"]), 0);
        let counts = ["rows_in", "rows_out", "rows_rejected", "rows_filtered"].map(|name| summary[name].as_u64());
        assert_eq!(counts, [Some(24), Some(16), Some(4), Some(4)]);
        assert_eq!(summary["rejects"], json!({ "empty_chain": 4 }));
        place.holds(&[A, B, C, ("d.parquet", 27..=27, "step"), ("e.parquet", 30..=31, "step")]);
    }
}

/// Runs while an object is replaced by one of equal size and footer, after the given number of reads.
#[track_caller]
fn replace_after(reads: usize) {
    let place = Place::s3();
    place.put_all(&[A, B]);
    let (gate, seen) = (Gate::new(), AtomicUsize::new(0));
    let held = gate.clone();
    place.proxy().follow(move |head| {
        let is_late = head.gets("in/b.parquet") && seen.fetch_add(1, Ordering::SeqCst) >= reads;
        if is_late { Action::Hold(held.clone()) } else { Action::Pass }
    });
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
        place.proxy().calm();
        place.run(&[]).ok();
        place.holds(&[A, next]);
    } else {
        // Everything was read before: the rows are those of the listed object.
        summary(&ended, 0);
        place.holds(&[A, B]);
    }
}

#[test]
fn an_object_that_is_replaced_between_listing_and_reading_fails_by_name() {
    replace_after(0);
    replace_after(1);
    replace_after(2);
}

#[test]
fn an_object_that_is_deleted_between_listing_and_reading_fails_by_name() {
    let place = Place::s3();
    place.put_all(&[A, B]);
    let gate = Gate::new();
    let held = gate.clone();
    place.proxy().follow(move |head| match head.gets("in/b.parquet") {
        true => Action::Hold(held.clone()),
        false => Action::Pass,
    });
    let mut run = place.start(&[]);
    run.wait_until("the reading of a file", || gate.held() > 0);
    std::fs::remove_file(place.path("in/b.parquet")).unwrap();
    gate.open();
    assert_eq!(failed(&summary(&run.finish(), 3)), ["b.parquet"]);
    place.holds(&[A]);
    had_nothing_to_do(&place.run(&[]));
}

/// Throttled, broken and slow replies of a store are normal.
#[test]
fn reads_that_break_off_are_made_again() {
    let slow = std::time::Duration::from_millis(5);
    for action in [Action::Status(503, "SlowDown"), Action::Cut, Action::LoseReply, Action::CutBody, Action::Slow(slow)]
    {
        let place = Place::s3();
        place.put_all(&[A, B]);
        place.proxy().fault(3, |head| head.method == "GET" && head.path.starts_with("/lake/in/"), action);
        place.run(&[]).ok();
        place.holds(&[A, B]);
    }
}

#[test]
fn a_file_whose_name_no_store_can_have_is_left_out_by_name() {
    let place = Place::local();
    place.put_all(&[A, B]);
    std::fs::copy(place.path("in/a.parquet"), place.path("in/a\nb.parquet")).unwrap();
    let run = place.run(&[]);
    summary(&run, 0);
    assert!(run.stderr.contains(r"in/a\nb.parquet"), "{}", run.stderr);
    place.holds(&[A, B]);
}
