//! The questions of an exam, drawn once.

use std::collections::HashMap;
use std::sync::Arc;

use asap_llm::Llm;
use asap_pipelines::corpus::Corpus;
use asap_pipelines::location;
use asap_pipelines::outputs::status::status;
use asap_pipelines::session::session;
use asap_pipelines::whole_table;
use asap_udfs::Settings;
use datafusion::arrow::compute::concat_batches;
use datafusion::error::DataFusionError;

use super::Request;
use crate::failure::Failure;
use crate::output::{note, several};
use crate::progress::while_opening;

/// Writes the questions to a table in `folder`, unless an earlier exam wrote it, and returns its location. Each question
/// has one chain; rows without an answer and longer chains are skipped.
pub(super) async fn take(from: &str, folder: &str, args: &Request, settings: &Settings) -> Result<String, Failure> {
    let sample = format!("{folder}/questions");
    let url = location::folder(&sample)?;
    // A kill may leave the table without its rows.
    let earlier = whole_table::read(&url).await?.unwrap_or_default();
    if earlier.batches.iter().any(|batch| batch.num_rows() > 0) {
        return Ok(sample);
    }
    // What is no output of a run has no status.
    status(from).await.ok().and_then(|status| status.pruned()).iter().for_each(note);
    let context = session(settings.clone(), &Llm::default())?;
    let state = context.state();
    let corpus = while_opening(&[from.to_string()], Corpus::open(&state, from, None)).await?;
    corpus.notes.iter().for_each(note);
    context.register_table("corpus", Arc::new(corpus.view(&state)?))?;
    let Request { questions, max_tokens, seed, .. } = args;
    let sql = format!(
        "SELECT question, cot, answer FROM (
            SELECT question, cot, answer, row_number() OVER (PARTITION BY question ORDER BY md5(cot)) AS place
            FROM corpus WHERE question IS NOT NULL AND trim(answer) <> '' AND cot_tokens(cot) BETWEEN 1 AND {max_tokens}
        ) WHERE place = 1 ORDER BY md5(concat(question, '{seed}')) LIMIT {questions}"
    );
    let drawn = context.sql(&sql).await?;
    let schema = Arc::new(drawn.schema().as_arrow().clone());
    let rows = concat_batches(&schema, &drawn.collect().await?).map_err(DataFusionError::from)?;
    let drawn = rows.num_rows() as u64;
    if drawn == 0 {
        let why = "no row with a question, an answer and a chain that fits --max-tokens";
        return Err(Failure::Failed(format!("{from} has {why} ({max_tokens})")));
    }
    whole_table::replace(&url, &rows, HashMap::new()).await?;
    if drawn < *questions as u64 {
        note(format!(
            "{from} has {} with an answer and a chain of at most {max_tokens} tokens",
            several(drawn, "question")
        ));
    }
    Ok(sample)
}
