//! Files of a few rows, one case a line of `rows.jsonl`: how they are read, and what is said of them. Those of the kind
//! `corpus` are like the files of published corpora. `conversations.jsonl` has the same conversations in each of their forms.

use std::collections::BTreeMap;

use datafusion::common::Result;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::*;

#[derive(Deserialize)]
struct Case {
    kind: String,
    case: String,
    /// By their paths in a folder: the rows of Parquet files in SQL, and the content of other files.
    files: BTreeMap<String, String>,
    /// What is read in the folder, if not all of it.
    #[serde(default)]
    open: String,
    mapping: Option<String>,
    /// Whether the other files hold each character as one byte.
    #[serde(default)]
    latin1: bool,
    #[serde(default)]
    gzip: bool,
    /// Whether the mapping that an inspection prints reads the same.
    #[serde(default)]
    again: bool,
    /// Queries, each with its rows or its error.
    #[serde(default)]
    queries: Vec<(String, Vec<String>)>,
    /// Parts of the notes, or of the error.
    #[serde(default)]
    notes: Vec<String>,
    /// What neither the notes nor the error say.
    #[serde(default)]
    unsaid: Vec<String>,
    /// All of `want` (the rows), `statuses`, `system` (prompts), `all_notes`, `table_notes`, `originals` and `inspected`.
    #[serde(flatten)]
    wanted: Map<String, Value>,
}

const ROWS: &str = "SELECT question, cot, answer, status FROM corpus ORDER BY source['row']";
const SYSTEM: &str = "SELECT system FROM corpus ORDER BY source['row']";

impl Case {
    async fn write(&self, folder: &Path) {
        for (name, content) in &self.files {
            if name.ends_with(".parquet") {
                write(folder, name, content).await;
                continue;
            }
            let bytes = match (self.latin1, self.gzip) {
                (true, _) => content.chars().map(|held| held as u8).collect(),
                (_, true) => gzipped(content),
                _ => content.clone().into_bytes(),
            };
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    async fn read(&self, folder: &Path) -> Result<Value> {
        let path = &folder.join(&self.open);
        let context = context();
        let corpus = open_in(&context, path, self.mapping.as_deref()).await?;
        let is_again = self.again || self.wanted.contains_key("inspected");
        let has_system = is_again || self.wanted.contains_key("system");
        let want = rows_of(&context, ROWS).await?;
        let system = if has_system { rows_of(&context, SYSTEM).await? } else { vec![] };
        let statuses: Vec<_> = want.iter().map(|row| row.rsplit(" | ").next()).collect();
        let mut queried = Vec::new();
        for (sql, _) in &self.queries {
            let rows = rows_of(&context, &sql.replace("DIR", &folder.display().to_string())).await;
            let mut rows = rows.unwrap_or_else(|error| vec![error.find_root().strip_backtrace()]);
            if !sql.contains("ORDER BY") {
                rows.sort();
            }
            queried.push((sql, rows));
        }
        let mut found = json!({
            "want": want, "statuses": statuses, "system": system.join("\n"), "queries": queried, "all_notes": corpus.notes,
            "table_notes": corpus.delta_notes(), "originals": corpus.original_names(),
        });
        if is_again {
            let inspected = corpus.inspect(&context, 2).await?;
            open_in(&context, path, Some(&inspected[0].mapping)).await?;
            let again = (rows_of(&context, ROWS).await?, rows_of(&context, SYSTEM).await?);
            assert_eq!(again, (want, system), "{}", self.case);
            found["inspected"] = json!(inspected);
        }
        Ok(found)
    }
}

#[tokio::test]
async fn each_file_is_read_as_its_line_wants() {
    every_second_line(0).await;
}

#[tokio::test]
async fn each_other_file_is_read_as_its_line_wants() {
    every_second_line(1).await;
}

async fn every_second_line(first: usize) {
    let mut wrong = Vec::new();
    let lines = [include_str!("rows.jsonl"), include_str!("conversations.jsonl")].into_iter().flat_map(str::lines);
    for line in lines.skip(first).step_by(2) {
        let case: Case = serde_json::from_str(line).unwrap();
        let folder = tempfile::tempdir().unwrap();
        case.write(folder.path()).await;
        let read = case.read(folder.path()).await;
        let found = read.unwrap_or_else(|error| json!({ "want": [], "all_notes": [error.to_string()] }));
        let shown = found.to_string().replace(&folder.path().display().to_string(), "DIR");
        let found: Value = serde_json::from_str(&shown).unwrap();
        let said = found["all_notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<String>();
        let is_read = case.wanted.iter().all(|(what, wanted)| found[what] == *wanted)
            && (case.queries.is_empty() || found["queries"] == json!(case.queries));
        let is_said =
            case.notes.iter().all(|part| said.contains(part)) && !case.unsaid.iter().any(|part| said.contains(part));
        if !is_read || !is_said {
            wrong.push(format!("{} ({}): {line}\nfound {found:#}", case.case, case.kind));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
