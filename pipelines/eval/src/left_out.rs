//! The problems that an evaluation left out, because their reference programs failed on its machine. Evaluations that are
//! compared leave out the same problems, so that their figures have one denominator.

use std::collections::{BTreeMap, BTreeSet};

use asap_pipelines::answers::of_output;
use asap_pipelines::location::Folder;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use object_store::{Error, ObjectStoreExt};
use url::Url;

use super::Evaluation;
use super::row::Graded;
use crate::output::{count, several};
use crate::terminal::one_line;

const FILE: &str = "problems.json";

fn open(url: &Url) -> Result<Folder> {
    let folder = of_output(url)?.join("../left_out/").map_err(|error| DataFusionError::External(Box::new(error)))?;
    Folder::open(&folder)
}

/// Stores the ids with the evaluation at `url`.
pub(crate) async fn save(url: &Url, ids: &BTreeSet<String>) -> Result<()> {
    let (folder, text) = (open(url)?, serde_json::to_vec(ids).map_err(|error| exec_datafusion_err!("{error}"))?);
    folder.store.put(&FILE.into(), text.into()).await?;
    Ok(())
}

/// Returns the ids of the evaluation at `url`.
pub(crate) async fn load(url: &Url) -> Result<BTreeSet<String>> {
    let folder = open(url)?;
    let found = match folder.store.get(&FILE.into()).await {
        Err(Error::NotFound { .. }) => return Ok(BTreeSet::new()),
        found => found?.bytes().await?,
    };
    let damaged = |error| exec_datafusion_err!("{}{FILE} is no list of problems: {error}", folder.shown);
    serde_json::from_slice(&found).map_err(damaged)
}

/// Takes the problems that one evaluation of a benchmark left out from all of them. Returns a sentence for each benchmark.
pub(crate) fn from_all<'a>(evaluations: impl IntoIterator<Item = &'a mut Evaluation>) -> Vec<String> {
    let mut of_bench: BTreeMap<String, Vec<&mut Evaluation>> = BTreeMap::new();
    for evaluation in evaluations {
        if let Some(row) = evaluation.rows.first() {
            of_bench.entry(row.bench.clone()).or_default().push(evaluation);
        }
    }
    let mut sentences = Vec::new();
    for (bench, evaluations) in &mut of_bench {
        let ids: BTreeSet<String> = evaluations.iter().flat_map(|evaluation| evaluation.left_out.clone()).collect();
        for evaluation in evaluations {
            evaluation.rows.retain(|row| !ids.contains(&row.id));
        }
        if !ids.is_empty() {
            let (problems, ids) = (
                several(ids.len() as u64, "problem"),
                ids.iter().map(|id| one_line(id)).collect::<Vec<_>>().join(", "),
            );
            sentences.push(format!(
                "{bench}: {problems} left out of all evaluations, because a reference program failed in one of them: {ids}."
            ));
        }
    }
    sentences
}

/// Takes the problems to which an evaluation has no response from all evaluations of a benchmark at a budget.
pub(crate) fn without_response(bench: &str, budget: i64, rows: &mut [&mut Vec<&Graded>]) -> Option<String> {
    let ids = |rows: &[&Graded], with: bool| -> BTreeSet<String> {
        rows.iter().filter(|row| !with || row.correct.is_some()).map(|row| row.id.clone()).collect()
    };
    let lack: BTreeSet<String> = rows.iter().flat_map(|rows| &ids(rows, false) - &ids(rows, true)).collect();
    for rows in rows {
        rows.retain(|row| !lack.contains(&row.id));
    }
    let (problems, budget) = (several(lack.len() as u64, "problem"), count(budget.unsigned_abs()));
    (!lack.is_empty()).then(|| {
        format!("{bench} at {budget}: {problems} left out of all methods, because one of them lacks a response.")
    })
}
