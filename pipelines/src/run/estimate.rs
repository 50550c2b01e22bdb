//! What a run would take, before anything is paid: the part of its plan that asks a language model is executed with rules
//! in the model's place, over the answers that are there already.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use serde::Serialize;

use asap_udfs::llm::{Llm, Usage};
use asap_udfs::plan::asking_part;
use asap_udfs::settings::Provider;

use super::{Job, Observer, Request, output_of, paid_answers, plan_pipeline};
use crate::location;

/// What a run would take. Nothing was asked, paid or written for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The pipeline's name.
    pub pipeline: String,
    /// Where rows would come from.
    pub from: String,
    /// Where rows would go.
    pub to: String,
    /// Rows that are not in the output yet.
    pub rows: u64,
    /// The calls that these rows would take, if the first coarse pruning of each is accepted; requests that are equal or
    /// were paid before are its cache hits. Tokens are the scoring model's, counted on a sample of the requests and
    /// estimated by bytes for the others; those of answers are of what rules answer in the model's place, and for prompts of
    /// `ai_complete` as many as `asap.anchor.max_tokens` allows.
    pub anchor: Usage,
}

/// Estimates what [`run`](super::run) would take for the same request.
///
/// # Errors
/// The same as of a run before it reads any row; failures of stores.
pub async fn estimate(request: Request, observer: &dyn Observer, stop: impl Future<Output = ()>) -> Result<Estimate> {
    let to = output_of(&request)?;
    let llm = Llm::estimate(paid_answers(&request, &to).await?);
    let Job { context, corpus, slices, .. } = Job::open(&request, &to, &llm).await?;
    let rows = slices.iter().map(|slice| slice.rows).sum();
    let estimate = |anchor| Estimate {
        pipeline: request.name.clone(),
        from: request.from.clone(),
        to: location::display(&to),
        rows,
        anchor,
    };
    let pipeline = plan_pipeline(&context, &corpus, &slices, &request.sql).await?;
    let state = context.state();
    let part = asking_part(&state.optimize(&pipeline)?)?;
    let (Some(part), false) = (part, request.settings.anchor_provider == Provider::Extractive) else {
        return Ok(estimate(Usage::default()));
    };
    observer.begin(rows);
    let physical = state.query_planner().create_physical_plan(&part, &state).await?;
    let mut stream = execute_stream(Arc::clone(&physical), context.task_ctx())?;
    tokio::pin!(stop);
    loop {
        let batch = tokio::select! {
            batch = stream.next() => batch,
            () = &mut stop => return exec_err!("interrupted"),
        };
        let Some(batch) = batch.transpose()? else { return Ok(estimate(llm.usage())) };
        observer.advance(batch.num_rows() as u64, 0);
    }
}
