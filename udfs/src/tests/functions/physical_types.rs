//! Every function returns the same for every physical form of its arguments, for no rows, and for literals.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::ColumnarValue;
use datafusion::prelude::{JsonReadOptions, SessionContext};

use crate::tests::functions::session::{evaluated, query, registered, session, shown};

/// Every function over the columns `generation`, `cot`, `coarse`, `steps`, `scores`, `numbers`, `ratio` and `seed`.
fn calls() -> impl Iterator<Item = &'static str> {
    include_str!("../../../../tests/goldens/calls.txt").lines()
}

fn rows() -> RecordBatch {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/functions/physical_types.jsonl");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let read = runtime.block_on(async {
        let options = JsonReadOptions::default().file_extension("jsonl");
        SessionContext::new().read_json(file, options).await.unwrap().collect().await.unwrap()
    });
    concat_batches(&read[0].schema(), &read).unwrap()
}

fn in_form(
    batch: &RecordBatch,
    text: &DataType,
    list: fn(Field) -> DataType,
    number: &DataType,
    item: &DataType,
) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| {
        let form = match column.data_type() {
            DataType::Utf8 => text.clone(),
            DataType::List(field) if *field.data_type() == DataType::Utf8 => {
                list(Field::new("element", text.clone(), true))
            }
            DataType::List(field) if *field.data_type() == DataType::Int64 => {
                list(Field::new("x", number.clone(), true))
            }
            DataType::List(_) => list(Field::new("item", item.clone(), true)),
            DataType::Int64 => number.clone(),
            DataType::Float64 => item.clone(),
            other => other.clone(),
        };
        cast(column, &form).unwrap()
    });
    let names = batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    RecordBatch::try_from_iter(names.iter().map(String::as_str).zip(columns.collect::<Vec<_>>())).unwrap()
}

const NOT_CALLED: [&str; 1] = ["ai_complete"];

#[test]
fn every_function_is_called() {
    let called = calls().map(|call| call.split('(').next().unwrap()).chain(NOT_CALLED);
    assert_eq!(called.collect::<BTreeSet<_>>(), registered().iter().map(String::as_str).collect());
}

#[test]
fn every_physical_form_gives_the_same() {
    let dictionary = |key, value| DataType::Dictionary(Box::new(key), Box::new(value));
    let texts = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int32, DataType::Utf8),
        dictionary(DataType::UInt8, DataType::LargeUtf8),
    ];
    let lists: [fn(Field) -> DataType; 2] =
        [|field| DataType::List(Arc::new(field)), |field| DataType::LargeList(Arc::new(field))];
    let numbers = [(DataType::Int8, DataType::Float32), (DataType::Int64, DataType::Float64)];
    let (session, plain) = (session("qwen2"), rows());
    for call in calls() {
        let expected = query(&session, &plain, call);
        for text in &texts {
            for list in lists {
                for (number, item) in &numbers {
                    let found = query(&session, &in_form(&plain, text, list, number, item), call);
                    assert_eq!(found.data_type(), expected.data_type(), "{call} of {text}");
                    assert_eq!(shown(&found), shown(&expected), "{call} of {text}, {number}");
                }
            }
        }
    }
}

#[test]
fn integers_without_a_sign_and_lists_of_one_length_give_the_same() {
    let session = session("qwen2");
    // The first row has no negative number, and lists of three.
    let plain = rows().slice(0, 1);
    let fixed = |field| DataType::FixedSizeList(Arc::new(field), 3);
    let given = in_form(&plain, &DataType::Utf8, fixed, &DataType::UInt64, &DataType::Float64);
    for call in calls() {
        assert_eq!(shown(&query(&session, &given, call)), shown(&query(&session, &plain, call)), "{call}");
    }
}

/// Calls without an argument, or whose result holds the reason for a missing value.
const STRUCTS: [&str; 3] = ["cot_budget", "cot_anchor", "cot_coarse"];

#[test]
fn a_slice_gives_its_part_no_rows_give_no_rows_and_null_arguments_give_null() {
    let (session, plain) = (session("qwen2"), rows());
    for call in calls() {
        let whole = query(&session, &plain, call);
        assert_eq!(shown(&query(&session, &plain.slice(1, 3), call)), shown(&whole)[1..], "{call}");
        assert_eq!(query(&session, &plain.slice(0, 0), call).data_type(), whole.data_type(), "{call}");
        let holds_reason = call.contains("NULL") || STRUCTS.iter().any(|name| call.starts_with(name));
        assert!(holds_reason || whole.is_null(2), "{call}");
    }
}

#[test]
fn literals_give_what_columns_give() {
    let session = session("qwen2");
    let columns = [
        ("generation", "'<think>a\n\nb c</think>d'"),
        ("coarse", "'b c'"),
        ("steps", "make_array('a', 'b c')"),
        ("scores", "make_array(1.5, 0.5)"),
        ("numbers", "make_array(1, 2)"),
        ("ratio", "0.5"),
        ("seed", "7"),
        ("cot", "'a\n\nb c'"),
    ];
    let one_row = |rows| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
    };
    let table = RecordBatch::try_from_iter(
        columns.iter().map(|(name, literal)| (*name, query(&session, &one_row(1), literal))),
    )
    .unwrap();
    for call in calls() {
        let expected = shown(&query(&session, &table, call));
        let mut literal = call.to_string();
        for (name, value) in columns {
            let name = regex::Regex::new(&format!(r"\b{name}\b")).unwrap();
            literal = name.replace_all(&literal, value).into_owned();
        }
        assert_eq!(shown(&query(&session, &one_row(1), &literal)), expected, "{literal}");
        assert_eq!(shown(&query(&session, &one_row(3), &literal)), vec![expected[0].clone(); 3], "{literal}");
        assert_eq!(query(&session, &one_row(0), &literal).len(), 0, "{literal}");
    }
}

#[test]
fn literals_are_computed_once_for_all_rows() {
    let (session, rows) = (session("qwen2"), rows());
    for call in
        ["cot_steps('a')", "cot_tokens('a b')", "cot_select(make_array('a', 'b'), make_array(2))", "cot_budget()"]
    {
        assert!(matches!(evaluated(&session, &rows, call), ColumnarValue::Scalar(_)), "{call}");
    }
    assert!(matches!(evaluated(&session, &rows, "cot_similarity(cot, 'a')"), ColumnarValue::Array(_)));
}
