//! The tables of an output, and how slices get into them: rejects first, then the output, whose commit alone makes slices
//! done.
//!
//! ```text
//!   slices with receipts ──▶ rejects: add ──▶ output: add, transactions ──▶ rejects: remove what does not count
//!                            (not counted yet)  (now they are)               (for readers who do not ask the output)
//! ```
//!
//! A kill between any two of these leaves nothing to repair before the next run, which does the rest.

pub(crate) mod delete_files;
mod finished;
pub(crate) mod finished_slice;
pub mod identity;
pub(crate) mod ledger;
pub(crate) mod missing;
pub mod outcomes;
pub(crate) mod provenance;
pub(crate) mod receipt;
pub mod rejects;
pub mod shards;
pub mod staged;
pub(crate) mod table_properties;
pub mod write_shards;
mod written_shards;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::Utc;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result, exec_err};
use deltalake_core::kernel::Add;
use serde_json::{Value, json};
use url::Url;

use crate::beside::{beside, join};
use crate::delta;
use crate::delta::{Log, State, store_of};
use crate::location;
use crate::run::input::delta_inputs::Mark;
use crate::run::output::delete_files::TakeBack;
use crate::run::output::finished_slice::{Finished, SliceRecord};
use crate::run::output::identity::Identity;
use crate::run::output::ledger::{Attempt, Before, Ledger, SliceName};
use crate::run::output::missing::Missing;
use crate::run::output::provenance::Provenance;
use crate::run::output::receipt::Counts;
use crate::run::output::rejects::{Settled, Standing};
use crate::run::output::table_properties::{
    Design, HeldOriginals, PIPELINE, PROVENANCE, check_empty, generation, properties, widen,
};
pub use finished::{is_finished, says_finished};

#[derive(Debug, Default)]
pub struct Committed {
    /// The version of the table, if there was something to commit.
    pub version: Option<u64>,
    pub lost: Vec<SliceName>,
}

/// Another run began a new table generation while this one was under way.
#[derive(Debug, thiserror::Error)]
#[error(
    "another run replaces all rows of {table} (table generation {found}; this run was planned for {planned}): nothing more \
     of this run is committed. Run the same command again if its rows are still wanted"
)]
pub struct Superseded {
    table: String,
    planned: u64,
    found: u64,
}

/// The tables of a run.
pub struct Output {
    url: Url,
    beside: Url,
    table: Option<Log>,
    rejects: Option<Log>,
    ledger: Ledger,
    /// The table generation that this run was planned for. Every commit compares it with the table's: slices of one
    /// generation never enter another.
    generation: u64,
    attempt: Attempt,
    marks: Vec<Mark>,
    /// Whether it is not known what became of a commit: it may name shards of this attempt.
    in_doubt: bool,
    missing: Missing,
    /// Shards of this attempt that a later run may commit, by their paths in the logs.
    staged: HashSet<String>,
}

impl Output {
    /// Opens the tables at `url`, which need not be there yet.
    ///
    /// # Errors
    /// If something other than a table of asap is there, or a table that a run cannot keep to.
    pub async fn open(url: Url) -> Result<Self> {
        let beside = beside(&url)?;
        let table = Log::open(&url).await?;
        let rejects = Log::open(&join(&beside, "rejects/")?).await?;
        match &table {
            None => check_empty(&url, store_of(&url)?.as_ref()).await?,
            Some(log) => log.state().check_writable(&url)?,
        }
        if table.as_ref().is_some_and(|log| !log.state().metadata.configuration.contains_key(PIPELINE)) {
            return exec_err!(
                "{} is a Delta table that asap did not make: choose another output",
                location::display(&url)
            );
        }
        let generation = table.as_ref().map_or(0, |log| generation(log.state()));
        let mut output = Self {
            url,
            beside,
            table,
            rejects,
            ledger: Ledger::default(),
            generation,
            attempt: Attempt::new(),
            marks: Vec::new(),
            in_doubt: false,
            missing: Missing::default(),
            staged: HashSet::new(),
        };
        output.follow();
        Ok(output)
    }

    fn follow(&mut self) {
        if let Some(log) = &self.table {
            self.ledger.follow(log.state(), self.generation);
        }
    }

    /// Who writes.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The output's folder.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The folder of what asap keeps beside the table.
    pub fn beside(&self) -> &Url {
        &self.beside
    }

    pub(crate) fn rejects_url(&self) -> Result<Url> {
        join(&self.beside, "rejects/")
    }

    /// The log of the output, if it exists.
    pub fn table(&self) -> Option<&Log> {
        self.table.as_ref()
    }

    /// The log of the rejects, if there were any.
    pub fn rejects(&self) -> Option<&Log> {
        self.rejects.as_ref()
    }

    /// What the output is filled with; None if an earlier asap filled it.
    pub fn identity(&self) -> Option<Identity> {
        Identity::decode(self.table.as_ref()?.state().metadata.configuration.get(PIPELINE)?)
    }

    /// The columns of the output and of the rejects, if they exist.
    ///
    /// # Errors
    /// If a log holds no readable schema.
    pub fn schemas(&self) -> Result<(Option<Schema>, Option<Schema>)> {
        let schema = |log: &Option<Log>| log.as_ref().map(|log| log.state().schema()).transpose();
        Ok((schema(&self.table)?, schema(&self.rejects)?))
    }

    /// The columns by which the output is divided into folders, if it exists.
    pub fn partition_by(&self) -> Option<&[String]> {
        self.table.as_ref().map(|log| log.state().metadata.partition_columns.as_slice())
    }

    /// The original columns that the output holds, and those that it leaves out.
    ///
    /// # Errors
    /// If the table's properties cannot be read.
    pub fn originals(&self) -> Result<HeldOriginals> {
        self.table.as_ref().map_or(Ok(HeldOriginals::default()), |log| HeldOriginals::of(log.state()))
    }

    pub(crate) fn check_identity(&self, identity: &Identity) -> Result<()> {
        if self.table.is_none() {
            return Ok(());
        }
        let to = location::display(&self.url);
        let advice =
            "choose another output, or fill this one anew with --new-generation; what was answered is not paid again";
        match self.identity() {
            None => exec_err!("{to} was filled by an earlier version of asap: {advice}"),
            Some(held) if held == *identity => Ok(()),
            Some(held) => {
                let different = held.differences(identity).join(", ");
                exec_err!("{to} was filled by another pipeline (what differs: {different}): {advice}")
            }
        }
    }

    /// Takes all rows of the output back in one commit, and fills it with another design from then on.
    pub(crate) async fn begin_generation(&mut self, design: &Design) -> Result<()> {
        let Some(log) = &mut self.table else { return Ok(()) };
        let (url, held) = (&self.url, self.generation);
        log.commit(|state| {
            check_generation(state, held, url)?;
            let now = Utc::now().timestamp_millis();
            let mut metadata = state.with_schema(&design.output)?;
            metadata.partition_columns = design.partition_by.clone();
            metadata.configuration.extend(properties(design, held + 1)?);
            let more = json!({ "generation": held + 1 });
            let mut lines = vec![delta::commit_info("WRITE", "Overwrite", now, more), delta::metadata(&metadata)];
            lines.extend(state.files.values().map(|file| delta::remove(file, now)));
            Ok(lines)
        })
        .await?;
        self.generation += 1;
        self.follow();
        Ok(())
    }

    /// Makes the tables that are not there, and adds the columns that they lack.
    async fn prepare(&mut self, design: &Design, with_rejects: bool) -> Result<()> {
        if self.table.is_none() {
            let properties = properties(design, 0)?.into_iter().map(|(key, value)| (key, Some(value))).collect();
            let made = Log::create(&self.url, Arc::clone(&design.output), &design.partition_by, properties).await?;
            self.table = Some(made);
            // Another run may have been faster, with another pipeline.
            self.check_identity(&design.identity)?;
            self.follow();
        }
        if with_rejects && self.rejects.is_none() {
            let url = self.rejects_url()?;
            self.rejects = Some(Log::create(&url, Arc::clone(&design.rejects), &[], HashMap::new()).await?);
        }
        let (url, planned) = (&self.url, self.generation);
        if let Some(log) = &mut self.table {
            widen(log, &design.output, &design.originals, |state| check_generation(state, planned, url)).await?;
        }
        if let Some(log) = &mut self.rejects {
            widen(log, &design.rejects, &[], |_| Ok(())).await?;
        }
        Ok(())
    }

    /// Commits finished slices: those that another run did meanwhile are left out. `take_back` names the files whose rows
    /// these slices replace, `info` is what the commit says of the run.
    ///
    /// # Errors
    /// If the store fails, or [`delta::OutcomeUnknown`]; shards that a commit may name are never removed.
    pub async fn commit(
        &mut self,
        design: &Design,
        finished: Vec<Finished>,
        take_back: &mut TakeBack,
        info: &Value,
    ) -> Result<Committed> {
        let has_rejects = finished.iter().any(|slice| !slice.receipt.rejects.is_empty());
        self.prepare(design, has_rejects).await?;
        if has_rejects {
            let committed = self.commit_rejects(&finished, info).await;
            self.note(committed)?;
        }
        let committed = self.commit_slices(&finished, take_back, info).await;
        self.note(committed)
    }

    /// Deletes the rows of files that have none any more, all in one commit.
    pub(crate) async fn take_back(&mut self, paths: &[&str], info: &Value) -> Result<()> {
        loop {
            let mut take_back = TakeBack::new(&self.ledger, paths.iter().copied()).without(&self.missing.shards);
            if take_back.is_empty() {
                return Ok(());
            }
            let committed = self.commit_slices(&[], &mut take_back, info).await;
            // Another run may do slices of these files, or delete them, until the commit is made.
            if self.note(committed)?.version.is_some() {
                return Ok(());
            }
        }
    }

    /// Commits slices and what they replace, or, where there are none, only what is taken back.
    async fn commit_slices(
        &mut self,
        finished: &[Finished],
        take_back: &mut TakeBack,
        info: &Value,
    ) -> Result<Committed> {
        loop {
            take_back.find(self.table.as_ref(), self.attempt).await?;
            let Self { table: Some(log), ledger, marks, url, generation, .. } = self else {
                return exec_err!("there is no table to commit to");
            };
            let mut lost = Vec::new();
            let mut outdated = false;
            let version = log
                .commit(|state| {
                    check_generation(state, *generation, url)?;
                    ledger.follow(state, *generation);
                    outdated = take_back.is_outdated(state);
                    if outdated {
                        return Ok(vec![]);
                    }
                    let (ours, others): (Vec<_>, Vec<_>) =
                        finished.iter().partition(|finished| is_open(ledger, take_back, finished));
                    lost = others.iter().map(|finished| finished.slice.clone()).collect();
                    if ours.is_empty() && !(finished.is_empty() && take_back.is_due(ledger)) {
                        return Ok(vec![]);
                    }
                    let mut lines = lines(&ours, take_back, info);
                    for mark in marks.iter() {
                        lines.extend(mark.begin(state, Utc::now().timestamp_millis())?);
                    }
                    Ok(lines)
                })
                .await?;
            if !outdated {
                self.follow();
                return Ok(Committed { version, lost });
            }
        }
    }

    async fn commit_rejects(&mut self, finished: &[Finished], info: &Value) -> Result<()> {
        let Some(rejects) = &mut self.rejects else { return Ok(()) };
        let shards: Vec<&Add> = finished.iter().flat_map(|slice| &slice.receipt.rejects).collect();
        let now = Utc::now().timestamp_millis();
        rejects
            .commit(|state| {
                // A run that was killed may have committed those of staged slices.
                let new = shards.iter().filter(|shard| !state.files.contains_key(&shard.path));
                let adds: Vec<String> = new.map(|shard| delta::add(shard)).collect();
                if adds.is_empty() {
                    return Ok(vec![]);
                }
                let first = delta::commit_info("WRITE", "Append", now, info.clone());
                Ok(std::iter::once(first).chain(adds).collect())
            })
            .await?;
        Ok(())
    }

    /// Takes shards of rejects that do not count, and never will, out of their table.
    pub(crate) async fn tidy_rejects(&mut self) -> Result<()> {
        let (Some(table), Some(rejects)) = (&mut self.table, &mut self.rejects) else { return Ok(()) };
        rejects.refresh().await?;
        if rejects.state().files.is_empty() {
            return Ok(());
        }
        // What is read later knows of every slice that was done before these rejects were listed.
        table.refresh().await?;
        let settled = Settled::of(table.state(), generation(table.state()));
        rejects
            .commit(|state| {
                let now = Utc::now().timestamp_millis();
                let stale = state.files.values().filter(|shard| settled.standing(shard) == Standing::Stale);
                let removes: Vec<String> = stale.map(|shard| delta::remove(shard, now)).collect();
                if removes.is_empty() {
                    return Ok(vec![]);
                }
                let first =
                    delta::commit_info("DELETE", "Append", now, json!({ "rejects": "of attempts that do not count" }));
                Ok(std::iter::once(first).chain(removes).collect())
            })
            .await?;
        self.follow();
        Ok(())
    }

    /// From the first commit of slices on says of which versions of tables they are.
    pub(crate) fn begin_inputs(&mut self, marks: Vec<Mark>) {
        self.marks = marks;
    }

    /// Says that everything of the versions of tables that were read is done, so that their logs may be cleaned.
    pub(crate) async fn say_inputs_done(&mut self) -> Result<()> {
        let Self { table: Some(log), attempt, marks, generation: planned, .. } = self else { return Ok(()) };
        log.commit(|state| {
            let now = Utc::now().timestamp_millis();
            let done: Vec<String> = marks.iter().filter_map(|mark| mark.done(state, now)).collect();
            if done.is_empty() || generation(state) != *planned {
                return Ok(vec![]);
            }
            let info = delta::commit_info("WRITE", "Append", now, json!({ "run": attempt.to_string() }));
            Ok(std::iter::once(info).chain(done).collect())
        })
        .await?;
        self.follow();
        Ok(())
    }

    /// What the table is filled with, in the words of the run that made it; None if an earlier asap did.
    pub(crate) fn provenance(&self) -> Option<Provenance> {
        let configuration = &self.table.as_ref()?.state().metadata.configuration;
        Provenance::decode(configuration.get(PROVENANCE)?)
    }

    /// Makes sure that commits to the output can be made, and told from those of others, before any work is done for one.
    pub(crate) async fn check_writable(&self) -> Result<()> {
        delta::check_output(store_of(&self.url)?.as_ref(), &location::display(&self.url)).await
    }

    fn note<T>(&mut self, committed: Result<T>) -> Result<T> {
        if let Err(error) = &committed
            && let DataFusionError::External(cause) = error.find_root()
            && cause.is::<delta::OutcomeUnknown>()
        {
            self.in_doubt = true;
        }
        committed
    }
}

/// Refuses to change a table whose generation is not the one that a run was planned for.
fn check_generation(state: &State, planned: u64, url: &Url) -> Result<()> {
    match generation(state) {
        found if found == planned => Ok(()),
        found => {
            let table = location::display(url);
            Err(DataFusionError::External(Box::new(Superseded { table, planned, found })))
        }
    }
}

fn is_open(ledger: &Ledger, take_back: &TakeBack, finished: &Finished) -> bool {
    let slice = &finished.slice;
    match ledger.file(&slice.path) {
        _ if let Before::Done(before) = finished.before => ledger.attempt_of(slice) == Some(before),
        None => true,
        Some(held) if held.version == slice.version => !held.overlaps(slice.start, slice.end),
        // Another content is there: it goes in the same commit, or this one comes too late.
        Some(_) => take_back.takes(ledger, &slice.path),
    }
}

fn lines(finished: &[&Finished], take_back: &TakeBack, info: &Value) -> Vec<String> {
    let now = Utc::now().timestamp_millis();
    let mut info = info.clone();
    info["slices"] = finished.iter().map(|finished| json!(SliceRecord::of(finished))).collect();
    let mut counts = Counts::default();
    finished.iter().for_each(|finished| counts.add(&finished.receipt.counts));
    info["counts"] = json!(counts);
    let removes = take_back.lines(now);
    let mode = if removes.is_empty() { "Append" } else { "Overwrite" };
    let mut lines = vec![delta::commit_info("WRITE", mode, now, info)];
    lines.extend(removes);
    let adds: Vec<&Add> = finished.iter().flat_map(|finished| &finished.receipt.output).collect();
    lines.extend(adds.into_iter().map(delta::add));
    let done = |finished: &&Finished| delta::transaction(&finished.slice.to_string(), finished.attempt.done(), now);
    lines.extend(finished.iter().map(done));
    lines
}
