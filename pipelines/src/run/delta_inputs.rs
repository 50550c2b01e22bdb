//! Delta tables as input: how far an output has followed them, and which of their files have rows that it lacks.
//!
//! ```text
//!   version     V            V+1            V+2 …           W
//!            snapshot ── files added ── files added ── files added      rows to read
//!                        files removed with their rows: --on-change     rows to delete
//! ```
//!
//! A transaction in the log of the output records the version V with which the first run began. When everything of a
//! version W is done, the transaction moves on to W. A version that only rewrites the same rows to other files changes
//! nothing here: rows are known by the files in which they first were. If a later version changes rows of such a
//! rewritten file, the log does not show which rows of the output these are. Then the output is compared with the whole
//! table: files that only the output has are deleted from it, and files that only the table has are read.

use std::collections::{BTreeMap, HashMap, HashSet};

use asap_kernels::front_end::Flag;
use datafusion::common::{DataFusionError, Result, exec_err};

use crate::corpus::{CorpusFile, FINGERPRINT, FileFailure, Former, Source, Table};
use crate::delta::{self, LiveFile, LogState, Removed, Since, Version};
use crate::run::errors::RunError;
use crate::run::ledger::{Ledger, RetriedSlice};
use crate::run::request::OnChange;

/// Prefix of the transactions that record how far an output has followed a table.
const PREFIX: &str = "asap/input";

/// The version of the transaction that records where to resume: odd after a version of which all is done, as for a slice. In
/// a snapshot, some files may be open.
fn number(since: Since) -> i64 {
    match since {
        Since::Snapshot(version) => (version as i64) << 1,
        Since::Version(version) => (version as i64) << 1 | 1,
    }
}

fn since(number: i64) -> Since {
    let version = (number >> 1).unsigned_abs();
    if number & 1 == 1 { Since::Version(version) } else { Since::Snapshot(version) }
}

/// Where an output resumes, by the name of the source, which may be empty: the table's id, and how far it was followed.
#[derive(Debug, Default)]
pub(crate) struct Pins(HashMap<String, (String, Since)>);

impl Pins {
    pub(crate) fn of(state: Option<&LogState>, generation: u64) -> Self {
        let begin = format!("{PREFIX}/{generation}/");
        let pin = |(name, said): (&String, &delta::Transaction)| {
            let (table, source) = name.strip_prefix(&begin)?.rsplit_once('/')?;
            Some((source.to_string(), (table.to_string(), since(said.version))))
        };
        Self(state.into_iter().flat_map(|state| &state.transactions).filter_map(pin).collect())
    }

    /// Where to resume following a source; None if it was not read before.
    pub(crate) fn since(&self, source: &Source) -> Option<Since> {
        self.0.get(source.name.as_deref().unwrap_or_default()).map(|(_, since)| *since)
    }

    fn of_table(&self, table: &Table) -> Result<Option<Since>> {
        let Some((id, since)) = self.0.get(name_of(table)) else { return Ok(None) };
        let found = &table.log.state.metadata.id;
        if id != found {
            return exec_err!(
                "{} is another table (id {found}) than the one that the output was built from (id {id}): give it another name \
                 (NAME=LOC), or rebuild the output with {}",
                table.shown(),
                Flag("--new-generation")
            );
        }
        Ok(Some(*since))
    }
}

fn name_of(table: &Table) -> &str {
    table.source.name.as_deref().unwrap_or_default()
}

#[derive(Debug, Clone)]
pub(crate) struct Mark {
    app_id: String,
    shown: String,
    held: Option<Since>,
    newest: u64,
}

impl Mark {
    /// The action that records the starting version, in the first commit with rows of the table.
    pub(crate) fn begin(&self, state: &LogState) -> Result<Option<String>> {
        match (self.held, self.said(state)) {
            (None, None) => Ok(Some(delta::transaction(&self.app_id, number(Since::Snapshot(self.newest))))),
            (None, Some(Since::Snapshot(other))) if other != self.newest => {
                Err(RunError::OtherSnapshot { table: self.shown.clone(), other, ours: self.newest }.into())
            }
            _ => Ok(None),
        }
    }

    /// The action that records that everything is done, unless it is already recorded.
    pub(crate) fn done(&self, state: &LogState) -> Option<String> {
        let said = self.said(state);
        let is_ours = said == self.held || said == Some(Since::Snapshot(self.newest));
        let done = Since::Version(self.newest);
        (is_ours && said != Some(done)).then(|| delta::transaction(&self.app_id, number(done)))
    }

    fn said(&self, state: &LogState) -> Option<Since> {
        state.transactions.get(&self.app_id).map(|said| since(said.version))
    }
}

/// A file whose rows must be deleted from the output.
#[derive(Debug, Clone)]
pub struct Gone {
    pub path: String,
    pub why: String,
}

#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub files: Vec<CorpusFile>,
    pub gone: Vec<Gone>,
    pub failures: Vec<FileFailure>,
    pub ignored: Vec<String>,
    pub marks: Vec<Mark>,
}

impl Inputs {
    /// Reads which files of the tables are new to an output. `again` are rejected rows that are retried, whose files
    /// may have left the tables. If the output lost rows of tables, all rows are compared again.
    pub(crate) async fn read(
        tables: &[Table],
        sources: &[Source],
        pins: &Pins,
        ledger: &Ledger,
        again: &[RetriedSlice],
        on_change: OnChange,
        lacks_rows: bool,
    ) -> Result<Self> {
        let mut inputs = Self::default();
        for table in tables {
            let held = pins.of_table(table)?;
            let app_id = format!("{PREFIX}/{}/{}/{}", ledger.generation, table.log.state.metadata.id, name_of(table));
            inputs.marks.push(Mark { app_id, shown: table.shown(), held, newest: table.log.state.version });
            let mut following =
                Following { table, sources, ledger, input: BTreeMap::new(), gone: BTreeMap::new(), compares_all: None };
            if lacks_rows {
                following.compares_all = Some(format!("{} no longer has them", table.shown()));
            }
            following.begin(held)?;
            for version in &table.log.later {
                // Versions after a failed one may replace what it removed.
                if !following.go_on(version, on_change, &mut inputs)? {
                    break;
                }
            }
            following.end(&mut inputs)?;
            let here: HashSet<&str> = inputs.files.iter().map(|file| file.path.as_str()).collect();
            let tried: HashSet<&str> = again.iter().map(|again| again.slice.path.as_str()).collect();
            let former = tried.difference(&here).filter_map(|path| {
                let held = &ledger.file(path)?.version;
                Some(Former {
                    path: below(&table.source, path, sources)?,
                    size: held.size,
                    fingerprint: &held.fingerprint,
                })
            });
            let former = table.former_files(&former.collect::<Vec<_>>()).await?;
            inputs.files.extend(former);
        }
        Ok(inputs)
    }
}

/// The path of a file relative to its source; None if it belongs to another source.
fn below<'a>(source: &Source, path: &'a str, sources: &[Source]) -> Option<&'a str> {
    let of = |source: &Source| path.strip_prefix(source.name.as_deref()?)?.strip_prefix('/');
    match source.name {
        Some(_) => of(source),
        None => sources.iter().all(|other| of(other).is_none()).then_some(path),
    }
}

struct Following<'a> {
    table: &'a Table,
    sources: &'a [Source],
    ledger: &'a Ledger,
    /// Files whose rows must be in the output, by their path in the log.
    input: BTreeMap<String, Wanted>,
    /// Files whose rows must not be in the output, by their path in the log, with the version that removed them.
    gone: BTreeMap<String, u64>,
    /// Why the output is compared with all files of the table, if it is: a version changed rows of a rewritten file, or
    /// the output lost rows.
    compares_all: Option<String>,
}

struct Wanted {
    file: LiveFile,
    removed_in: Option<u64>,
}

impl Following<'_> {
    fn begin(&mut self, held: Option<Since>) -> Result<()> {
        let log = &self.table.log;
        let files = match held {
            None => &log.state.files,
            // It is empty if all of its files are done.
            Some(_) => &log.snapshot.files,
        };
        for file in files.values() {
            // Skips files that a later version removed, if an unfinished run has already followed that version.
            if held.is_none() || !self.ledger.is_deleted(&self.table.path_of(&file.path)?) {
                self.add(file);
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &LiveFile) {
        self.gone.remove(&file.path);
        self.input.insert(file.path.clone(), Wanted { file: file.clone(), removed_in: None });
    }

    /// Follows a version if its changes allow that. Returns false if it failed.
    fn go_on(&mut self, version: &Version, on_change: OnChange, inputs: &mut Inputs) -> Result<bool> {
        let failures = inputs.failures.len();
        let added = version.added.iter().filter(|file| file.data_change);
        let removed: Vec<&Removed> = version.removed.iter().filter(|file| file.data_change).collect();
        let is_followed = match (removed.first(), on_change) {
            (None, _) => true,
            (Some(first), OnChange::Fail) => {
                let reads = match self.has_rewritten(&removed)? {
                    true => {
                        "deletes the rows of all files that were rewritten since the output read them (OPTIMIZE does that), and \
                         reads the rewritten files"
                    }
                    false => "deletes their rows from the output and reads what this version added",
                };
                let advice = format!(
                    "{} {reads}; {} keeps their rows and does not read what this version added",
                    Flag("--on-change reprocess"),
                    Flag("--on-change ignore")
                );
                inputs.failures.push(self.failure(version, first, removed.len(), &advice)?);
                false
            }
            (Some(_), OnChange::Ignore) => {
                for file in &removed {
                    inputs.ignored.push(self.table.path_of(&file.path)?);
                }
                false
            }
            (Some(_), OnChange::Reprocess) => {
                if self.has_rewritten(&removed)? {
                    let (version, shown) = (version.version, self.table.shown());
                    let why =
                        format!("version {version} of {shown} changed rows of a file that was merged from others");
                    self.compares_all = Some(why);
                }
                true
            }
        };
        for file in &version.removed {
            if is_followed && file.data_change {
                self.input.remove(&file.path);
                self.gone.insert(file.path.clone(), version.version);
            } else if let Some(wanted) = self.input.get_mut(&file.path) {
                wanted.removed_in = Some(version.version);
            }
        }
        if is_followed {
            added.for_each(|file| self.add(file));
        }
        Ok(inputs.failures.len() == failures)
    }

    /// Whether one of these files was merged from others: then it is not known which rows of the output came from it.
    fn has_rewritten(&self, removed: &[&Removed]) -> Result<bool> {
        for file in removed {
            let path = self.table.path_of(&file.path)?;
            let is_known = self.input.contains_key(&file.path)
                || self.ledger.file(&path).is_some()
                || self.ledger.is_deleted(&path)
                || file.rows() == Some(0);
            if !is_known {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn failure(&self, version: &Version, file: &Removed, files: usize, advice: &str) -> Result<FileFailure> {
        let path = self.table.path_of(&file.path)?;
        let others = if files > 1 { format!(" and {} other files", files - 1) } else { String::new() };
        let error = format!(
            "version {} of {} removed or changed rows of {path}{others}: {advice}",
            version.version,
            self.table.shown()
        );
        Ok(FileFailure::new(&path, &DataFusionError::Execution(error)))
    }

    fn end(self, inputs: &mut Inputs) -> Result<()> {
        let shown = self.table.shown();
        if let Some(why) = self.compares_all {
            inputs.files.extend(self.table.files()?);
            let live: HashSet<&str> = inputs.files.iter().map(|file| file.path.as_str()).collect();
            let held = self.ledger.files().filter(|(path, held)| {
                held.version.fingerprint.starts_with(FINGERPRINT)
                    && below(&self.table.source, path, self.sources).is_some()
            });
            let gone = held.filter(|(path, _)| !live.contains(path.as_str()));
            let mut gone: Vec<Gone> = gone.map(|(path, _)| Gone { path: path.clone(), why: why.clone() }).collect();
            gone.sort_by(|one, other| one.path.cmp(&other.path));
            inputs.gone.append(&mut gone);
            return Ok(());
        }
        for Wanted { file, removed_in } in self.input.values() {
            inputs.files.push(self.table.file(file, *removed_in)?);
        }
        for (logged, version) in &self.gone {
            let path = self.table.path_of(logged)?;
            if self.ledger.file(&path).is_some() {
                let why = format!("version {version} of {shown} removed its source");
                inputs.gone.push(Gone { path, why });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::run::delta_inputs::*;

    #[test]
    fn a_pin_is_read_as_it_was_written() {
        for pin in [Since::Snapshot(0), Since::Version(0), Since::Snapshot(7), Since::Version(7)] {
            assert_eq!(since(number(pin)), pin);
        }
        let mut state = LogState::default();
        for (app_id, pin) in [
            ("asap/input/1/some-id/math", Since::Version(3)),
            ("asap/input/1/other-id/", Since::Snapshot(4)),
            ("asap/input/0/some-id/math", Since::Version(9)),
            ("asap/finished/1", Since::Version(5)),
        ] {
            let said = delta::Transaction { app_id: app_id.to_string(), version: number(pin), last_updated: None };
            state.transactions.insert(app_id.to_string(), said);
        }
        let pins = Pins::of(Some(&state), 1);
        assert_eq!(pins.0.len(), 2);
        assert_eq!(pins.since(&"math=s3://b/t".parse().unwrap()), Some(Since::Version(3)));
        assert_eq!(pins.since(&"s3://b/t".parse().unwrap()), Some(Since::Snapshot(4)));
        assert_eq!(pins.since(&"code=s3://b/t".parse().unwrap()), None);
    }

    #[test]
    fn a_file_is_of_the_source_whose_name_it_has() {
        let sources: Vec<Source> = ["s3://b/t", "math=s3://b/u"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(below(&sources[0], "x/a.parquet", &sources), Some("x/a.parquet"));
        assert_eq!(below(&sources[0], "math/a.parquet", &sources), None);
        assert_eq!(below(&sources[1], "math/a.parquet", &sources), Some("a.parquet"));
        assert_eq!(below(&sources[1], "mathematics/a.parquet", &sources), None);
    }
}
