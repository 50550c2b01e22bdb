//! Reads the content of an output with the binary, and checks that its log and its objects agree.
//!
//! The log is read from its JSON files, all of which are present in these tests. Checkpoints are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use deltalake_core::checkpoints::create_checkpoint_from_table_url_and_cleanup;
use serde_json::Value;
use url::Url;

use crate::common::{Workplace, files_below, json_lines, now};

pub(crate) const REJECTS: &str = ".asap/rejects";

pub(crate) type Source = (String, i64);

/// The rows of an output and its rejects, keyed by source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputRows {
    pub output: BTreeMap<Source, Value>,
    pub rejects: BTreeMap<Source, Value>,
}

impl OutputRows {
    /// Reads the output in a folder of this machine.
    ///
    /// Panics if a source occurs twice in output and rejects, if a log has a gap, or if an object that a log names is
    /// missing.
    #[track_caller]
    pub(crate) fn read(workplace: &Workplace, folder: &str) -> Self {
        let folders = [folder.to_string(), format!("{folder}/{REJECTS}")];
        let mut commands = Vec::new();
        for (number, folder) in folders.iter().enumerate() {
            let table = workplace.path(folder);
            if !log(&table).is_empty() {
                check_objects(&table);
                commands.push(format!("CREATE EXTERNAL TABLE t{number} STORED AS DELTATABLE LOCATION '{folder}'"));
                commands.push(format!("SELECT {number} AS of_table, * FROM t{number}"));
            }
        }
        let mut tables = [BTreeMap::new(), BTreeMap::new()];
        let rows = if commands.is_empty() { String::new() } else { workplace.sql("nd-json", &commands) };
        for mut row in json_lines(&rows) {
            let columns = row.as_object_mut().unwrap();
            let number = columns.remove("of_table").unwrap().as_u64().unwrap() as usize;
            let source = columns.remove("source").unwrap();
            let source = (source["file"].as_str().unwrap().to_string(), source["row"].as_i64().unwrap());
            let twice = tables[number].insert(source.clone(), row);
            assert!(twice.is_none(), "{} holds {} twice", folders[number], shown(&source));
        }
        let [output, rejects] = tables;
        let both: Vec<_> = output.keys().filter(|source| rejects.contains_key(*source)).collect();
        assert!(both.is_empty(), "in the output and in the rejects: {both:?}");
        Self { output, rejects }
    }

    /// Returns the texts of an output column, in the order of the sources.
    pub(crate) fn texts(&self, column: &str) -> Vec<&str> {
        self.output.values().map(|row| row[column].as_str().unwrap_or("NULL")).collect()
    }

    /// Returns the ids of the output, sorted.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.texts("id").iter().map(|id| id.parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn sources(&self) -> Vec<String> {
        self.output.keys().map(shown).collect()
    }

    pub(crate) fn rejected(&self) -> Vec<String> {
        self.rejects.keys().map(shown).collect()
    }
}

fn shown((file, row): &Source) -> String {
    format!("{file}:{row}")
}

/// Checks that the log of the table in a folder has no gap and that every object it names exists.
///
/// A folder without a log passes.
#[track_caller]
pub(crate) fn check_objects(table: &Path) {
    for name in live_files(table) {
        assert!(table.join(&name).is_file(), "the log of {} names {name}, which does not exist", table.display());
    }
}

/// Returns the paths of the objects that the log of a table names. Panics if the log has a gap.
#[track_caller]
pub(crate) fn live_files(table: &Path) -> BTreeSet<String> {
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
    live
}

/// Returns the paths of an output's shards that no log names.
pub(crate) fn orphans(out: &Path) -> BTreeSet<String> {
    let mut found = files_below(out);
    for table in [out.to_path_buf(), out.join(REJECTS)] {
        for live in live_files(&table) {
            found.remove(&table.join(live).strip_prefix(out).unwrap().display().to_string());
        }
    }
    let is_kept = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_log =
            path.contains("_delta_log/") && name.starts_with(|first: char| first == '_' || first.is_ascii_digit());
        let is_answer = path.starts_with(".asap/cache/") && name.ends_with(".answers.parquet");
        is_log || is_answer || path == ".asap/hashes.json"
    };
    found.into_iter().filter(|path| !is_kept(path)).collect()
}

#[track_caller]
pub(crate) fn log(table: &Path) -> Vec<(u64, Vec<Value>)> {
    let Ok(files) = std::fs::read_dir(table.join("_delta_log")) else { return Vec::new() };
    let mut versions = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().parse::<u64>();
        if let (Ok(version), Some("json")) = (stem, path.extension().and_then(|ending| ending.to_str())) {
            versions.push((version, json_lines(&std::fs::read_to_string(&path).unwrap())));
        }
    }
    versions.sort_by_key(|(version, _)| *version);
    versions
}

/// Writes a checkpoint of a version of a table.
pub(crate) fn checkpoint(table: &Path, version: u64) {
    let url = Url::from_directory_path(table).unwrap();
    now(create_checkpoint_from_table_url_and_cleanup(url, version, Some(false), None)).unwrap();
}

/// Removes those of the first commits of a table that are still there.
pub(crate) fn forget_commits(table: &Path, number: u64) {
    for version in 0..number {
        drop(std::fs::remove_file(table.join(format!("_delta_log/{version:020}.json"))));
    }
}

fn decoded(path: &str) -> String {
    url::form_urlencoded::parse(format!("p={}", path.replace('+', "%2B")).as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
