//! Rows of a Delta table that depend on its log: deletion vectors, partitions, columns.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use serde_json::{Value, json};

use crate::common::json_lines;
use crate::runs::delta_table::{Table, VECTORS_FILE, column, columns, metadata, protocol};
use crate::runs::place::{File, Place, failed, had_nothing_to_do, summary};

const A: File = ("a.parquet", 1..=10, "step");
const B: File = ("b.parquet", 11..=20, "step");

fn query(place: &Place, sql: &str) -> Vec<Value> {
    let from = place.location("in");
    let found = place.execute(&["sql", "-q", "--from", &from, "--format", "nd-json", "-c", sql]);
    json_lines(found.ok())
}

/// The example of the protocol, whose deleted rows are in the log itself.
#[test]
fn a_deletion_vector_may_stand_in_the_log() {
    let place = Place::local();
    let table = Table::new(&place);
    place.put(("a.parquet", 1..=40, "step"));
    let vector = json!({ "storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40, "cardinality": 6 });
    table.commit(&[table.add_with("a.parquet", &vector)]);
    assert_eq!(summary(&place.run(&[]), 0)["rows_in"], 34);
    let left = (0..40).filter(|row| ![3, 4, 7, 11, 18, 29].contains(row)).map(|row| json!({ "row": row }));
    assert_eq!(query(&place, "SELECT source['row'] AS row FROM corpus ORDER BY row"), left.collect::<Vec<_>>());
}

#[test]
fn a_deletion_vector_that_is_damaged_fails_by_its_file() {
    let damages: [fn(&Place, &mut Value); 5] = [
        |_, vector| vector["cardinality"] = json!(3),
        |_, vector| vector["sizeInBytes"] = json!(30),
        |_, vector| *vector = json!({ "storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 4, "cardinality": 1 }),
        |_, vector| vector["storageType"] = json!("x"),
        |place, _| {
            let path = format!("in/{VECTORS_FILE}");
            let mut bytes = std::fs::read(place.path(&path)).unwrap();
            // A row number in the first vector.
            bytes[37] ^= 1;
            place.put_bytes(&path, &bytes);
        },
    ];
    for damage in damages {
        let place = Place::local();
        let table = Table::new(&place);
        place.put_all(&[A, B]);
        let mut vectors = table.vectors(&[&[1, 2], &[3]]);
        damage(&place, &mut vectors[0]);
        table.commit(&[table.add_with("a.parquet", &vectors[0]), table.add_with("b.parquet", &vectors[1])]);
        let damaged = place.run(&[]).ends(3, &["deletion vector"]);
        assert_eq!(failed(&summary(&damaged, 3)), ["a.parquet"]);
        assert_eq!(place.rows().sources(), [0, 1, 2, 5, 7, 8].map(|row| format!("b.parquet:{row}")));
    }
}

fn texts(texts: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

/// A table partitioned by two columns, with columns added after its first file.
fn divided(place: &Place) {
    let table = Table::at(place, "in");
    let detail = json!({ "type": "struct", "fields": [column("a", "string"), column("b", "long")] });
    let mut all = vec![column("day", "date")];
    all.extend(columns());
    all.extend([column("size", "long"), column("level", "integer"), column("note", "string"), column("detail", "x")]);
    all[8]["type"] = detail;
    table.commit(&[protocol(&["timestampNtz"]), metadata(&all, &["day", "level"], json!({}))]);
    let old = StructArray::new(Fields::from(vec![Field::new("a", DataType::Utf8, true)]), vec![texts(&["x"])], None);
    let row = |id: &str| ["id", "question", "cot", "answer"].map(|name| (name, texts(&[id])));
    let size = || ("size", Arc::new(Int32Array::from(vec![5])) as ArrayRef);
    let first = row("1").into_iter().chain([size(), ("detail", Arc::new(old) as ArrayRef)]);
    place.put_batch("in/day=2026-01-02/level=3/a b.parquet", &RecordBatch::try_from_iter(first).unwrap());
    // Its columns are in another order, and one is not in the table.
    let second = [("note", texts(&["new"])), ("gone", texts(&["old"]))].into_iter().chain(row("2"));
    place.put_batch("in/b.parquet", &RecordBatch::try_from_iter(second).unwrap());
    let with = |path: &str, file: &str, values: Value| {
        let mut add = table.add(file);
        add["add"]["path"] = json!(path);
        add["add"]["partitionValues"] = values;
        add
    };
    let values = json!({ "day": "2026-01-02", "level": "3" });
    table.commit(&[with("day=2026-01-02/level=3/a%20b.parquet", "day=2026-01-02/level=3/a b.parquet", values)]);
    table.commit(&[with("b.parquet", "b.parquet", json!({ "day": null, "level": "" }))]);
}

#[test]
fn partitions_and_columns_are_those_that_the_log_says() {
    for place in Place::both() {
        divided(&place);
        place.run(&[]).ok();
        let rows = place.rows();
        assert_eq!(rows.sources(), ["b.parquet:0", "day=2026-01-02/level=3/a b.parquet:0"]);
        let [new, old] = rows.output.values().collect::<Vec<_>>()[..] else { panic!("two rows") };
        let of = |row: &Value| ["day", "level", "size", "note", "detail"].map(|name| row[name].clone());
        assert_eq!(of(old), [json!("2026-01-02"), json!(3), json!(5), json!(null), json!({ "a": "x", "b": null })]);
        assert_eq!(of(new), [json!(null), json!(null), json!(null), json!("new"), json!(null)]);
        assert!(new.get("gone").is_none(), "{new}");
        let log = crate::support::table::log(&place.path("out"));
        let schema = log[0].1.iter().find_map(|action| action["metaData"]["schemaString"].as_str()).unwrap();
        let schema: Value = serde_json::from_str(schema).unwrap();
        let names: Vec<&str> =
            schema["fields"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
        // Question, chain and answer that the pipeline passes on are not duplicated.
        let originals = ["day", "source_id", "question", "answer", "size", "level", "note", "detail"];
        assert_eq!(names[3..], originals, "the order of the table's columns");
        had_nothing_to_do(&place.run(&[]));
        let sql = "SELECT arrow_typeof(day) AS day, arrow_typeof(level) AS level, arrow_typeof(size) AS size, \
                   day AS of_day, level + 1 AS of_level, size AS of_size, note, detail['a'] AS a, detail['b'] AS b \
                   FROM corpus ORDER BY source_id";
        let found = query(&place, sql);
        let types = json!({ "day": "Date32", "level": "Int32", "size": "Int64" });
        let typed = |mut row: Value, more: Value| {
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            row
        };
        let first = json!({ "of_day": "2026-01-02", "of_level": 4, "of_size": 5, "note": null, "a": "x", "b": null });
        let second = json!({ "of_day": null, "of_level": null, "of_size": null, "note": "new", "a": null, "b": null });
        assert_eq!(found, [typed(types.clone(), first), typed(types, second)]);
    }
}

#[test]
fn a_partition_that_is_not_of_its_type_fails_by_its_name() {
    let place = Place::local();
    divided(&place);
    let table = Table::at(&place, "in");
    let mut add = table.add("b.parquet");
    add["add"]["partitionValues"] = json!({ "day": "tomorrow", "level": "1" });
    table.commit_as(3, &[add]);
    place.run(&[]).ends_in(&[1, 3], &["day=tomorrow"]);
}
