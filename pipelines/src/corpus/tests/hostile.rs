//! Folders with hostile names, and JSON with hostile keys, each checked against an independent reading.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::corpus::{Source, list};

const FOLDERS: u64 = 300;
/// The rows of one in this number of folders are read too.
const READ_ONE_IN: u64 = 10;
const PIECES: [&[u8]; 34] = [
    b"a",
    b"b",
    b"Z",
    b"0",
    b"7",
    b" ",
    b".",
    b"..",
    b"_",
    b"-",
    b"%",
    b"%20",
    b"%2F",
    b"#",
    b"#1",
    b"~",
    b"=",
    b"k=v",
    b"*",
    b"?",
    b"[",
    b"]",
    b"\\",
    b"\"",
    b"'",
    b":",
    b"\xc3\xa9",
    b"\xf0\x9f\x98\x80",
    b"\xe2\x80\xae",
    b"\t",
    b"\n",
    b"\r",
    b"\x7f",
    b"\xff",
];
const ENDINGS: [&str; 8] = [".jsonl", ".jsonl", ".ndjson", ".JSONL", ".jsonl.gz", ".csv", ".txt", ""];

/// A generator of Knuth: these tests need no better one.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }

    fn name(&mut self, ending: &str) -> Vec<u8> {
        // Half of the names have nothing that a path cannot hold.
        let pieces = if self.below(2) == 0 { 29 } else { PIECES.len() };
        let name = (0..=self.below(3)).flat_map(|_| PIECES[self.below(pieces)].to_vec()).collect::<Vec<u8>>();
        [name.as_slice(), ending.as_bytes()].concat()
    }
}

/// Makes files at random, each of one row whose question is its number.
fn fill(folder: &Path, random: &mut Random) {
    let mut folders = vec![folder.to_path_buf()];
    for number in 0..4 + random.below(8) {
        let above = folders[random.below(folders.len())].clone();
        if random.below(4) == 0 {
            let below = above.join(OsStr::from_bytes(&random.name("")));
            if fs::create_dir(&below).is_ok() {
                folders.push(below);
            }
            continue;
        }
        let ending = ENDINGS[random.below(ENDINGS.len())];
        let path = above.join(OsStr::from_bytes(&random.name(ending)));
        if path.exists() {
            continue;
        }
        let row = json!({"question": number.to_string(), "cot": "c", "answer": "a"}).to_string();
        let row = if ending.ends_with(".gz") { gzipped(&row) } else { row.into_bytes() };
        match random.below(8) {
            0 => drop(symlink(folder.join("nowhere"), path)),
            1 if random.below(2) == 0 => drop(fs::create_dir(path)),
            _ => drop(fs::write(path, row)),
        }
    }
}

/// The files below a folder, by their names and whether they can be opened.
fn walk(folder: &Path, below: &[u8], found: &mut Vec<(Vec<u8>, PathBuf)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = [below, path.file_name().unwrap().as_bytes()].concat();
        match path.metadata() {
            Ok(data) if data.is_dir() => walk(&path, &[name.as_slice(), b"/"].concat(), found),
            Ok(data) if data.is_file() => found.push((name, path)),
            _ => {}
        }
    }
}

#[tokio::test]
async fn each_file_of_a_hostile_folder_is_read_or_named() {
    let (mut read, mut named) = (0, 0);
    for seed in 0..FOLDERS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fill(&folder, &mut Random(seed));
        let mut files = Vec::new();
        walk(&folder, b"", &mut files);
        let (mut wanted, mut rows, mut left_out) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (name, path) in files {
            let is_hidden = name.split(|byte| *byte == b'/').any(|part| b"._".contains(&part[0]));
            let shown = String::from_utf8_lossy(&name).into_owned();
            let lower = shown.to_ascii_lowercase();
            if is_hidden {
                continue;
            }
            if name.iter().any(u8::is_ascii_control) || shown.as_bytes() != name {
                left_out.insert(format!("{:?}", format!("{}/{shown}", folder.display())));
            } else if [".jsonl", ".ndjson", ".jsonl.gz"].iter().any(|ending| lower.ends_with(ending)) {
                rows.insert(path);
                wanted.insert(shown);
            } else if lower.ends_with(".csv") {
                left_out.insert(format!("{}/{shown}", folder.display()));
            }
        }
        let context = context();
        let source: Source = folder.display().to_string().parse().unwrap();
        if wanted.is_empty() {
            continue;
        }
        let found = list(&context.state(), &[source], |_| None).await.unwrap();
        let paths: BTreeSet<String> = found.files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(paths, wanted, "seed {seed}");
        let notes = found.notes.join("\n");
        left_out.iter().for_each(|name| assert!(notes.contains(name), "seed {seed}: {name} in {notes}"));
        (read, named) = (read + wanted.len(), named + left_out.len());
        if seed % READ_ONE_IN == 0 {
            let corpus = open(&folder, None).await.unwrap();
            let rows = rows.len().to_string();
            assert_eq!(query(&corpus, "SELECT count(*) FROM corpus WHERE status IS NULL").await, [rows], "seed {seed}");
        }
    }
    assert!(read > 500 && named > 100, "{read} files read and {named} named");
}

async fn opened_lines(rows: &[Value]) -> (TempDir, Corpus) {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("a.jsonl"), lines.join("\n")).unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    (folder, corpus)
}

/// A row with a column that sorts after all others, and more keys.
fn row_with(more: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut row = json!({"question": "q", "cot": "c", "answer": "a", "zlevel": 3});
    row.as_object_mut().unwrap().extend(more);
    row
}

/// Checks that each key of a row is a column, or that the text of the other keys has its value.
fn check_keys(row: &Value, columns: &[String], others: &str) {
    let others: Value = if others == "NULL" { json!({}) } else { serde_json::from_str(others).unwrap() };
    for (key, value) in row.as_object().unwrap() {
        match others.get(key) {
            Some(other) => assert_eq!(other, value, "{key}"),
            None => assert!(columns.contains(key), "{key} is lost"),
        }
    }
}

#[tokio::test]
async fn keys_of_few_rows_become_one_column() {
    let more =
        |row: usize| [(format!("\"\n{row}"), json!({"a": [1.50, row]})), ("other_keys".to_string(), json!("taken"))];
    let mut rows: Vec<Value> = (0..2100).map(|row| row_with(more(row))).collect();
    rows.push(row_with([("other_keys".to_string(), json!("taken"))]));
    // A column that asap reads stays, however late it comes.
    rows.push(row_with([("uuid".to_string(), json!("u")), ("late".to_string(), json!(null))]));
    let (_folder, corpus) = opened_lines(&rows).await;
    let columns = ["answer", "cot", "other_keys", "other_keys_", "question", "uuid", "zlevel"].map(String::from);
    assert_eq!(corpus.original_names(), columns);
    let others = query(&corpus, "SELECT other_keys_ FROM corpus ORDER BY source['row']").await;
    rows.iter().zip(&others).for_each(|(row, others)| check_keys(row, &columns, others));
    assert_eq!(others[2100], "NULL");
    let rest = "SELECT count(*), max(other_keys), min(zlevel), max(uuid) FROM corpus WHERE status IS NULL";
    assert_eq!(query(&corpus, rest).await, ["2102 | taken | 3 | u"]);
    let said = "a.jsonl has more than 2000 keys: those of the fewest rows are in the column other_keys_, as JSON text";
    assert!(corpus.notes[0].contains(said), "{:?}", corpus.notes);
}

#[tokio::test]
async fn a_row_of_many_keys_has_a_bound() {
    let row = row_with((0..9000).map(|key| (format!("k{key}"), json!(key))));
    let (_folder, corpus) = opened_lines(std::slice::from_ref(&row)).await;
    let columns = corpus.original_names();
    assert_eq!(columns.len(), 2001);
    let others = query(&corpus, "SELECT other_keys FROM corpus WHERE status IS NULL").await;
    check_keys(&row, &columns, &others[0]);
}

#[tokio::test]
async fn too_many_keys_of_an_object_become_text() {
    let map = |row: usize| json!({format!("u{row}"): row, format!("v{row}"): {"a": [1.5]}});
    let turns = |row: usize| json!([{"role": "user", "content": "q", "meta": map(row)}, {"role": "assistant", "content": "<think>\nc\n</think>\na"}]);
    let rows: Vec<Value> = (0..1100).map(|row| json!({"ratings": map(row), "messages": turns(row)})).collect();
    let (folder, corpus) = opened_lines(&rows).await;
    assert_eq!(query(&corpus, "SELECT count(*) FROM corpus WHERE cot = 'c' AND question = 'q'").await, ["1100"]);
    let texts = query(&corpus, "SELECT ratings FROM corpus ORDER BY source['row']").await;
    let metas = query(&corpus, "SELECT messages[1]['meta'] FROM corpus ORDER BY source['row']").await;
    for (row, text) in texts.iter().chain(&metas).enumerate() {
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), map(row % 1100));
    }
    for column in ["messages", "ratings"] {
        let said = format!("column {column} of {}", folder.path().join("a.jsonl").display());
        assert!(
            corpus.notes.iter().any(|note| note.starts_with(&said) && note.ends_with("kept as JSON text")),
            "{said}"
        );
    }
}
