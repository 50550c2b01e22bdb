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
pub(crate) use asap_lm::TRAINING_ENDED as TRAINED;

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
        let (precision, rows) = (base.precision, count(measured.examples as u64));
        return Err(Failure::Failed(format!(
            "the model, stored as {precision:?}, has no finite loss on {rows} held-out rows: its weights are too large \
             for this dtype; the last checkpoint has them in f32"
        )));
    }
    out.put_all(&work, "").await?;
    Ok(measured)
}

pub(super) fn card(
    base: &Base,
    plan: &Plan,
    settings: &Settings,
    summary: &TrainingSummary,
) -> Result<String, Failure> {
    let (name, data) = (&base.name, settings.data());
    let held_out = summary.held_out.as_ref().map_or(String::new(), |held| {
        let rows = count(held.traces as u64);
        format!("\nNats per token on {rows} rows of held-out questions: {}.\n", held.course())
    });
    let mut all = serde_json::to_value(settings)?;
    all["data"] = data.as_str().into();
    let row = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        format!("| `{name}` | {value} |\n")
    };
    let rows: String = all.as_object().into_iter().flatten().map(row).collect();
    let ([parameters, traces], version) = ([plan.parameters, summary.traces].map(count), summary.version);
    let epochs = several(settings.epochs, "epoch");
    let (steps, examples) = (several(summary.learning.steps, "step"), settings.step_examples);
    Ok(format!(
        "{}# {name} trained on {data}\n\n\
         All {parameters} parameters of `{name}` were trained by `asap train` (AdamW, cosine decay) on {traces} examples of \
         `{data}` (version or fingerprint {version}), {epochs}: {steps} of {examples} examples. The loss of the last epoch \
         is {:.3} nats per token to learn.\n{held_out}\n| setting | |\n|---|---|\n{rows}\n`metrics.jsonl` holds every \
         step.\n",
        base.front_matter(),
        summary.learning.loss,
    ))
}
