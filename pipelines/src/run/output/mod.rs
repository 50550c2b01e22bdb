//! The tables of an output, and how slices are committed to them: rejects first, then the output, whose commit alone
//! makes slices done.
//!
//! ```text
//!   slices with receipts ──▶ rejects: add ──▶ output: add, transactions ──▶ rejects: remove stale ones
//!                            (not valid yet)  (now they are valid)          (for readers who do not read the output)
//! ```
//!
//! A kill between any two of these steps needs no repair: the next run does the rest.

pub(crate) mod delete_files;
mod finished;
pub(crate) mod finished_slice;
pub mod identity;
pub(crate) mod missing;
pub mod outcomes;
pub mod provenance;
pub(crate) mod receipt;
pub mod rejects;
pub(crate) mod sampling;
pub(crate) mod sums;
pub(crate) mod table_properties;
pub mod write_shards;
pub(crate) mod written_shards;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asap_kernels::front_end::{Again, Flag};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result, exec_err};
use deltalake_core::kernel::Add;
use serde_json::{Value, json};
use url::Url;

use crate::asap_folder::{asap_folder, join};
use crate::delta::{self, LiveFile, Log, LogState, store_of};
use crate::location;
use crate::run::delta_inputs::Mark;
use crate::run::errors::RunError;
use crate::run::ledger::{Attempt, Before, Ledger, SliceName};
use crate::run::output::delete_files::Deletion;
use crate::run::output::finished_slice::{Finished, SliceRecord};
use crate::run::output::identity::Identity;
use crate::run::output::missing::Missing;
use crate::run::output::provenance::Provenance;
use crate::run::output::receipt::Counts;
use crate::run::output::rejects::{Settled, Standing};
use crate::run::output::table_properties::{
    Design, HeldOriginals, PIPELINE, PROVENANCE, SAMPLE, check_empty, decode, generation, properties, widen,
};
use crate::run::sample::Sample;
pub use finished::{is_finished, says_finished};

/// The ID of a table and its property [`PIPELINE`].
type Plan = (String, Option<String>);

fn plan_of(state: &LogState) -> Plan {
    (state.metadata.id.clone(), state.metadata.configuration.get(PIPELINE).cloned())
}

#[derive(Debug, Default)]
pub struct Committed {
    /// The version of the table, if there was something to commit.
    pub version: Option<u64>,
    pub lost: Vec<SliceName>,
    /// Changes of rows by other programs since the last commit.
    pub notes: Vec<String>,
}

pub struct Output {
    pub(crate) url: Url,
    /// The folder of asap next to the table.
    pub(crate) asap_folder: Url,
    table: Option<Log>,
    rejects: Option<Log>,
    pub(crate) ledger: Ledger,
    /// The table generation that this run was planned for. Every commit compares it with that of the table, so slices
    /// of one generation never enter another.
    generation: u64,
    /// The table and the pipeline that this run was planned for.
    planned: Option<Plan>,
    pub(crate) attempt: Attempt,
    /// The versions of input tables that the first commit of slices records.
    pub(crate) marks: Vec<Mark>,
    /// Whether the outcome of a commit is unknown: it may name shards of this attempt.
    in_doubt: bool,
    /// The missing shards, as of [`Self::find_missing`].
    pub(crate) missing: Missing,
    /// Shards of this attempt that a later run may commit, by their paths in the logs.
    staged: HashSet<String>,
}

impl Output {
    /// Opens the tables at `url`, which need not exist yet.
    ///
    /// # Errors
    /// If something other than a table of asap is there, or a table whose requirements a run cannot meet.
    pub async fn open(url: Url) -> Result<Self> {
        let asap_folder = asap_folder(&url)?;
        let mut table = Log::open(&url).await?;
        if table.is_none()
            && let Err(error) = check_empty(&url, store_of(&url)?.as_ref()).await
        {
            // Another run may have created the table since.
            table = Some(Log::open(&url).await?.ok_or(error)?);
        }
        let rejects = Log::open(&join(&asap_folder, "rejects/")?).await?;
        if let Some(log) = &table {
            log.state.check_writable(&url)?;
        }
        if let Some(log) = table.as_ref().filter(|log| !log.state.metadata.configuration.contains_key(PIPELINE)) {
            if log.state.schema()?.field_with_name("survives").is_ok() {
                let shown = location::display(&url);
                let view = location::command(&["asap", "view", "OUT", "--exam", &shown]);
                return exec_err!("{shown} is an exam, and not an output of asap run: {view} shows it");
            }
            return exec_err!(
                "{} is a Delta table, but not an output of asap run: choose another location",
                location::display(&url)
            );
        }
        let generation = table.as_ref().map_or(0, |log| generation(&log.state));
        let planned = table.as_ref().map(|log| plan_of(&log.state));
        let mut output = Self {
            url,
            asap_folder,
            table,
            rejects,
            ledger: Ledger::default(),
            generation,
            planned,
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
            self.ledger.follow(&log.state, self.generation);
        }
    }

    pub(crate) fn rejects_url(&self) -> Result<Url> {
        join(&self.asap_folder, "rejects/")
    }

    pub fn table(&self) -> Option<&Log> {
        self.table.as_ref()
    }

    pub fn rejects(&self) -> Option<&Log> {
        self.rejects.as_ref()
    }

    /// The shards of the rejects that belong to done slices, with their log.
    pub(crate) fn valid_rejects(&self) -> Vec<(&Log, &LiveFile)> {
        let (Some(table), Some(rejects)) = (&self.table, &self.rejects) else { return vec![] };
        let settled = Settled::of(&table.state, self.ledger.generation);
        let valid = rejects.state.files.values().filter(|shard| settled.standing(shard) == Standing::Valid);
        valid.map(|shard| (rejects, shard)).collect()
    }

    /// The identity of the pipeline that fills the output; None if an earlier asap filled it.
    pub fn identity(&self) -> Option<Identity> {
        decode(&self.table()?.state, PIPELINE)
    }

    /// The columns of the output and of the rejects, if they exist.
    pub fn schemas(&self) -> Result<(Option<Schema>, Option<Schema>)> {
        let schema = |log: &Option<Log>| log.as_ref().map(|log| log.state.schema()).transpose();
        Ok((schema(&self.table)?, schema(&self.rejects)?))
    }

    /// The columns that divide the output into folders, if it exists.
    pub fn partition_by(&self) -> Option<&[String]> {
        self.table.as_ref().map(|log| log.state.metadata.partition_columns.as_slice())
    }

    /// The original columns that the output has, and those that it leaves out.
    pub fn originals(&self) -> Result<HeldOriginals> {
        self.table.as_ref().map_or(Ok(HeldOriginals::default()), |log| HeldOriginals::of(&log.state))
    }

    pub(crate) fn check_identity(&self, identity: &Identity) -> Result<()> {
        if self.table.is_none() {
            return Ok(());
        }
        let to = location::display(&self.url);
        let rebuild = format!("rebuild this one with {}", Flag("--new-generation"));
        let advice = format!("choose another output, or {rebuild}; you do not pay again for answers you have");
        match self.identity() {
            None => exec_err!("{to} was filled by an earlier version of asap: {advice}"),
            Some(held) if held == *identity => Ok(()),
            Some(held) => {
                let (what, different) = (held.kind_of_difference(identity), held.differences(identity).join(", "));
                exec_err!("{to} was filled {what} (what differs: {different}): {advice}")
            }
        }
    }

    /// The rows that the output is a sample of, if it is one.
    pub(crate) fn sample(&self) -> Option<Sample> {
        decode(&self.table.as_ref()?.state, SAMPLE)
    }

    /// Deletes all rows of the output in one commit. From then on it is filled with another design.
    pub(crate) async fn begin_generation(&mut self, design: &Design) -> Result<()> {
        let Some(log) = &mut self.table else { return Ok(()) };
        let (url, held, planned) = (&self.url, self.generation, &self.planned);
        log.commit(|state| {
            check_plan(state, held, planned.as_ref(), url)?;
            let mut metadata = state.with_schema(&design.rows.output)?;
            metadata.partition_columns = design.partition_by.clone();
            metadata.configuration.remove(SAMPLE);
            metadata.configuration.extend(properties(design, held + 1)?);
            let removes = state.files.values().map(delta::remove);
            let actions =
                [delta::metadata(&metadata), sums::line(held + 1, Some(0))].into_iter().chain(removes).collect();
            Ok(delta::commit("WRITE", "Overwrite", json!({ "generation": held + 1 }), actions))
        })
        .await?;
        self.planned = Some(plan_of(&log.state));
        self.generation += 1;
        self.follow();
        Ok(())
    }

    /// Creates missing tables, and adds missing columns.
    async fn prepare(&mut self, design: &Design, with_rejects: bool) -> Result<()> {
        if self.table.is_none() {
            let properties = properties(design, 0)?.into_iter().map(|(key, value)| (key, Some(value))).collect();
            let made =
                Log::create(&self.url, Arc::clone(&design.rows.output), &design.partition_by, properties).await?;
            self.planned = Some(plan_of(&made.state));
            self.table = Some(made);
            // Another run may have created it first, with another pipeline.
            self.check_identity(&design.identity)?;
            if self.sample() != design.sample {
                return exec_err!(
                    "another run created {} and chose its sample from other files: {Again}",
                    location::display(&self.url)
                );
            }
            self.follow();
        }
        if with_rejects && self.rejects.is_none() {
            let url = self.rejects_url()?;
            self.rejects = Some(Log::create(&url, Arc::clone(&design.rows.rejects), &[], HashMap::new()).await?);
        }
        let (url, held, planned) = (&self.url, self.generation, self.planned.as_ref());
        if let Some(log) = &mut self.table {
            let check = |state: &LogState| check_plan(state, held, planned, url);
            widen(log, &design.rows.output, &design.rows.originals, check).await?;
        }
        if let Some(log) = &mut self.rejects {
            widen(log, &design.rows.rejects, &[], |_| Ok(())).await?;
        }
        Ok(())
    }

    /// Commits finished slices, except those that another run did in the meantime. `deletion` names the files whose
    /// rows these slices replace. `info` describes the run in the commit.
    ///
    /// # Errors
    /// If the rows of a slice do not add up, before anything is committed. If the store fails, or
    /// [`delta::OutcomeUnknown`]; shards that a commit may name are never removed.
    pub async fn commit(
        &mut self,
        design: &Design,
        finished: &[Finished],
        deletion: &mut Deletion,
        info: &Value,
    ) -> Result<Committed> {
        finished.iter().try_for_each(sums::check)?;
        let has_rejects = finished.iter().any(|slice| !slice.receipt.rejects.is_empty());
        self.prepare(design, has_rejects).await?;
        if has_rejects {
            let committed = self.commit_rejects(finished, info).await;
            self.note(committed)?;
        }
        let committed = self.commit_slices(finished, deletion, info).await;
        self.note(committed)
    }

    /// Deletes the rows of these files in one commit.
    pub(crate) async fn delete_rows(&mut self, paths: &[&str], info: &Value) -> Result<()> {
        loop {
            let mut deletion = Deletion::new(&self.ledger, paths.iter().copied()).without(&self.missing.shards);
            if deletion.is_empty() {
                return Ok(());
            }
            let committed = self.commit_slices(&[], &mut deletion, info).await;
            // Until the commit succeeds, another run may do slices of these files or delete them.
            if self.note(committed)?.version.is_some() {
                return Ok(());
            }
        }
    }

    /// Commits slices with the deletions that they replace. Without slices, commits only the deletions.
    async fn commit_slices(
        &mut self,
        finished: &[Finished],
        deletion: &mut Deletion,
        info: &Value,
    ) -> Result<Committed> {
        let mut notes = Vec::new();
        loop {
            deletion.find(self.table.as_ref(), self.attempt).await?;
            let Self { table: Some(log), ledger, marks, url, generation, planned, .. } = self else {
                return exec_err!("there is no table to commit to");
            };
            notes.extend(sums::compare(url, &log.state).await?);
            let compared = sums::rows(&log.state);
            let mut lost = Vec::new();
            let mut outdated = false;
            let version = log
                .commit(|state| {
                    check_plan(state, *generation, planned.as_ref(), url)?;
                    ledger.follow(state, *generation);
                    let (kept, found) = sums::rows(state);
                    let is_compared = kept.is_none() || kept == found || (kept, found) == compared;
                    outdated = !is_compared || deletion.is_outdated(state);
                    if outdated {
                        return Ok(vec![]);
                    }
                    let (ours, others): (Vec<_>, Vec<_>) =
                        finished.iter().partition(|finished| is_open(ledger, deletion, finished));
                    lost = others.iter().map(|finished| finished.slice.clone()).collect();
                    if ours.is_empty() && !(finished.is_empty() && deletion.is_due(ledger)) {
                        return Ok(vec![]);
                    }
                    let begun = marks.iter().filter_map(|mark| mark.begin(state).transpose());
                    let mut begun = begun.collect::<Result<Vec<_>>>()?;
                    begun.extend(sampling::transactions(info, *generation));
                    let kept = sums::line(*generation, sums::after(state, &ours, deletion));
                    Ok(lines(&ours, deletion, info, begun, kept))
                })
                .await?;
            if !outdated {
                self.follow();
                return Ok(Committed { version, lost, notes });
            }
        }
    }

    async fn commit_rejects(&mut self, finished: &[Finished], info: &Value) -> Result<()> {
        let Some(rejects) = &mut self.rejects else { return Ok(()) };
        let shards: Vec<&Add> = finished.iter().flat_map(|slice| &slice.receipt.rejects).collect();
        rejects
            .commit(|state| {
                // A killed run may have committed the rejects of staged slices.
                let new = shards.iter().filter(|shard| !state.files.contains_key(&shard.path));
                let adds = new.map(|shard| delta::add(shard)).collect();
                Ok(delta::commit("WRITE", "Append", info.clone(), adds))
            })
            .await?;
        Ok(())
    }

    /// Removes shards of rejects that can never become valid from their table.
    pub(crate) async fn tidy_rejects(&mut self) -> Result<()> {
        let (Some(table), Some(rejects)) = (&mut self.table, &mut self.rejects) else { return Ok(()) };
        rejects.refresh().await?;
        if rejects.state.files.is_empty() {
            return Ok(());
        }
        // This later state includes every slice that was done before these rejects were listed.
        table.refresh().await?;
        let settled = Settled::of(&table.state, generation(&table.state));
        rejects
            .commit(|state| {
                let stale = state.files.values().filter(|shard| settled.standing(shard) == Standing::Stale);
                let removes = stale.map(delta::remove).collect();
                let more = json!({ "rejects": "of attempts that do not count" });
                Ok(delta::commit("DELETE", "Append", more, removes))
            })
            .await?;
        self.follow();
        Ok(())
    }

    /// Records that everything of the read versions of tables is done, so that their logs may be cleaned.
    pub(crate) async fn say_inputs_done(&mut self) -> Result<()> {
        let Self { table: Some(log), attempt, marks, generation: planned, .. } = self else { return Ok(()) };
        log.commit(|state| {
            if generation(state) != *planned {
                return Ok(vec![]);
            }
            let done = marks.iter().filter_map(|mark| mark.done(state)).collect();
            Ok(delta::commit("WRITE", "Append", json!({ "run": attempt.to_string() }), done))
        })
        .await?;
        self.follow();
        Ok(())
    }

    /// The provenance that the creating run stored; None if an earlier asap made the table.
    pub(crate) fn provenance(&self) -> Option<Provenance> {
        decode(&self.table()?.state, PROVENANCE)
    }

    /// Compares the rows in the logs with the sums of the last commit. Returns notes about changes by other programs.
    ///
    /// # Errors
    /// If rows differ that no other program changed.
    pub(crate) async fn compare_sums(&self) -> Result<Vec<String>> {
        let Some(log) = &self.table else { return Ok(vec![]) };
        let rows = sums::compare(&self.url, &log.state).await?;
        let damaged = [Some(log), self.rejects.as_ref()].into_iter().flatten().filter_map(Log::fault);
        Ok(rows.into_iter().chain(damaged).collect())
    }

    /// Checks, before any work, that the store accepts commits and refuses conflicting ones.
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

/// Refuses to change a table whose generation, ID or pipeline is not the planned one.
fn check_plan(state: &LogState, planned: u64, plan: Option<&Plan>, url: &Url) -> Result<()> {
    let (found, table) = (generation(state), location::display(url));
    if found != planned {
        return Err(RunError::Superseded { table, planned, found }.into());
    }
    match plan.is_none_or(|plan| *plan == plan_of(state)) {
        true => Ok(()),
        false => Err(RunError::OtherTable { table }.into()),
    }
}

fn is_open(ledger: &Ledger, deletion: &Deletion, finished: &Finished) -> bool {
    let slice = &finished.slice;
    match ledger.file(&slice.path) {
        _ if let Before::Done(before) = finished.before => ledger.attempt_of(slice) == Some(before),
        None => true,
        Some(held) if held.version == slice.version => !held.overlaps(slice.start, slice.end),
        // The file has another content there: this commit replaces it, or the slice is too late.
        Some(_) => deletion.takes(ledger, &slice.path),
    }
}

/// The lines of a commit of slices; `begun` are its actions for the tables that the slices are the first of, and `kept`
/// is that for the rows of the output.
fn lines(finished: &[&Finished], deletion: &Deletion, info: &Value, begun: Vec<String>, kept: String) -> Vec<String> {
    let mut info = info.clone();
    info["slices"] = finished.iter().map(|finished| json!(SliceRecord::of(finished))).collect();
    let mut counts = Counts::default();
    finished.iter().for_each(|finished| counts.add(&finished.receipt.counts));
    info["counts"] = json!(counts);
    let mut actions = deletion.lines();
    let mode = if actions.is_empty() { "Append" } else { "Overwrite" };
    actions.extend(finished.iter().flat_map(|finished| &finished.receipt.output).map(delta::add));
    let done = |finished: &&Finished| delta::transaction(&finished.slice.to_string(), finished.attempt.done());
    actions.extend(finished.iter().map(done));
    actions.extend(begun);
    if !actions.is_empty() {
        actions.push(kept);
    }
    delta::commit("WRITE", mode, info, actions)
}
