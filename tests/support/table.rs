//! What an output holds, read by the binary, and whether its log and its objects agree.
//!
//! The log is read from its JSON files, all of which tables of these tests keep; checkpoints are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::common::Workplace;

/// Where the rejects of an output lie.
pub const REJECTS: &str = ".asap/rejects";

/// A row's file and number.
pub type Source = (String, i64);

/// The rows of an output and its rejects, each by its source and without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    pub output: BTreeMap<Source, Value>,
    pub rejects: BTreeMap<Source, Value>,
}

impl Rows {
    /// Reads the output in a folder of this machine.
    ///
    /// Panics if a source is there twice, in the output, the rejects, or across the two, if a log has a gap or if an
    /// object is missing that a log names.
    #[track_caller]
    pub fn read(workplace: &Workplace, folder: &str) -> Self {
        let output = read_table(workplace, folder);
        let rejects = read_table(workplace, &format!("{folder}/{REJECTS}"));
        let both: Vec<_> = output.keys().filter(|source| rejects.contains_key(*source)).collect();
        assert!(both.is_empty(), "in the output and in the rejects: {both:?}");
        Self { output, rejects }
    }

    /// The texts of a column of the output, in the order of the sources.
    pub fn texts(&self, column: &str) -> Vec<&str> {
        self.output.values().map(|row| row[column].as_str().unwrap_or("NULL")).collect()
    }

    /// The sources of the output as `file:row`.
    pub fn sources(&self) -> Vec<String> {
        self.output.keys().map(shown).collect()
    }

    /// The sources of the rejects as `file:row`.
    pub fn rejected(&self) -> Vec<String> {
        self.rejects.keys().map(shown).collect()
    }
}

fn shown((file, row): &Source) -> String {
    format!("{file}:{row}")
}

#[track_caller]
fn read_table(workplace: &Workplace, folder: &str) -> BTreeMap<Source, Value> {
    if log(&workplace.path(folder)).is_empty() {
        return BTreeMap::new();
    }
    check_objects(&workplace.path(folder));
    let create = format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{folder}'");
    let read = workplace.run(&["sql", "-q", "--format", "nd-json", "-c", &create, "-c", "SELECT * FROM t"]);
    let mut rows = BTreeMap::new();
    for line in read.ok().lines().filter(|line| !line.is_empty()) {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let source = row.as_object_mut().unwrap().remove("source").unwrap();
        let source = (source["file"].as_str().unwrap().to_string(), source["row"].as_i64().unwrap());
        let twice = rows.insert(source.clone(), row);
        assert!(twice.is_none(), "{folder} holds {} twice", shown(&source));
    }
    rows
}

/// Checks that the log of the table in a folder has no gap and that every object that it names is there.
///
/// A folder without a log passes.
#[track_caller]
pub fn check_objects(table: &Path) {
    let mut live = BTreeSet::new();
    for (expected, (version, actions)) in log(table).into_iter().enumerate() {
        assert_eq!(version, expected as u64, "a version is missing in the log of {}", table.display());
        for action in actions {
            let path = |kind: &str| action[kind]["path"].as_str().map(decoded);
            if let Some(removed) = path("remove") {
                live.remove(&removed);
            }
            if let Some(added) = path("add") {
                assert!(live.insert(added.clone()), "{added} is added twice in {}", table.display());
            }
        }
    }
    for name in live {
        assert!(table.join(&name).is_file(), "the log of {} names {name}, which is not there", table.display());
    }
}

/// The versions of the table in a folder with their actions.
#[track_caller]
pub fn log(table: &Path) -> Vec<(u64, Vec<Value>)> {
    let Ok(files) = std::fs::read_dir(table.join("_delta_log")) else { return Vec::new() };
    let mut versions = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().parse::<u64>();
        if let (Ok(version), Some("json")) = (stem, path.extension().and_then(|ending| ending.to_str())) {
            let text = std::fs::read_to_string(&path).unwrap();
            versions.push((version, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()));
        }
    }
    versions.sort_by_key(|(version, _)| *version);
    versions
}

/// A path of a log, in which some characters are written as `%` and two digits.
fn decoded(path: &str) -> String {
    url::form_urlencoded::parse(format!("p={}", path.replace('+', "%2B")).as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
