//! Files of a few rows, one a line of `rows.jsonl`: how they are read, and the notes about them.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    kind: String,
    case: String,
    /// The content of the file.
    text: String,
    want: Vec<String>,
    /// Parts of notes.
    #[serde(default)]
    notes: Vec<String>,
    error: Option<String>,
    #[serde(default)]
    file: Option<String>,
    /// Whether the file holds each character as one byte.
    #[serde(default)]
    latin1: bool,
}

#[tokio::test]
async fn each_file_is_read_as_its_line_wants() {
    let mut wrong = Vec::new();
    for line in include_str!("rows.jsonl").lines() {
        let Case { kind, case, text, want, notes, error, file, latin1 } = serde_json::from_str(line).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file.as_deref().unwrap_or("a.jsonl"));
        let bytes = if latin1 { text.chars().map(|held| held as u8).collect() } else { text.into_bytes() };
        std::fs::write(&path, bytes).unwrap();
        let (found, said) = match open(&path, None).await {
            Ok(corpus) => (query(&corpus, ROWS).await, corpus.notes.join("\n")),
            Err(error) => (vec![], error.to_string()),
        };
        let missing: Vec<&String> = notes.iter().chain(&error).filter(|part| !said.contains(*part)).collect();
        if found != want || !missing.is_empty() {
            wrong.push(format!(
                "{kind}, {case}: found {found:#?}, wanted {want:#?}; not in the notes: {missing:?}\n{said}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
