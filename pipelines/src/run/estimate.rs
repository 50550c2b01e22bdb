//! Estimates the cost of a run before anything is paid. It executes the part of the plan that calls a model, over the
//! stored answers. Rules replace the language model, and token counts replace the scoring model and the encoder.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::Serialize;
use serde_json::Value;

use asap_kernels::front_end::Setting;
use asap_llm::Usage;
use asap_udfs::plan::{calling_part, used_models};
use asap_udfs::scorers::Place;

use super::job::{Effort, Job};
use super::work::read_slice;
use super::{Observer, Request, Summary, unusual};
use crate::builtin;
use crate::conversations::first_statuses;
use crate::run::ledger::OpenSlice;

/// The cost of a run. The estimate calls no model, pays nothing and writes nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimate {
    pub pipeline: String,
    pub from: Vec<String>,
    pub to: String,
    /// As in [`Summary`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Value>,
    /// Rows that are not in the output yet.
    pub rows: u64,
    /// Those of them that the run rejects because of what it reads, by status. Models may reject more. Empty if the pipeline
    /// calls no model, or chooses rows.
    pub rejects: BTreeMap<String, u64>,
    /// The calls for these rows, if the first coarse pruning of each is accepted. Equal or already paid requests are
    /// cache hits. Tokens are those of the scoring model's tokenizer: counted on a sample of the requests, and
    /// estimated from bytes for the others. Answer tokens are those of the rules that replace the model. For prompts of
    /// `ai_complete` they are the maximum, `asap.anchor.max_tokens`.
    pub anchor: Usage,
    /// Tokens that the scoring model would read. This is approximate if a language model prunes first, since rules
    /// replace it here. It is also approximate if scores are computed again after each removed step, since all scores
    /// are equal here.
    pub scored_tokens: u64,
    /// Those of `scored_tokens` that the model would write, at most.
    pub written_tokens: u64,
    /// Whether `scored_tokens` is approximate.
    pub scored_is_estimate: bool,
    /// Tokens that the encoder of `asap.compressor.model` would read.
    pub encoder_tokens: u64,
    /// Rows of the output that a new table generation would delete first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_deleted: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where the scoring model would run; None if the pipeline has no scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scorer: Option<Place>,
    /// Where the encoder would run; None if the pipeline compresses nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<Place>,
}

/// Estimates the cost of [`run`](super::run) for the same request.
///
/// # Errors
/// As a run does before it reads any row, or if a store fails.
pub async fn estimate(
    mut request: Request,
    observer: &dyn Observer,
    stop: impl Future<Output = ()>,
) -> Result<Estimate> {
    let job = Job::open(&mut request, Effort::Estimate).await?;
    let rows = job.slices.iter().map(|slice| slice.slice.rows()).sum();
    let pipeline = job.pipeline(&request).await?;
    let used = used_models(&pipeline)?;
    let state = job.context.state();
    let mut slices = job.slices.as_slice();
    let mut rejects = BTreeMap::new();
    let keeps_rows = keeps_rows(&request.name, &pipeline)?;
    tokio::pin!(stop);
    observer.begin(rows, 1);
    while let Some(first) = slices.first() {
        let (same, others) = slices.split_at(slices.partition_point(|slice| slice.group <= first.group));
        slices = others;
        let Some(part) = calling_part(&state.optimize(&job.over_group(&pipeline, first.group)?)?)? else { continue };
        let calling = state.query_planner().create_physical_plan(&part, &state).await?;
        let statuses = first_statuses(job.corpus.view_of_slices(&state, first.group)?, &pipeline)?;
        let statuses = state.create_physical_plan(&statuses).await?;
        for slice in same {
            read(&job, &calling, slice, &mut stop, |batch| observer.advance(batch.num_rows() as u64, 0)).await?;
            let count = |batch: RecordBatch| {
                for status in batch.column(0).as_string::<i32>().iter().flatten() {
                    *rejects.entry(status.to_string()).or_default() += 1;
                }
            };
            if keeps_rows {
                read(&job, &statuses, slice, &mut stop, count).await?;
            }
        }
    }
    let shards = job.output.table().filter(|_| job.new_generation).map(|log| log.state.files.values());
    let rows_deleted = shards.map(|shards| shards.filter_map(|shard| shard.rows()).sum());
    let anchor = job.llm.usage();
    let unusual = notes(&request, &pipeline, &anchor);
    let Summary { pipeline, from, to, sample, mut notes, .. } = job.summary;
    notes.extend(unusual);
    Ok(Estimate {
        pipeline,
        from,
        to,
        sample,
        rows,
        rejects,
        rows_deleted,
        notes,
        anchor,
        scored_tokens: job.models.counted(),
        written_tokens: job.models.counted_written(),
        scored_is_estimate: used.reads_by_scores || anchor.calls > 0,
        encoder_tokens: job.models.counted_of_encoder(),
        scorer: used.scorer.then(|| Place::of_scorer_here(&request.settings)),
        encoder: used.encoder.then(|| Place::of_encoder_here(&request.settings)),
    })
}

/// Notes on a run that would prune nothing, or end at its limit.
fn notes(request: &Request, pipeline: &LogicalPlan, anchor: &Usage) -> Vec<String> {
    let most = request.settings.anchor_max_cost.as_ref().map(|most| most.0).filter(|most| anchor.cost > *most);
    let over = most.map(|most| {
        format!(
            "the run would end before its last row: the estimated cost, {:.4}, is above {} = {most}",
            anchor.cost,
            Setting("asap.anchor.max_cost")
        )
    });
    unusual::prunes_nothing(request, pipeline).into_iter().chain(over).collect()
}

/// Whether a row of the corpus with a status is a row of the output with it.
fn keeps_rows(name: &str, pipeline: &LogicalPlan) -> Result<bool> {
    let has_status = pipeline.schema().has_column_with_unqualified_name("status");
    let chooses = builtin::chooses(name) || pipeline.exists(|node| Ok(matches!(node, LogicalPlan::Filter(_))))?;
    Ok(has_status && !chooses)
}

/// Executes a plan over a slice.
async fn read(
    job: &Job,
    template: &Arc<dyn ExecutionPlan>,
    slice: &OpenSlice,
    stop: &mut (impl Future<Output = ()> + Unpin),
    mut each: impl FnMut(RecordBatch),
) -> Result<()> {
    let mut batches = read_slice(template, slice)?.execute(0, job.context.task_ctx())?;
    while let Some(batch) = tokio::select! {
        batch = batches.next() => batch,
        () = &mut *stop => return exec_err!("interrupted"),
    } {
        each(batch?);
    }
    Ok(())
}
