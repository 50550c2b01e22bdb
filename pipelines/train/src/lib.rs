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
use asap_pipelines::feed::{FeedConfig, Loss, Position};
use asap_pipelines::location;
use asap_pipelines::session::session;
use datafusion::prelude::SessionContext;

use asap_console::{failure, output, progress, rows, signals};

use crate::failure::Failure;
use crate::output::{SummaryFormat, note, print_summary, show_below};
use crate::signals::Stop;
use base::Base;
use settings::{Settings, Started};
pub use settings::{StepSettings, fraction};
use store::Folder;
use summary::TrainingSummary;
use training::Training;

pub use metrics::tensorboard_record;

/// What to train, and how. The fields are the flags of `asap train`.
#[derive(Debug)]
pub struct Request {
    /// Start from this model: a folder in Hugging Face's layout, or org/name on the Hub
    pub model: Option<String>,
    /// Train a new model with this config in Hugging Face's format. Its dtype sets how weights are stored
    pub init: Option<PathBuf>,
    /// Train on a Delta table, or a folder or file of Parquet or JSON lines (asap inspect shows how asap reads them)
    pub data: String,
    /// Name the question, cot and answer columns if asap cannot recognize them
    pub columns: Option<ColumnMapping>,
    /// Write the trained model and its checkpoints to this folder
    pub out: String,
    /// Train on each row N times
    pub epochs: u64,
    /// Set the maximum tokens of an example
    pub max_length: usize,
    /// Drop examples longer than --max-length, or cut them (a model trained on cut chains may not learn to stop)
    pub long: Long,
    /// Learn whole chains, or only the steps that a pipeline kept
    pub loss: Loss,
    /// How each step changes the weights.
    pub steps: StepSettings,
    /// Set the number of examples per micro-batch
    pub micro_batch: usize,
    /// Set the number of micro-batches per step
    pub accumulate: usize,
    /// Set the maximum tokens of a forward pass. A longer example gets its own pass
    pub pass_tokens: usize,
    /// Choose which activations to keep for the backward pass (activation checkpointing). Keeping more is faster and
    /// gives the same weights [default: the most that fits]
    pub keep: Option<Keep>,
    /// Seed the row order and the initial weights of a new model: the same seed gives the same model
    pub seed: u64,
    /// Hold out this fraction of the questions, with all their rows. asap measures the model on these rows
    /// before training and after each epoch
    pub held_out: f64,
    /// Write a checkpoint after this many steps
    pub checkpoint_every: u64,
    /// Keep the last N checkpoints
    pub checkpoints: usize,
    /// Compute on this device: cpu, with all cores
    pub device: String,
    /// Read new rows after each commit of a run. The first epoch ends when the run is finished
    pub follow: bool,
    /// Set the output format of the summary
    pub format: SummaryFormat,
}

impl Request {
    fn settings(&self, base: &Base) -> Result<Settings, Failure> {
        Ok(Settings {
            base: base.hash.clone(),
            data: referred_to(&self.data)?,
            columns: self.columns.as_ref().map(|columns| format!("{columns:?}")),
            epochs: self.epochs,
            max_length: self.max_length.min(base.config.max_position_embeddings),
            long: self.long.to_string(),
            loss: self.loss,
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
///
/// # Errors
/// If the model or the rows cannot be read, the folder holds another training, or memory or disk do not suffice.
pub async fn run(args: Request) -> Result<(), Failure> {
    let begun = Instant::now();
    let stop = Stop::listen("writing a checkpoint");
    let out = Folder::open(&args.out)?;
    let _alone = out.take_alone()?;
    out.clear_work()?;
    let context = session(asap_udfs::Settings::default(), &Llm::default())?;
    let held: Option<Started> = out.read_json(settings::FILE).await?;
    if held.is_none() && out.holds_files().await? {
        return Err(Failure::Usage(format!("{} exists: name a new folder for the model", out.shown())));
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
        return Ok(print_summary(args.format, &summary, || summary.table())?);
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
    Ok(print_summary(args.format, &summary, || summary.table())?)
}

async fn trained(
    mut training: Training,
    args: &Request,
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
