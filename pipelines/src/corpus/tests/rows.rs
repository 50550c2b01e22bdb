//! Files of a few rows, one a line of `rows.jsonl`: how they are read, and the notes about them. Those of the kind `corpus` are
//! like the files of published corpora.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Case {
    kind: String,
    case: String,
    /// The content of a file.
    #[serde(default)]
    text: String,
    /// The rows of a Parquet file, in place of a text.
    sql: Option<String>,
    /// The mapping by which it is read.
    mapping: Option<String>,
    #[serde(default)]
    want: Vec<String>,
    /// The statuses of the rows, in place of all that is wanted.
    statuses: Option<Vec<String>>,
    /// The system prompt of the row.
    system: Option<String>,
    /// Whether the mapping that an inspection prints reads the same.
    #[serde(default)]
    again: bool,
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

const SYSTEM: &str = "SELECT system FROM corpus ORDER BY source['row']";

#[tokio::test]
async fn each_file_is_read_as_its_line_wants() {
    let mut wrong = Vec::new();
    for line in include_str!("rows.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let Case { kind, case: name, text, want, mapping, notes, error, .. } = &case;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(case.file.as_deref().unwrap_or("a.jsonl"));
        let bytes = if case.latin1 { text.chars().map(|held| held as u8).collect() } else { text.clone().into_bytes() };
        match &case.sql {
            Some(sql) => write(folder.path(), "a.parquet", sql).await,
            None => std::fs::write(&path, bytes).unwrap(),
        }
        let path = if case.sql.is_some() { folder.path() } else { &path };
        let (found, said) = match open(path, mapping.as_deref()).await {
            Ok(corpus) => {
                let (found, system) = (query(&corpus, ROWS).await, query(&corpus, SYSTEM).await);
                assert!(case.system.as_ref().is_none_or(|expected| system == [expected.clone()]), "{name}: {system:?}");
                if case.again {
                    let mapping = corpus.inspect(&context(), 1).await.unwrap()[0].mapping.clone();
                    let again = open(path, Some(&mapping)).await.unwrap();
                    let again = (query(&again, ROWS).await, query(&again, SYSTEM).await);
                    assert_eq!(again, (found.clone(), system), "{name}: {mapping}");
                }
                (found, corpus.notes.join("\n"))
            }
            Err(error) => (vec![], error.to_string()),
        };
        let is_wanted = match &case.statuses {
            Some(statuses) => found.iter().map(|row| row.rsplit(" | ").next().unwrap()).eq(statuses),
            None => found == *want,
        };
        let missing: Vec<&String> = notes.iter().chain(error).filter(|part| !said.contains(*part)).collect();
        if !is_wanted || !missing.is_empty() {
            wrong.push(format!("{kind}, {name}: found {found:#?}, wanted {want:#?}; not said: {missing:?}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
