//! A run before its first row: the existing tables, the open slices, and how to read them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use asap_kernels::front_end::Flag;
use datafusion::common::{DataFusionError, Result, config_err, exec_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use object_store::ObjectStore;
use serde_json::json;
use url::Url;

use asap_llm::Llm;
use asap_udfs::plan::used_models;
use asap_udfs::{Models, scorers};

use super::output::Output;
use super::progress::Progress;
use super::request::{OnChange, OnSchemaChange, Originals, Request};
use super::request_checks::{check_sql, locations, planned};
use super::slice_rows::of_cost;
use super::summary::Summary;
use super::{plan, retry, unusual};
use crate::corpus::{self, CORPUS, Corpus, CorpusFile, Fit, Source};
use crate::delta::store_of;
use crate::passed_on::passed_on;
use crate::pipeline_session::pipeline_session;
use crate::run::content_hashes::Contents;
use crate::run::delta_inputs::{Gone, Inputs, Pins};
use crate::run::input_files::{self, Slices, Wanted};
use crate::run::ledger::{Ledger, OpenSlice, RetriedSlice};
use crate::run::output::finished_slice::Finished;
use crate::run::output::identity::Identity;
use crate::run::output::outcomes::Division;
use crate::run::output::provenance::Provenance;
use crate::run::output::table_properties::{Design, HeldOriginals, slice_rows};
use crate::run::output::write_shards::Writing;
use crate::run::sample::Sample;
use crate::{answers, builtin, location};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Run,
    /// Estimate only: models count what they would read, and are not called.
    Estimate,
}

pub struct Job {
    pub context: SessionContext,
    /// The language model, with the answers that were paid for this output.
    pub llm: Llm,
    pub models: Models,
    pub output: Output,
    /// Whether to rebuild the output in a new table generation.
    pub new_generation: bool,
    /// The result so far, which collects notes, failures and what is left.
    pub summary: Summary,
    /// The slices that this run does.
    pub slices: Vec<OpenSlice>,
    /// Slices that earlier runs wrote but did not commit.
    pub staged: Vec<Finished>,
    /// Files whose rows must be deleted from the output.
    pub gone: Vec<Gone>,
    /// Whether partly done files are missing from the input.
    pub lacks_half_done_files: bool,
    pub(super) corpus: Corpus,
    pipeline: Option<LogicalPlan>,
    slice_rows: u64,
    sample: Option<Sample>,
    identity: Identity,
    contents: Contents,
}

/// An output, and the session that fills it.
struct Opened {
    context: SessionContext,
    llm: Llm,
    models: Models,
    output: Output,
    new_generation: bool,
    summary: Summary,
    /// What the output has; after [`Self::list`] without the rows that it lost.
    ledger: Ledger,
    identity: Identity,
    contents: Contents,
}

/// The files of an input, before they are read.
struct Listed {
    files: Vec<CorpusFile>,
    /// Rejected rows to retry.
    again: Vec<RetriedSlice>,
    gone: Vec<Gone>,
    lacks_half_done_files: bool,
}

const PARTITION_BY: Flag<'_> = Flag("--partition-by");

/// Runs that fill one output at the same time start at different slices and skip those that others have committed. With
/// a local output they claim each call instead.
fn starts_anywhere(request: &Request, output: &Output) -> bool {
    let is_asked = request.settings.anchor_provider.is_endpoint();
    is_asked && output.url.scheme() != "file" && request.part.is_none()
}

fn lost_of_tables(output: &Output, on_change: OnChange) -> Result<bool> {
    let is_of_table = |path: &&String| {
        output.ledger.file(path).is_some_and(|held| held.version.fingerprint.starts_with(corpus::FINGERPRINT))
    };
    let Some(path) = output.missing.files.iter().find(is_of_table) else { return Ok(false) };
    if on_change == OnChange::Reprocess {
        return Ok(true);
    }
    exec_err!(
        "{} shards of {} are missing or damaged; they had rows of {path}, a file of a Delta table: {} deletes the \
         remaining rows of the affected files and processes the files again",
        output.missing.shards.len(),
        location::display(&output.url),
        Flag("--on-change reprocess")
    )
}

fn check_partition_by(output: &Output, request: &Request) -> Result<()> {
    let asked = &request.partition_by;
    if let Some(twice) = asked.iter().enumerate().find(|(index, name)| asked[..*index].contains(name)) {
        return config_err!("{PARTITION_BY} names {} twice", twice.1);
    }
    match output.partition_by() {
        Some(held) if !asked.is_empty() && held != asked.as_slice() => config_err!(
            "{PARTITION_BY} is {}, but the output is partitioned by {}: choose another output, or use {}",
            asked.join(","),
            if held.is_empty() { "nothing".to_string() } else { held.join(",") },
            Flag("--new-generation")
        ),
        _ => Ok(()),
    }
}

impl Opened {
    async fn new(request: &mut Request, to: &Url, effort: Effort) -> Result<Self> {
        let output = Output::open(to.clone()).await?;
        let held = output.identity().filter(|_| !request.new_generation);
        scorers::settle(&mut request.settings, held.as_ref().map(Identity::parts));
        let paid = answers::paid(to, &request.settings).await?;
        let (llm, models) = match effort {
            Effort::Run => (Llm::new(paid), Models::default()),
            Effort::Estimate => (Llm::estimate(paid), Models::counting()),
        };
        let context = pipeline_session(request.settings.clone(), &llm, &models)?;
        // Each partition of the plan must stay one slice.
        context.state_ref().write().config_mut().options_mut().execution.target_partitions = 1;
        let mut contents = Contents::load(store_of(&output.asap_folder)?.as_ref()).await;
        let identity = Identity::of(
            &request.sql,
            request.columns.as_ref(),
            &request.originals,
            request.sample,
            &request.settings,
            &mut contents,
        )?;
        let new_generation = request.new_generation && output.table().is_some();
        let ledger = match new_generation {
            true => Ledger::of_generation(output.ledger.generation + 1),
            false => output.ledger.clone(),
        };
        let summary = Summary {
            notes: unusual::named_like_a_file(request, &output).into_iter().collect(),
            pipeline: request.name.clone(),
            from: request.from.clone(),
            to: location::display(to),
            table_version: output.table().map(|log| log.state.version),
            has_budget: request.sql.contains(builtin::BUDGET),
            began_empty: new_generation || output.ledger.rows == 0,
            ..Summary::default()
        };
        Ok(Self { context, llm, models, output, new_generation, summary, ledger, identity, contents })
    }

    async fn list(&mut self, request: &Request, sources: &[Source]) -> Result<Listed> {
        let Self { context, output, new_generation, ledger, identity, contents, summary, .. } = self;
        let notes = &mut summary.notes;
        let state = context.state();
        let pins = Pins::of(output.table().map(|log| &log.state), ledger.generation);
        // A missing input is reported first: another output would not help.
        let listed = corpus::list(&state, sources, |source| pins.since(source)).await;
        let listed = listed.map_err(|error| error.context(CORPUS))?;
        if !*new_generation {
            if let Err(differs) = output.check_identity(identity) {
                // A missing model differs from the one that filled the output, and another output would not help.
                output.identity().map_or(Ok(()), |held| held.check_models(&request.settings))?;
                return Err(differs);
            }
            notes.extend(output.compare_sums().await?);
            check_partition_by(output, request)?;
            output.find_missing().await?.files.iter().for_each(|path| ledger.forget(path));
        }
        let (mut files, tables) = (listed.files, listed.tables);
        notes.extend(listed.notes);
        let mut again = match &request.retry_rejects {
            Some(statuses) if !*new_generation => retry::find(output, statuses, &request.sql).await?,
            _ => vec![],
        };
        again.retain(|again| ledger.file(&again.slice.path).is_some());
        notes.extend(unusual::without_rejects(request, &again));
        let lacks = lost_of_tables(output, request.on_change)?;
        let inputs = Inputs::read(&tables, sources, &pins, ledger, &again, request.on_change, lacks).await?;
        files.extend(inputs.files);
        corpus::check_paths(&mut files)?;
        notes.extend(input_files::keep_old_names(&mut files, ledger, contents, &state).await);
        let began = tables.iter().filter(|_| summary.began_empty);
        notes.extend(began.filter_map(|table| unusual::pruned_input(request, table)));
        notes.extend(
            sources
                .iter()
                .filter(|_| summary.began_empty)
                .filter_map(|source| unusual::exported_input(request, source)),
        );
        notes.extend(tables.is_empty().then(|| unusual::other_input(output, ledger, &files, request)).flatten());
        output.marks = inputs.marks;
        let here: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let half_done = input_files::half_done_and_gone(ledger, &here, request.limit.is_some());
        let lacks_half_done_files = half_done.is_some();
        notes.extend(half_done);
        let (retried, lost): (Vec<_>, Vec<_>) =
            again.iter().partition(|again| here.contains(again.slice.path.as_str()));
        notes.extend(unusual::retried(&retried));
        notes.extend(lost.iter().map(|again| {
            format!(
                "cannot retry the rejects of {} ({}): the input no longer contains the file",
                again.slice.path,
                again.rows.len()
            )
        }));
        summary.files_failed.extend(inputs.failures);
        summary.files_ignored.extend(inputs.ignored);
        Ok(Listed { files, again, gone: inputs.gone, lacks_half_done_files })
    }

    async fn divide(self, request: &Request, listed: Listed) -> Result<Job> {
        let Listed { files, again, mut gone, lacks_half_done_files } = listed;
        let Self { context, llm, models, output, new_generation, mut summary, ledger, identity, mut contents } = self;
        let mut divided = input_files::divide(files, &ledger, &again, &mut contents, request.on_change)?;
        let HeldOriginals { held, left_out } =
            if new_generation { HeldOriginals::default() } else { output.originals()? };
        let may_grow = request.on_schema_change == OnSchemaChange::Add || output.table().is_none() || new_generation;
        let fit = Fit::Table { held: &held, left_out: &left_out, may_grow };
        let open = std::mem::take(&mut divided.open);
        let mut corpus = Corpus::recognize(&context.state(), open, request.columns.as_ref(), fit).await?;
        corpus.set_batch_rows(&context);
        let held = output.table().filter(|_| !new_generation).and_then(|log| slice_rows(&log.state));
        let (slice_rows, pipeline) = match request.slice_rows.or(held) {
            Some(rows) => (rows, None),
            None => {
                let planned = planned(&context, &corpus, request).await?;
                (of_cost(used_models(&planned)?, &request.settings, &corpus), Some(planned))
            }
        };
        let staged = input_files::staged(&corpus, &divided, &ledger, &output, request).await?;
        let held = output.sample().filter(|_| !new_generation);
        let sample = request.sample.map(|(rows, seed)| held.unwrap_or_else(|| Sample::choose(rows, seed, &corpus)));
        summary.sample =
            sample.as_ref().map(|Sample { rows, of, seed, .. }| json!({ "rows": rows, "of": of, "seed": seed }));
        let wanted = Wanted { request, slice_rows, sample: sample.as_ref() };
        let Slices { open: mut slices, left, beyond } =
            input_files::slices(&corpus, &divided, &ledger, &again, wanted, &staged);
        if starts_anywhere(request, &output) {
            let first = output.attempt.spread(slices.len());
            slices.rotate_left(first);
        }
        gone.extend([input_files::lost(&output.missing), input_files::emptied(&corpus, &divided)].concat());
        // Failures of listed files come before those of tables.
        summary.files_failed.splice(0..0, divided.failures);
        summary.files_ignored.splice(0..0, divided.ignored);
        summary.files_failed.append(&mut corpus.failures);
        summary.notes.append(&mut corpus.notes);
        (summary.slices_left, summary.rows_beyond_limit) = (left, beyond);
        let is_hopeless = slices.is_empty() && (output.table().is_none() || new_generation);
        if let (true, Some(first)) = (is_hopeless, summary.files_failed.first()) {
            return Err(DataFusionError::from(first.clone()).context(CORPUS));
        }
        if new_generation && corpus.groups() == 0 {
            return exec_err!(
                "{} would leave {} empty, since the input has no files: choose another input",
                Flag("--new-generation"),
                location::display(&output.url)
            );
        }
        Ok(Job {
            context,
            llm,
            models,
            output,
            new_generation,
            summary,
            slices,
            staged,
            gone,
            lacks_half_done_files,
            corpus,
            pipeline,
            slice_rows,
            sample,
            identity,
            contents,
        })
    }
}

impl Job {
    /// Opens input and output, and finds the open slices. The request's settings get the backend of the scoring model.
    ///
    /// # Errors
    /// If a setting, location or pipeline is wrong, if the table is of another pipeline, or if a store fails. Files that
    /// cannot be read are in [`Self::summary`]; if there is nothing else to do, the first of them is the error.
    pub async fn open(request: &mut Request, effort: Effort) -> Result<Self> {
        let (sources, to) = locations(request)?;
        check_sql(&request.sql)?;
        let mut opened = Opened::new(request, &to, effort).await?;
        let listed = opened.list(request, &sources).await?;
        opened.divide(request, listed).await
    }

    pub async fn pipeline(&self, request: &Request) -> Result<LogicalPlan> {
        match &self.pipeline {
            Some(planned) => Ok(planned.clone()),
            None => planned(&self.context, &self.corpus, request).await,
        }
    }

    pub(crate) fn over_group(&self, pipeline: &LogicalPlan, group: usize) -> Result<LogicalPlan> {
        let files = self.corpus.view_of_slices(&self.context.state(), group)?;
        plan::over_files(pipeline.clone(), &files, &self.corpus.original_columns())
    }

    /// The pipeline as a physical plan over the files of a group; slices are inserted later.
    pub async fn template(&self, pipeline: &LogicalPlan, group: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.over_group(pipeline, group)?;
        self.context.execute_logical_plan(plan).await?.create_physical_plan().await
    }

    /// The design of the tables, and how rows are written to them.
    pub(crate) fn writing(
        &mut self,
        pipeline: &LogicalPlan,
        template: &dyn ExecutionPlan,
        request: &Request,
    ) -> Result<Writing> {
        let (held_output, held_rejects) = self.output.schemas()?;
        let held_output = held_output.filter(|_| !self.new_generation);
        let schema = template.schema();
        let originals = self.kept_originals(pipeline, &request.originals)?;
        let rows = Division::new(&schema, &originals, held_output.as_ref(), held_rejects.as_ref())?;
        self.summary.notes.extend(plan::without_status(&schema));
        self.summary.notes.extend(self.corpus.delta_notes());
        let partition_by = match self.output.partition_by().filter(|_| !self.new_generation) {
            Some(held) => held.to_vec(),
            None => request.partition_by.clone(),
        };
        if let Some(missing) = partition_by.iter().find(|name| rows.output.field_with_name(name).is_err()) {
            let names: Vec<&str> = rows.output.fields().iter().map(|field| field.name().as_str()).collect();
            return config_err!(
                "{PARTITION_BY} names {missing}, but the columns of the output are {}",
                names.join(", ")
            );
        }
        let (identity, provenance) = (self.identity.clone(), Provenance::of(request, used_models(pipeline)?));
        self.summary.notes.extend(provenance.warning());
        self.summary.anchored_by.clone_from(&provenance.anchored_by);
        self.summary.scored_by.clone_from(&provenance.scored_by);
        Ok(Writing {
            output: self.output.url.clone(),
            rejects: self.output.rejects_url()?,
            attempt: self.output.attempt,
            shard_bytes: request.shard_bytes,
            settings: request.settings.clone(),
            design: Design {
                rows,
                partition_by,
                identity,
                provenance,
                slice_rows: self.slice_rows,
                sample: self.sample.clone(),
            },
            progress: Progress::default(),
            stopping: Arc::default(),
        })
    }

    fn kept_originals(&mut self, pipeline: &LogicalPlan, asked: &Originals) -> Result<Vec<(String, bool)>> {
        let names = self.corpus.original_names();
        let known = if self.new_generation { HeldOriginals::default() } else { self.output.originals()? };
        let is_held = |name: &String| known.held.iter().any(|field| field.name() == name);
        if let Originals::Named(asked) = asked
            && let Some(missing) = asked.iter().find(|asked| !names.contains(asked))
        {
            let (flag, names) = (Flag("--originals"), names.join(", "));
            return config_err!("{flag} names {missing}, but the columns of the input are {names}");
        }
        let fields = pipeline.schema().fields().iter();
        let passed: HashSet<String> = fields.filter_map(|field| passed_on(pipeline, field.name(), &[])).collect();
        let is_elsewhere = |name: &String| {
            self.corpus.said_by(name).is_some_and(|columns| columns.iter().all(|column| passed.contains(*column)))
        };
        let is_left_out = |name: &String| known.left_out.contains(name);
        let is_kept = |name: &String| match asked {
            Originals::Needed => !is_elsewhere(name),
            Originals::All => true,
            Originals::None => false,
            Originals::Named(asked) => asked.contains(name),
        };
        let kept: Vec<(String, bool)> = names
            .into_iter()
            .map(|name| (name.clone(), is_held(&name) || !is_left_out(&name) && is_kept(&name)))
            .collect();
        let is_lost = |name: &String| is_left_out(name) && !is_elsewhere(name);
        let lost = kept.iter().filter(|(name, is_kept)| !is_kept && is_lost(name));
        let lost: Vec<&str> = lost.map(|(name, _)| name.as_str()).collect();
        if *asked == Originals::Needed && !lost.is_empty() {
            self.summary.notes.push(format!(
                "the output has no column for {}: in its first files, other columns held the same, but not in these. To \
                 keep the values, use another output or {}",
                lost.join(", "),
                Flag("--new-generation")
            ));
        }
        Ok(kept)
    }

    /// Deletes the rows of [`Self::gone`] files. Returns whether there are any.
    pub(crate) async fn take_gone_back(&mut self, request: &Request) -> Result<bool> {
        let info = json!({ "run": self.output.attempt.to_string(), "pipeline": request.name });
        let paths: Vec<&str> = self.gone.iter().map(|gone| gone.path.as_str()).collect();
        self.output.delete_rows(&paths, &info).await?;
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Gone { path, why } in &self.gone {
            by_reason.entry(why).or_default().push(path);
        }
        for (why, paths) in by_reason {
            let files = match paths.as_slice() {
                [path] => path.to_string(),
                [path, other] => format!("{path} and {other}"),
                paths => format!("{} and {} other files", paths[0], paths.len() - 1),
            };
            self.summary.notes.push(format!("the rows of {files} are deleted from the output: {why}"));
        }
        Ok(!self.gone.is_empty())
    }

    /// Saves the content hashes of files, if there is an output to save them next to.
    pub async fn remember(&self) -> Result<()> {
        if self.output.table().is_none() {
            return Ok(());
        }
        let asap_folder: Arc<dyn ObjectStore> = store_of(&self.output.asap_folder)?;
        self.contents.save(asap_folder.as_ref()).await;
        Ok(())
    }
}
