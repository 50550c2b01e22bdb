//! `asap train`: fine-tunes all parameters of a model on the rows of a corpus, or trains a new model from a config.
//!
//! ```text
//!   base ── encoder ── feed ── steps ── trainer ──┬── metrics
//!                                │                ├── checkpoints   weights, moments, position
//!                             position            └── model
//! ```

mod bar;
mod base;
mod checkpoint;
mod metrics;
mod model;
mod plan;
mod settings;
mod store;
mod summary;
mod training;

use std::path::PathBuf;
use std::time::Instant;

use asap_llm::Llm;
use asap_lm::example::Long;
use asap_lm::train::Keep;
use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::feed::{FeedConfig, Position};
use asap_pipelines::location;
use asap_pipelines::session::session;
use clap::Args;
use datafusion::prelude::SessionContext;

use crate::failure::Failure;
use crate::output::{SummaryFormat, at_least_one, note, parsed, print_as, show_below};
use crate::signals::Stop;
use base::Base;
use settings::{Settings, Started, StepSettings, fraction};
use store::Folder;
use summary::TrainingSummary;
use training::Training;

pub use metrics::tensorboard_record;

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
    /// Start from this model: a folder in Hugging Face's layout, or org/name in the Hub's cache
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
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Set the maximum tokens of an example
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = at_least_one)]
    max_length: usize,
    /// Drop examples longer than --max-length, or cut them (a model trained on cut chains may not learn to stop)
    #[arg(long, value_name = "drop|cut", default_value = "drop")]
    long: Long,
    #[command(flatten)]
    steps: StepSettings,
    /// Set the number of examples per micro-batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    micro_batch: usize,
    /// Set the number of micro-batches per step
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    accumulate: usize,
    /// Set the maximum tokens of a forward pass. A longer example gets its own pass
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = at_least_one)]
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
    #[arg(long, value_name = "STEPS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Keep the last N checkpoints
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_one)]
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
        "cuda" => {
            Err("asap train runs only on CPUs; to train on GPUs, use python -m asap.sft, or asap feed with your own \
                       trainer: both use the same examples in the same order (asap feed --help)"
                .to_string())
        }
        _ => Err("expected cpu".to_string()),
    }
}

impl TrainArgs {
    fn settings(&self, base: &Base) -> Result<Settings, Failure> {
        Ok(Settings {
            base: base.hash.clone(),
            data: referred_to(&self.data)?,
            columns: self.columns.as_ref().map(|columns| format!("{columns:?}")),
            epochs: self.epochs,
            max_length: self.max_length.min(base.config.max_position_embeddings),
            long: self.long.to_string(),
            steps: self.steps.clone(),
            step_examples: self.micro_batch * self.accumulate,
            pass_tokens: self.pass_tokens,
            seed: self.seed,
            held_out: self.held_out,
            follow: self.follow,
        })
    }

    fn feed(&self, resume: Option<Position>) -> FeedConfig {
        FeedConfig {
            location: self.data.clone(),
            columns: self.columns.clone(),
            epochs: self.epochs,
            seed: self.seed,
            follow: self.follow,
            resume,
            part: (0, 1),
        }
    }
}

/// The canonical form of a location: a local path without links, else the URL.
fn referred_to(data: &str) -> Result<String, Failure> {
    let url = location::parse(data)?;
    let named = match location::local_path(&url) {
        Some(path) => path.canonicalize().unwrap_or(path).display().to_string(),
        None => location::redact(url.as_str()),
    };
    Ok(named.trim_end_matches('/').to_string())
}

/// Trains, or resumes training, until the model is complete.
pub async fn run(args: TrainArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let stop = Stop::listen("writing a checkpoint");
    let out = Folder::open(&args.out)?;
    let _alone = out.take_alone()?;
    out.clear_work()?;
    let context = session(asap_udfs::Settings::default(), &Llm::default())?;
    let held: Option<Started> = out.read_json(settings::FILE).await?;
    if held.is_none() && out.holds_files().await? {
        return Err(Failure::Usage(format!("{} exists; use a new folder for the model, or remove it", out.shown())));
    }
    let whole: Option<TrainingSummary> = out.read_json(model::TRAINED).await?;
    let checkpoint = checkpoint::newest(&out).await?;
    let base = Base::find(&args, &context, &out, held.is_some()).await?;
    let settings = args.settings(&base)?;
    let difference = match &held {
        Some(held) => held.difference(&context, &args, &settings).await,
        None => None,
    };
    // Without checkpoint and model, there is nothing to overwrite.
    if let (Some(difference), true) = (&difference, checkpoint.is_some() || whole.is_some()) {
        return Err(Failure::Usage(format!(
            "{} holds another training ({difference}): use a new folder, or the same settings",
            out.shown()
        )));
    }
    if let Some(summary) = whole {
        note(format!("nothing to do: {} is already trained", out.shown()));
        return Ok(print_as(args.format, &summary, || summary.table())?);
    }
    if let (Some(held), Some(_)) = (&held, &checkpoint) {
        let (before, now) = (held.settings.pass_tokens, settings.pass_tokens);
        if before != now {
            note(format!("--pass-tokens was {before}, and is now {now}: the weights may differ in their last bits"));
        }
    }
    // Another training does not reuse the kept base.
    let base = if difference.is_some() { Base::find(&args, &context, &out, false).await? } else { base };
    let version = held.filter(|_| difference.is_none()).map(|held| held.version);
    let resume = match &checkpoint {
        Some(held) => Some(held.position.parse()?),
        None => version.map(|version| Position { version, epoch: 0, window: 0, row: 0 }),
    };
    let training = Training::prepare(&args, &context, out, base, settings, checkpoint, resume).await?;
    let summary = trained(training, &args, &context, &stop, begun).await?;
    Ok(print_as(args.format, &summary, || summary.table())?)
}

async fn trained(
    mut training: Training,
    args: &TrainArgs,
    context: &SessionContext,
    stop: &Stop,
    begun: Instant,
) -> Result<TrainingSummary, Failure> {
    let (settings, version) = (training.settings.clone(), training.position.version);
    let started = Started { settings, version, table: training.table.clone() };
    training.base.keep(&training.out).await?;
    training.out.write_json(settings::FILE, &started).await?;
    let ended = training.run(args, stop).await;
    show_below(None);
    ended?;
    training.finish(context, begun).await
}
