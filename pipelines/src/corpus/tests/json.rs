//! JSON files as input.

use std::io::Write;

use super::*;

const ROW: &str = r#"{"question": "two?", "thinking": "2 and 2", "answer": "four"}"#;

fn gzipped(text: &str) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap()
}

fn folder_with(name: &str, content: impl AsRef<[u8]>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), content).unwrap();
    folder
}

async fn read(name: &str, content: &[u8]) -> Vec<String> {
    let folder = folder_with(name, content);
    query(&open(&folder.path().join(name), None).await.unwrap(), ROWS).await
}

#[tokio::test]
async fn lines_and_arrays_plain_and_gzip() {
    let lines = format!("{ROW}\n\n{ROW}\r\n");
    let array = format!("[{ROW},\n{ROW}]");
    let indented = serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&array).unwrap()).unwrap();
    for (name, content) in
        [("a.jsonl", &lines), ("a.ndjson", &lines), ("a.json", &lines), ("a.json", &array), ("a.JSON", &indented)]
    {
        assert_eq!(read(name, content.as_bytes()).await, [READ; 2], "{name}");
        assert_eq!(read(name, format!("\u{feff}{content}").as_bytes()).await, [READ; 2], "{name} with a mark");
        assert_eq!(read(&format!("{name}.gz"), &gzipped(content)).await, [READ; 2], "{name}.gz");
    }
}

#[tokio::test]
async fn columns_keep_what_json_holds() {
    let content = format!(
        "{}\n{}\n",
        r#"{"question": "two?", "cot": "2 and 2", "answer": "four", "n": 1, "meta": {"b": [1, 2], "a": null}, "empty": {}, "mixed": 1}"#,
        r#"{"question": "two?", "cot": "2 and 2", "answer": 4.5, "n": 2.5, "later": [{"x": "y"}], "mixed": "z", "hash": [18446744073709551615, 7]}"#
    );
    let folder = folder_with("a.jsonl", content);
    let corpus = open(folder.path(), None).await.unwrap();
    let found =
        query(&corpus, "SELECT answer, n, meta['b'], later, mixed, hash, source['row'] FROM corpus ORDER BY n").await;
    let expected = [
        "four | 1.0 | [1, 2] | NULL | 1 | NULL | 0",
        "4.5 | 2.5 | NULL | [{x: y}] | z | [18446744073709551615, 7] | 1",
    ];
    assert_eq!(found, expected);
    let names = corpus.original_names();
    assert_eq!(names, ["answer", "cot", "hash", "later", "meta", "mixed", "n", "question"]);
}

#[tokio::test]
async fn many_rows_keep_their_numbers() {
    let lines: Vec<String> = (0..3000)
        .map(|row| format!(r#"{{"question": "q{row}", "cot": "{}", "answer": "{row}"}}"#, "step ".repeat(row % 50 + 1)))
        .collect();
    let folder = folder_with("a.jsonl", lines.join("\n"));
    let corpus = open(folder.path(), None).await.unwrap();
    let sql =
        "SELECT count(*), count(DISTINCT source['row']), bool_and(answer = CAST(source['row'] AS VARCHAR)) FROM corpus";
    assert_eq!(query(&corpus, sql).await, ["3000 | 3000 | true"]);
}

#[tokio::test]
async fn what_is_wrong_is_named_by_its_line_or_column() {
    for (content, named) in [
        ("{\n\"question\": ".to_string(), "line 1"),
        (format!("[1]\n{ROW}\n2\n"), "not a complete array"),
        ("[1, 2]".to_string(), "line 1"),
        (format!("[{ROW},"), "not a complete array"),
        (String::new(), "no rows and no columns"),
        ("[]".to_string(), "no rows and no columns"),
    ] {
        let folder = folder_with("a.jsonl", &content);
        let error = refusal(&folder.path().join("a.jsonl"), None).await;
        assert!(error.contains("a.jsonl") && error.contains(named), "{content}: {error}");
    }
}

#[tokio::test]
async fn a_compressed_file_that_was_cut_short_is_named() {
    let lines: String =
        (0..2000).map(|row| ROW.replace("two", &format!("{row} * {}", row * 7919 % 1009)) + "\n").collect();
    let whole = gzipped(&lines);
    for length in [whole.len() / 2, whole.len() - 4, 3] {
        let folder = folder_with("a.jsonl.gz", &whole[..length]);
        let error = refusal(&folder.path().join("a.jsonl.gz"), None).await;
        assert!(error.contains("a.jsonl.gz"), "{length}: {error}");
    }
}

#[tokio::test]
async fn a_line_that_is_no_object_is_a_reject_and_is_reported() {
    let lines = [ROW, "{\"question\": \"tw", ROW, ROW, "NaN", ROW].join("\n");
    let folder = folder_with("a.jsonl", lines);
    std::fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    let found = query(&corpus, "SELECT source['row'], question, status FROM corpus ORDER BY 1").await;
    let read = |row| format!("{row} | two? | NULL");
    let none = |row| format!("{row} | NULL | no_question");
    assert_eq!(found, [read(0), none(1), read(2), read(3), none(4), read(5)]);
    assert!(
        corpus.notes[0].contains("line 2 and one other of") && corpus.notes[0].contains("becomes a reject"),
        "{:?}",
        corpus.notes
    );
}

#[tokio::test]
async fn columns_that_are_empty_decide_nothing() {
    let row = r#"{"question": "two?", "thinking": "2 and 2", "answer": "four", "messages": null, "generation": null}"#;
    assert_eq!(read("a.jsonl", row.as_bytes()).await, [READ]);
}

#[tokio::test]
async fn next_to_parquet_it_is_left_out_and_named() {
    let folder = folder_with("b.jsonl", ROW);
    write(folder.path(), "a.parquet", "SELECT 'two?' AS question, '2 and 2' AS cot, 'four' AS answer").await;
    std::fs::write(folder.path().join("c.csv"), "x").unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    assert_eq!(query(&corpus, ROWS).await, [READ]);
    assert!(corpus.notes[0].contains("b.jsonl") && corpus.notes[0].contains("c.csv"), "{:?}", corpus.notes);
    let by_pattern = open(&folder.path().join("*.jsonl"), None).await.unwrap();
    assert_eq!(query(&by_pattern, "SELECT source['file'] FROM corpus").await, ["b.jsonl"]);
    std::fs::remove_file(folder.path().join("a.parquet")).unwrap();
    std::fs::write(folder.path().join("dataset_info.json"), "{}").unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    assert_eq!(corpus.rows(), 1);
    assert!(corpus.notes[0].contains("dataset_info.json"), "{:?}", corpus.notes);
}
