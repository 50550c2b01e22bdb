//! One bad file of fifty: its failure is reported by name, the others are committed, and the next run tries it again.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal256Array, Int64Array, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, IntervalUnit};

use crate::runs::place::{Place, failed, had_nothing_to_do, parquet_file, summary};

/// A kind of bad file, its bytes, and the expected error.
#[derive(Clone)]
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    said: &'static [&'static str],
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    parquet_file(&RecordBatch::try_from_iter_with_nullable(columns).unwrap())
}

fn row(more: Vec<(&'static str, ArrayRef)>) -> Vec<u8> {
    let whole = vec![("id", text("1")), ("question", text("q")), ("cot", text("step")), ("answer", text("a"))];
    parquet(whole.into_iter().chain(more).collect())
}

fn cases() -> Vec<Case> {
    let whole = row(vec![("n", Arc::new(Int64Array::from(vec![1])))]);
    let mut damaged = whole.clone();
    damaged[20..200].fill(0xff);
    let wide: ArrayRef = Arc::new(Decimal256Array::from(vec![None]).with_precision_and_scale(50, 2).unwrap());
    let case = |name, bytes, said| Case { name, bytes, said };
    vec![
        case("text", b"not a table".to_vec(), &["is not a Parquet file"]),
        case("nothing", vec![], &["is not a Parquet file"]),
        case("cut short", whole[..whole.len() - 20].to_vec(), &["cut short"]),
        case("a damaged page", damaged, &["damaged"]),
        case("no corpus", parquet(vec![("alpha", text("x")), ("beta", text("y"))]), &["alpha", "beta", "--columns"]),
        case(
            "a question that is a number",
            parquet(vec![("question", Arc::new(Int64Array::from(vec![1]))), ("cot", text("c")), ("answer", text("a"))]),
            &["question", "Int64"],
        ),
        case("a type that Delta lacks", row(vec![("wide", wide)]), &["wide", "Decimal256"]),
        case(
            "another type that Delta lacks",
            row(vec![("long", new_null_array(&DataType::Interval(IntervalUnit::YearMonth), 1))]),
            &["long", "Interval"],
        ),
    ]
}

/// Tries a case with the bad file before or after the others. The order decides which file defines the columns.
fn try_case(case: &Case, bad: &str) {
    let place = Place::local();
    for number in 0..49 {
        let bytes = row(vec![("n", Arc::new(Int64Array::from(vec![number])))]);
        place.put_bytes(&format!("in/{number:02}.parquet"), &bytes);
    }
    place.put_bytes(&format!("in/{bad}"), &case.bytes);
    for rows in [49, 0] {
        let summary = summary(&place.run(&[]).ends(3, case.said).ends(3, &[bad]), 3);
        assert_eq!((failed(&summary), summary["rows_out"].as_u64()), (vec![bad], Some(rows)), "{}", case.name);
    }
    place.put_bytes(&format!("in/{bad}"), &row(vec![("n", Arc::new(Int64Array::from(vec![50])))]));
    assert_eq!(summary(&place.run(&[]), 0)["rows_out"], 1, "{}", case.name);
    assert_eq!(place.rows().output.len(), 50, "{}", case.name);
    had_nothing_to_do(&place.run(&[]));
}

#[test]
fn one_bad_file_of_fifty_costs_no_other() {
    std::thread::scope(|scope| {
        for half in cases().chunks(5).map(|half| half.to_vec()).collect::<Vec<_>>() {
            scope.spawn(move || half.iter().for_each(|case| try_case(case, "zz.parquet")));
        }
    });
}

#[test]
fn a_bad_file_that_comes_first_costs_no_other() {
    let cases = cases();
    for case in cases.iter().filter(|case| ["text", "no corpus", "a damaged page"].contains(&case.name)) {
        try_case(case, "!first.parquet");
    }
}
