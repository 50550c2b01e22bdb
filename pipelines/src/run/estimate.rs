//! What a run would take, before anything is paid: the part of its plan that asks a language model or reads by the scoring
//! model is executed, over the answers that are there already, with rules in the place of the one and a count in that of the
//! other.

use datafusion::common::{Result, exec_err};
use futures::StreamExt;
use serde::Serialize;

use asap_udfs::llm::Usage;
use asap_udfs::plan::{asked, calling_part};

use super::job::{Effort, Job, read_slices};
use super::{Observer, Request};
use crate::location;

/// What a run would take. Nothing was asked, paid or written for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The pipeline's name.
    pub pipeline: String,
    /// Where rows would come from.
    pub from: Vec<String>,
    /// Where rows would go.
    pub to: String,
    /// Rows that are not in the output yet.
    pub rows: u64,
    /// The calls that these rows would take, if the first coarse pruning of each is accepted; requests that are equal or
    /// were paid before are its cache hits. Tokens are the scoring model's, counted on a sample of the requests and
    /// estimated by bytes for the others; those of answers are of what rules answer in the model's place, and for prompts of
    /// `ai_complete` as many as `asap.anchor.max_tokens` allows.
    pub anchor: Usage,
    /// Tokens that the scoring model would read. Where a language model prunes before it, or steps go one by one by what is
    /// left, they are about so many: rules prune in its place, and all scores are equal.
    pub scored_tokens: u64,
    /// Whether they are about so many, and not exactly.
    pub scored_is_estimate: bool,
}

/// Estimates what [`run`](super::run) would take for the same request.
///
/// # Errors
/// The same as of a run before it reads any row; failures of stores.
pub async fn estimate(request: Request, observer: &dyn Observer, stop: impl Future<Output = ()>) -> Result<Estimate> {
    let job = Job::open(&request, Effort::Estimate).await?;
    let rows = job.slices.iter().map(|slice| slice.slice.rows()).sum();
    let pipeline = job.pipeline(&request).await?;
    let reads_by_scores = asked(&pipeline)?.reads_by_scores;
    let estimate = |anchor: Usage, scored_tokens| Estimate {
        pipeline: request.name.clone(),
        from: request.from.clone(),
        to: location::display(job.output.url()),
        rows,
        scored_is_estimate: reads_by_scores || anchor.calls > 0,
        anchor,
        scored_tokens,
    };
    let state = job.context.state();
    let mut slices = job.slices.as_slice();
    tokio::pin!(stop);
    observer.begin(rows, 1);
    while let Some(first) = slices.first() {
        let (same, others) = slices.split_at(slices.partition_point(|slice| slice.group <= first.group));
        slices = others;
        let part = calling_part(&state.optimize(&job.over_group(&pipeline, first.group)?)?)?;
        let Some(part) = part else { break };
        let template = state.query_planner().create_physical_plan(&part, &state).await?;
        for slice in same {
            let plan = read_slices(&template, std::slice::from_ref(slice))?;
            let mut stream = plan.execute(0, job.context.task_ctx())?;
            while let Some(batch) = tokio::select! {
                batch = stream.next() => batch,
                () = &mut stop => return exec_err!("interrupted"),
            } {
                observer.advance(batch?.num_rows() as u64, 0);
            }
        }
    }
    Ok(estimate(job.llm.usage(), job.models.counted()))
}
