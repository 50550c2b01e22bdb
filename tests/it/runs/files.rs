//! Files that are damaged or replaced during a run, and output files in folders by a column.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, Decimal256Array, Int64Array, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use serde_json::json;

use crate::runs::place::{A, B, C, File, PIPELINE, Place, failed, parquet_file, summary, wait_until};

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
        let broken = place.run(&[]).ends(3, said).ends(3, &["a file failed; fix the cause", name]);
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

fn text(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

fn number(number: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![number]))
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
fn a_file_whose_name_no_store_can_have_is_left_out_by_name() {
    let place = Place::local().with(&[A, B]);
    std::fs::copy(place.path("in/a.parquet"), place.path("in/a\nb.parquet")).unwrap();
    place.run(&[]).ends(0, &[r"in/a\nb.parquet"]);
    place.holds(&[A, B]);
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
