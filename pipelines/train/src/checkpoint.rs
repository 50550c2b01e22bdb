//! Checkpoints: everything that a training needs to resume to the same weights. The manifest, which makes one complete,
//! is written last.

use std::collections::BTreeMap;

use asap_lm::train::Trainer;
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::store::{Folder, Stored};
use super::summary::Learning;
use crate::failure::Failure;
use crate::output::note;

pub(super) const FOLDER: &str = "checkpoints";
const MANIFEST: &str = "manifest.json";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub step: u64,
    pub position: String,
    pub learning: Learning,
    pub epoch_steps: Option<u64>,
    /// The loss on held-out rows: before the first step, and after each finished epoch.
    pub held_out: Vec<f64>,
    pub files: BTreeMap<String, Stored>,
}

fn folder_of(step: u64) -> String {
    format!("{FOLDER}/step-{step}")
}

/// Writes a checkpoint and removes all but the last `kept`.
pub(super) async fn save(out: &Folder, trainer: &Trainer, manifest: &mut Manifest, kept: usize) -> Result<(), Failure> {
    let folder = folder_of(manifest.step);
    let work = out.work()?;
    tokio::task::block_in_place(|| trainer.save(work.path()))?;
    manifest.files = out.put_all(&work, &format!("{folder}/")).await?;
    out.write_json(&format!("{folder}/{MANIFEST}"), manifest).await?;
    let mut steps = steps(out).await?;
    steps.sort_unstable();
    for step in steps.iter().rev().skip(kept.max(1)) {
        out.remove(&folder_of(*step), MANIFEST).await?;
    }
    Ok(())
}

async fn steps(out: &Folder) -> Result<Vec<u64>, Failure> {
    let step = |file: &ObjectMeta| {
        let folder = file.location.as_ref().strip_suffix(MANIFEST)?.trim_end_matches('/').rsplit('/').next()?;
        folder.strip_prefix("step-")?.parse().ok()
    };
    Ok(out.list(FOLDER).await?.iter().filter_map(step).collect())
}

pub(super) async fn newest(out: &Folder) -> Result<Option<Manifest>, Failure> {
    let Some(step) = steps(out).await?.into_iter().max() else { return Ok(None) };
    out.read_json(&format!("{}/{MANIFEST}", folder_of(step))).await
}

/// Fetches and checks the files of a checkpoint, and restores the trainer's state.
pub(super) async fn restore(out: &Folder, manifest: &Manifest, trainer: &mut Trainer) -> Result<(), Failure> {
    let work = out.work()?;
    for (name, stored) in &manifest.files {
        let folder = folder_of(manifest.step);
        let fetched = out.fetch(&format!("{folder}/{name}"), stored, &work.path().join(name)).await;
        fetched.map_err(|error| match error {
            Failure::Failed(why) => Failure::Failed(format!(
                "{why}; remove the checkpoint {}/{folder} to resume from the one before it, or from the beginning",
                out.shown()
            )),
            other => other,
        })?;
    }
    tokio::task::block_in_place(|| trainer.restore(work.path(), manifest.step))?;
    note(format!("resumes after step {} of {}", manifest.step, out.shown()));
    Ok(())
}

pub(crate) async fn remove_all(out: &Folder) -> Result<(), Failure> {
    for step in steps(out).await? {
        out.remove(&folder_of(step), MANIFEST).await?;
    }
    out.remove(FOLDER, MANIFEST).await
}
