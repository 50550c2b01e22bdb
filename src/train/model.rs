//! The trained model: a folder in Hugging Face's layout, complete once `training.json`, its summary, exists.

use asap_lm::decoder::Decoder;
use asap_lm::train::{Example, Measured, measure, write_weights};
use serde_json::Value;

use super::base::Base;
use super::metrics;
use super::plan::Plan;
use super::settings::{self, Settings};
use super::store::Folder;
use super::summary::TrainingSummary;
use crate::failure::Failure;
use crate::output::{count, several};

/// The file that marks a model as complete, with the summary of its training.
pub(crate) const TRAINED: &str = "training.json";

pub(super) async fn trained(out: &Folder) -> Result<Option<TrainingSummary>, Failure> {
    let Some(text) = out.read(TRAINED).await? else { return Ok(None) };
    let trained = serde_json::from_slice(&text).map_err(|error| {
        Failure::Failed(format!("{}: {TRAINED} is from another asap version: {error}", out.shown()))
    })?;
    Ok(Some(trained))
}

/// Writes the weights in the base's dtype, its other files, and a generation config with the learned end token.
/// Measures the stored model on held-out rows.
pub(super) async fn write(
    out: &Folder,
    decoder: Decoder,
    base: &Base,
    end: u32,
    held_out: &[Example],
) -> Result<Option<Measured>, Failure> {
    let work = out.work()?;
    tokio::task::block_in_place(|| write_weights(&decoder.weights, base.precision, work.path()))?;
    // The stored model, loaded below, needs the same memory.
    drop(decoder);
    // Files about the training of the base do not belong to this one.
    let of_trainings = ["README.md", settings::FILE, metrics::LINES, TRAINED];
    for file in base.other_files()? {
        let name = file.file_name().unwrap_or_default();
        if !of_trainings.iter().any(|of_training| name == *of_training) {
            std::fs::copy(&file, work.path().join(name))?;
        }
    }
    let generation = base.generation_config(end)?;
    std::fs::write(work.path().join("generation_config.json"), format!("{generation:#}\n"))?;
    // The stored weights are rounded to the base's dtype.
    let measured = tokio::task::block_in_place(|| match held_out {
        [] => Ok(None),
        rows => measure(&Decoder::load(work.path())?, rows).map(Some),
    })?;
    if let Some(measured) = measured.as_ref().filter(|measured: &&Measured| !measured.surprisal.is_finite()) {
        return Err(Failure::Failed(format!(
            "the model, stored as {:?}, has no finite loss on {} held-out rows: its weights are too large for this \
             dtype; the last checkpoint has them in f32",
            base.precision,
            count(measured.examples as u64)
        )));
    }
    for entry in std::fs::read_dir(work.path())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        out.put(&name, &path).await?;
    }
    Ok(measured)
}

pub(super) async fn finish(
    out: &Folder,
    base: &Base,
    plan: &Plan,
    (settings, summary): (&Settings, &TrainingSummary),
) -> Result<(), Failure> {
    out.write("README.md", card(base, plan, settings, summary)?.into_bytes()).await?;
    let text = serde_json::to_vec_pretty(summary).map_err(|error| Failure::Failed(error.to_string()))?;
    out.write(TRAINED, text).await
}

fn card(base: &Base, plan: &Plan, settings: &Settings, summary: &TrainingSummary) -> Result<String, Failure> {
    let Settings { epochs, step_examples, .. } = settings;
    let data = settings.data();
    let held_out = summary.held_out.as_ref().map_or(String::new(), |held| {
        let rows = count(held.traces as u64);
        format!("\nNats per token on {rows} rows of held-out questions: {}.\n", held.course())
    });
    let mut all = serde_json::to_value(settings).map_err(|error| Failure::Failed(error.to_string()))?;
    all["data"] = data.as_str().into();
    let row = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        format!("| `{name}` | {value} |\n")
    };
    let rows: String = all.as_object().into_iter().flatten().map(row).collect();
    let name = &base.name;
    Ok(format!(
        "{}# {name} trained on {data}\n\n\
         All {} parameters of `{name}` were trained by `asap train` (AdamW, cosine decay) on {} examples of `{data}` (version or \
         fingerprint {}), {}: {} of {step_examples} examples. The loss of the last epoch is {:.3} nats per token \
         to learn.\n{held_out}\n| setting | |\n|---|---|\n{rows}\n`metrics.jsonl` holds every step.\n",
        base.front_matter(),
        count(plan.parameters),
        count(summary.traces),
        summary.version,
        several(*epochs, "epoch"),
        several(summary.learning.steps, "step"),
        summary.learning.loss,
    ))
}
