use datafusion::arrow::datatypes::{DataType, Schema};

use super::*;

#[tokio::test]
async fn every_physical_type_of_text() {
    for text in ["Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)", "Dictionary(Int32, LargeUtf8)"] {
        let of = |value: &str| format!("arrow_cast({value}, '{text}')");
        let plain = format!("SELECT {} AS question, {} AS cot, {} AS answer", of("'q'"), of("'c'"), of("'a'"));
        assert_eq!(recognized(&plain, None).await, ["q | c | a | NULL"], "{text}");
        let generation = format!("SELECT {} AS prompt, {} AS generation", of("'q'"), of("'c</think>a'"));
        assert_eq!(recognized(&generation, None).await, ["q | c | a | NULL"], "{text}");
        for list in ["List", "LargeList"] {
            let generations = format!(
                "SELECT {} AS problem, arrow_cast(['x', 'c</think>a'], '{list}({text})') AS generations, \
                 arrow_cast([false, true], '{list}(Boolean)') AS correctness_llama",
                of("'q'")
            );
            assert_eq!(recognized(&generations, None).await, ["q | c | a | NULL"], "{list}({text})");
        }
        let turn = |role: &str, value: &str| format!("{{'role': {}, 'content': {}}}", of(role), of(value));
        let turns = format!("SELECT [{}, {}] AS messages", turn("'user'", "'q'"), turn("'assistant'", "'c</think>a'"));
        assert_eq!(recognized(&turns, None).await, ["q | c | a | NULL"], "{text}");
    }
    for untyped in ["SELECT NULL AS question, NULL AS cot, NULL AS answer", "SELECT NULL AS messages"] {
        assert_eq!(recognized(untyped, None).await, ["NULL | NULL | NULL | no_question"], "{untyped}");
    }
}

#[tokio::test]
async fn the_columns_of_a_corpus_come_first_and_have_one_type_each() {
    let clashing = "SELECT *, 1 AS id, 2 AS source, 3 AS source_source, 4 AS \"Level 1\", 5 AS \"a.b\", 6 AS __row, 7 AS __file, \
                    8 AS text FROM";
    let (_folder, corpus) = opened(&format!("{clashing} ({PLAIN})")).await;
    let schema: &Schema = &corpus.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names[..8], ["source", "id", "question", "cot", "answer", "system", "status", "error"]);
    let originals = "source_question, source_cot, source_answer, source_id, source_source_source, source_source, Level 1, \
                     a.b, __row, __file, text";
    assert_eq!(names[8..].join(", "), originals);
    assert_eq!(corpus.original_columns().join(", "), originals);
    assert_eq!(corpus.original_names()[3..6], ["id", "source", "source_source"]);
    let types: Vec<&DataType> = schema.fields().iter().take(8).map(|field| field.data_type()).collect();
    assert_eq!(types[1..], [&DataType::Utf8; 7]);
    let DataType::Struct(source) = types[0] else { panic!("{}", types[0]) };
    let fields: Vec<String> = source.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    assert_eq!(fields, ["file Utf8", "row Int64"]);
    assert!(source.iter().chain(schema.fields()).all(|field| field.metadata().is_empty()));
    let sql =
        "SELECT source_source_source, source_source, \"Level 1\", \"a.b\", __row, __file, text, source_id FROM corpus";
    assert_eq!(query(&corpus, sql).await, ["2 | 3 | 4 | 5 | 6 | 7 | 8 | 1"]);
}

#[tokio::test]
async fn files_of_different_shapes_are_one_corpus() {
    let plain =
        |level, x| format!("SELECT *, {level} AS level, NULL AS tag, {{'x': {x}, 'y': NULL}} AS s FROM ({PLAIN})");
    let other = "arrow_cast('t', 'LargeUtf8') AS tag, {'y': 'why', 'x': 2} AS s";
    let folder = folder_of(&[
        ("a.parquet", &plain(1, 1)),
        ("b.parquet", &format!("SELECT 'p' AS prompt, 'd</think>e' AS generation, {other}")),
        ("deep/er/c.parquet", "SELECT 'm' AS input, 'f</think>g' AS output, 3 AS level"),
        ("d.parquet", &plain(4, 3)),
    ])
    .await;
    let corpus = open(folder.path(), None).await.unwrap();
    let sql =
        "SELECT question, cot, answer, status, level, tag, s['x'], s['y'], prompt FROM corpus ORDER BY source['file']";
    let found = query(&corpus, sql).await;
    assert_eq!(
        found,
        [
            "q | c | a | NULL | 1 | NULL | 1 | NULL | NULL",
            "p | d | e | NULL | NULL | t | 2 | why | p",
            "q | c | a | NULL | 4 | NULL | 3 | NULL | NULL",
            "m | f | g | NULL | 3 | NULL | NULL | NULL | NULL",
        ]
    );
    assert_eq!(corpus.rows(), 4);
}

#[tokio::test]
async fn a_column_of_another_type_is_null_in_its_files_and_costs_no_row() {
    let folder = folder_of(&[
        ("a.parquet", &format!("SELECT *, 1 AS \"Level.1\", [true] AS score FROM ({PLAIN})")),
        ("b.parquet", &format!("SELECT *, 'one' AS \"Level.1\", {{'a': 1}} AS score FROM ({PLAIN})")),
        // The types of the answer column may differ: it is read as text.
        ("c.parquet", "SELECT 'q' AS question, 'c' AS cot, 2.5 AS answer, 3 AS \"Level.1\""),
    ])
    .await;
    let corpus = open(folder.path(), None).await.unwrap();
    let sql = "SELECT cot, answer, \"Level.1\", score, source_answer, status FROM corpus ORDER BY source['file']";
    let expected =
        ["c | a | 1 | [true] | a | NULL", "c | a | NULL | NULL | a | NULL", "c | 2.5 | 3 | NULL | NULL | NULL"];
    assert_eq!(query(&corpus, sql).await, expected);
    let [level, score, answer] = corpus.notes.as_slice() else { panic!("{:?}", corpus.notes) };
    for named in ["Level.1 is Utf8 in", "b.parquet and Int64 in", "a.parquet: the rows of", "have NULL there"] {
        assert!(level.contains(named), "{level}");
    }
    assert!(score.contains("column score is Struct") && answer.contains("c.parquet"), "{:?}", corpus.notes);
}

#[tokio::test]
async fn optional_fields_and_whole_numbers_are_one_column() {
    let folder = tempfile::tempdir().unwrap();
    let plain = r#""question": "q", "cot": "c", "answer": "a""#;
    for (name, more) in [
        ("a", r#""score": 1, "meta": {"a": 1}, "messages": [{"role": "user", "content": "q"}]"#),
        (
            "b",
            r#""score": 0.5, "meta": {"a": 2, "b": "x"}, "messages": [{"role": "user", "content": "q", "name": "n"}]"#,
        ),
    ] {
        std::fs::write(folder.path().join(format!("{name}.jsonl")), format!("{{{plain}, {more}}}")).unwrap();
    }
    let corpus = open(folder.path(), None).await.unwrap();
    let sql = "SELECT score, meta, messages[1]['name'], messages[1]['content'] FROM corpus ORDER BY score";
    assert_eq!(query(&corpus, sql).await, ["0.5 | {a: 2, b: x} | n | q", "1.0 | {a: 1, b: NULL} | NULL | q"]);
}

#[tokio::test]
async fn what_a_table_holds_otherwise_is_said() {
    let odd = "arrow_cast(1, 'UInt64') AS votes, NULL AS nothing, 'x' AS \"is correct\", {'a b': 1} AS nested, \
               arrow_cast('t', 'Dictionary(Int32, Utf8)') AS kind, arrow_cast(['t'], 'LargeList(Utf8View)') AS tags";
    let (_folder, corpus) = opened(&format!("SELECT *, {odd} FROM ({PLAIN})")).await;
    let notes = corpus.delta_notes();
    assert_eq!(
        notes[..3],
        [
            "column votes is Decimal128(20, 0) (UInt64 in the files) in the table",
            "column nothing is text (no values in the files) in the table",
            "column is correct is called is_correct in the table",
        ]
    );
    assert!(notes[3].starts_with("column nested is struct of a_b ("), "{notes:?}");
    assert_eq!(notes.len(), 4);
    let sql = "SELECT votes, nothing, \"is correct\", nested['a b'], kind, tags FROM corpus";
    assert_eq!(query(&corpus, sql).await, ["1 | NULL | x | 1 | t | [t]"]);
}
