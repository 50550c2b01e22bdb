//! `asap train`: fine-tunes all parameters of a model on the rows of a corpus, or trains a new model from a config.

use std::path::PathBuf;

use asap_lm::example::Long;
use asap_lm::train::Keep;
use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::feed::Loss;
use asap_train::{Request, StepSettings, fraction};
use clap::Args;

use crate::config;
use crate::failure::Failure;
use crate::output::{SummaryFormat, at_least_one, parsed};

/// Fine-tune all parameters of a model on a corpus, or train a new model from a config
///
/// Run the same command again to resume from the last checkpoint, even after a kill. The final weights are the same as
/// without the interruption. If you change --pass-tokens, the training resumes too, but the weights may differ in their
/// last bits.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("base").required(true).args(["model", "init"]),
    after_help = "\
Examples:
  asap train --model Qwen/Qwen2.5-0.5B --data out/pruned --out out/model --epochs 3
  asap train --init config.json --data data/sample --out out/model --learning-rate 3e-3 --epochs 4
  asap train --model models/base --data s3://lake/pruned --out s3://lake/model --held-out 0.02 --checkpoint-every 100"
)]
pub struct TrainArgs {
    /// Start from this model: a folder in Hugging Face's layout, or org/name on the Hub
    #[arg(long, value_name = "DIR")]
    model: Option<String>,
    /// Train a new model with this config in Hugging Face's format. Its dtype sets how weights are stored
    #[arg(long, value_name = "CONFIG.JSON")]
    init: Option<PathBuf>,
    /// Train on a Delta table, or a folder or file of Parquet or JSON lines (asap inspect shows how asap reads them)
    #[arg(long, value_name = "LOC")]
    data: String,
    /// Name the question, cot and answer columns if asap cannot recognize them
    #[arg(long, value_name = "question=…,cot=…,answer=…", value_parser = parsed::<ColumnMapping>)]
    columns: Option<ColumnMapping>,
    /// Write the trained model and its checkpoints to this folder
    #[arg(long, value_name = "LOC")]
    out: String,
    /// Train on each row N times
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one::<u64>)]
    epochs: u64,
    /// Set the maximum tokens of an example
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = at_least_one::<usize>)]
    max_length: usize,
    /// Drop examples longer than --max-length, or cut them (a model trained on cut chains may not learn to stop)
    #[arg(long, value_name = "drop|cut", default_value = "drop")]
    long: Long,
    /// Learn whole chains, or only the steps that a pipeline kept. Its dropped steps stay as context
    #[arg(long, value_name = "all|kept", default_value = "all")]
    loss: Loss,
    #[command(flatten)]
    steps: StepSettings,
    /// Set the number of examples per micro-batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<usize>)]
    micro_batch: usize,
    /// Set the number of micro-batches per step
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one::<usize>)]
    accumulate: usize,
    /// Set the maximum tokens of a forward pass. A longer example gets its own pass
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = at_least_one::<usize>)]
    pass_tokens: usize,
    /// Choose which activations to keep for the backward pass (activation checkpointing). Keeping more is faster and
    /// gives the same weights [default: the most that fits]
    #[arg(long, value_name = "inputs|attention|all")]
    keep: Option<Keep>,
    /// Seed the row order and the initial weights of a new model: the same seed gives the same model
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
    /// Hold out this fraction of the questions, with all their rows. asap measures the model on these rows
    /// before training and after each epoch
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    held_out: f64,
    /// Write a checkpoint after this many steps
    #[arg(long, value_name = "STEPS", default_value_t = 500, value_parser = at_least_one::<u64>)]
    checkpoint_every: u64,
    /// Keep the last N checkpoints
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_one::<usize>)]
    checkpoints: usize,
    /// Compute on this device: cpu, with all cores
    #[arg(long, default_value = "cpu", value_parser = device)]
    device: String,
    /// Read new rows after each commit of a run. The first epoch ends when the run is finished
    #[arg(long)]
    follow: bool,
    /// Set the output format of the summary
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

fn device(text: &str) -> Result<String, String> {
    match text {
        "cpu" => Ok(text.to_string()),
        "cuda" | "gpu" => {
            Err("asap train runs only on CPUs; to train on GPUs, use python -m asap.sft, or asap feed with your own \
                       trainer: both use the same examples in the same order (asap feed --help)"
                .to_string())
        }
        _ => Err("expected cpu".to_string()),
    }
}

pub async fn run(args: TrainArgs) -> Result<(), Failure> {
    config::apply()?;
    let TrainArgs {
        model,
        init,
        data,
        columns,
        out,
        epochs,
        max_length,
        long,
        loss,
        steps,
        micro_batch,
        accumulate,
        pass_tokens,
        keep,
        seed,
        held_out,
        checkpoint_every,
        checkpoints,
        device,
        follow,
        format,
    } = args;
    asap_train::run(Request {
        model,
        init,
        data,
        columns,
        out,
        epochs,
        max_length,
        long,
        loss,
        steps,
        micro_batch,
        accumulate,
        pass_tokens,
        keep,
        seed,
        held_out,
        checkpoint_every,
        checkpoints,
        device,
        follow,
        format,
    })
    .await
}
