//! `asap train`: fine-tunes all parameters of a model on the rows of a corpus, or makes a new model of a config.
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

use asap_lm::train::Keep;
use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::feed::Position;
use asap_pipelines::session::session;
use asap_udfs::llm::Llm;
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::long_rows::LongRows;
use crate::output::{SummaryFormat, at_least_one, complain, print_as};
use crate::signals::Stop;
use base::Base;
use settings::{Settings, Started};
use store::Folder;
use training::Training;

/// Fine-tune all parameters of a model on a corpus, or train a new one from nothing but a config
///
/// The same command goes on where it was stopped or killed, from the last checkpoint, to the same weights.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("base").required(true).args(["model", "init"]),
    after_help = "\
Examples:
  asap train --model Qwen/Qwen2.5-0.5B --data out/pruned --out out/model --epochs 3
  asap train --init config.json --data data/sample --out out/model --learning-rate 3e-3 --epochs 4
  asap train --model models/base --data s3://lake/pruned --out s3://lake/model --held-back 0.02 --checkpoint-every 100"
)]
pub struct TrainArgs {
    /// The model to begin with: a folder in Hugging Face's layout, or org/name in the Hub's cache
    #[arg(long, value_name = "DIR")]
    model: Option<String>,
    /// The shape of a new model, as Hugging Face writes it; its dtype says how weights are stored
    #[arg(long, value_name = "CONFIG.JSON")]
    init: Option<PathBuf>,
    /// A Delta table, or a folder or file of Parquet or JSON lines (asap inspect says how they are read)
    #[arg(long, value_name = "LOC")]
    data: String,
    /// Say which columns are question, cot and answer, where that cannot be recognised
    #[arg(long, value_name = "question=…,cot=…,answer=…")]
    columns: Option<ColumnMapping>,
    /// The folder of the trained model and of its checkpoints
    #[arg(long, value_name = "LOC")]
    out: String,
    /// How often each row is seen
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// The most tokens of an example
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = at_least_one)]
    max_length: usize,
    /// What becomes of longer ones
    #[arg(long, value_enum, default_value_t = LongRows::Drop)]
    long: LongRows,
    /// The highest learning rate
    #[arg(long, value_name = "RATE", default_value_t = 4e-5, value_parser = above_zero)]
    learning_rate: f64,
    /// The part of all steps over which the rate rises to it
    #[arg(long, value_name = "FRACTION", default_value_t = 0.03, value_parser = fraction)]
    warmup: f64,
    /// So many steps in its place
    #[arg(long, value_name = "N")]
    warmup_steps: Option<usize>,
    /// The last rate, as a part of the highest: between them it falls by half a cosine
    #[arg(long, value_name = "FRACTION", default_value_t = 0.1, value_parser = fraction)]
    min_rate: f64,
    /// The gradient's norm is brought down to this
    #[arg(long, value_name = "NORM", default_value_t = 0.2, value_parser = above_zero)]
    clip: f64,
    /// What matrices lose per step, as a part of the rate
    #[arg(long, value_name = "DECAY", default_value_t = 0.0, value_parser = fraction)]
    weight_decay: f64,
    /// Examples of a micro-batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    micro_batch: usize,
    /// Micro-batches of a step
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    accumulate: usize,
    /// The most tokens that go through the model together; a longer example goes alone
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = at_least_one)]
    pass_tokens: usize,
    /// What is kept of the way through the model; more is faster and gives the same weights [default: the most that fits]
    #[arg(long, value_enum)]
    keep: Option<Kept>,
    /// Of the order of rows and a new model's first weights: the same seed gives the same model
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
    /// The part of the rows that the model is measured on instead of trained
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    held_back: f64,
    /// Steps between two checkpoints
    #[arg(long, value_name = "STEPS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// How many checkpoints stay
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_one)]
    checkpoints: usize,
    /// Where it is computed: cpu, on all cores
    #[arg(long, default_value = "cpu", value_parser = device)]
    device: String,
    /// Take rows as a run commits them: the first epoch ends when the run is finished
    #[arg(long)]
    follow: bool,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

/// What `--keep` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// The inputs of layers
    Inputs,
    /// Also what attention read and gave
    Attention,
    /// All that the gradient needs
    All,
}

impl From<Kept> for Keep {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Inputs => Self::Inputs,
            Kept::Attention => Self::Attention,
            Kept::All => Self::All,
        }
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0, such as 3e-3".to_string())
}

fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to below 1, such as 0.05".to_string())
}

fn device(text: &str) -> Result<String, String> {
    match text {
        "cpu" => Ok(text.to_string()),
        "cuda" => {
            Err("asap train computes on processors; for a trainer on GPUs, asap feed streams the same examples in \
                       the same order (asap feed --help)"
                .to_string())
        }
        _ => Err("expected cpu".to_string()),
    }
}

impl TrainArgs {
    fn settings(&self, base: &Base) -> Settings {
        Settings {
            base: base.hash.clone(),
            data: self.data.clone(),
            columns: self.columns.as_ref().map(|columns| format!("{columns:?}")),
            epochs: self.epochs,
            max_length: self.max_length.min(base.config.max_position_embeddings),
            long: format!("{:?}", self.long).to_lowercase(),
            learning_rate: self.learning_rate,
            warmup: self.warmup,
            warmup_steps: self.warmup_steps,
            min_rate: self.min_rate,
            clip: self.clip,
            weight_decay: self.weight_decay,
            step_examples: self.micro_batch * self.accumulate,
            pass_tokens: self.pass_tokens,
            seed: self.seed,
            held_back: self.held_back,
            follow: self.follow,
        }
    }
}

/// Trains, or goes on training, until the model is whole.
///
/// # Errors
/// If rows or model cannot be read, if the model does not fit in memory, if the folder holds another training, if the loss is
/// no longer a number, or if the process was asked to end: then a checkpoint was written.
pub async fn run(args: TrainArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let stop = Stop::listen("writing a checkpoint");
    let out = Folder::open(&args.out)?;
    let _alone = out.take_alone()?;
    out.clear_work()?;
    let context = session(asap_udfs::Settings::default(), &Llm::default())?;
    let held = Started::held(&out).await?;
    if held.is_none() && out.holds_files().await? {
        return Err(Failure::Usage(format!("{} exists; name a new folder for the model, or remove it", out.shown())));
    }
    let (checkpoint, whole) = (checkpoint::newest(&out).await?, model::trained(&out).await?);
    let base = Base::find(&args, &context, &out, held.is_some()).await?;
    let settings = args.settings(&base);
    let difference = held.as_ref().and_then(|held| settings.difference(&held.settings));
    // Of a training that has neither there is nothing to lose.
    if let (Some(difference), true) = (&difference, checkpoint.is_some() || whole.is_some()) {
        return Err(Failure::Usage(format!(
            "{} holds another training ({difference}): name a new folder, or the same settings",
            out.shown()
        )));
    }
    if let Some(summary) = whole {
        complain(&format!("note: nothing to do, {} was trained before", out.shown()));
        return Ok(print_as(args.format, &summary, || summary.table())?);
    }
    // What it began with is not begun with again.
    let base = if difference.is_some() { Base::find(&args, &context, &out, false).await? } else { base };
    let version = held.filter(|_| difference.is_none()).map(|held| held.version);
    let resume = match &checkpoint {
        Some(held) => Some(held.position.parse()?),
        None => version.map(|version| Position { version, epoch: 0, window: 0, row: 0 }),
    };
    let mut training = Training::prepare(&args, &context, out, base, settings, checkpoint, resume).await?;
    let started = Started { settings: training.settings.clone(), version: training.position.version };
    training.base.keep(&training.out).await?;
    started.hold(&training.out).await?;
    let end = training.run(&args, &stop).await;
    training.bar.finish();
    end?;
    let summary = training.finish(&context, begun).await?;
    Ok(print_as(args.format, &summary, || summary.table())?)
}
