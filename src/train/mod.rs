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

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use asap_lm::LmError;
use asap_lm::example::Example;
use asap_lm::train::{AdamWConfig, Keep, Step, Trainer, TrainerConfig, peak_flops};
use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::feed::{Encoder, Fed, Feed, FeedConfig, Position, Rows, Survey};
use asap_pipelines::session::session;
use asap_udfs::llm::Llm;
use clap::{Args, ValueEnum};
use datafusion::prelude::SessionContext;

use crate::failure::Failure;
use crate::feed::LongRows;
use crate::output::{SummaryFormat, complain, print_as};
use crate::progress::Opening;
use crate::signals::Stop;
use bar::Bar;
use base::Base;
use checkpoint::Manifest;
use metrics::{Line, Metrics};
use plan::{Plan, Rates};
use settings::{Settings, Started};
use store::Folder;
use summary::{Learning, TrainingSummary};

/// Seconds between two writings of the metrics.
const METRICS_SECONDS: f64 = 30.0;
/// The share of the time that writing metrics, all of them anew, may take.
const METRICS_SHARE: f64 = 0.01;

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

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "expected a whole number above 0".to_string())
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0, such as 3e-3".to_string())
}

fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to below 1, such as 0.05".to_string())
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

/// A training under way.
struct Training {
    out: Folder,
    base: Base,
    settings: Settings,
    encoder: Arc<Encoder>,
    config: FeedConfig,
    survey: Option<Survey>,
    plan: Plan,
    trainer: Trainer,
    feed: Feed,
    rates: Rates,
    position: Position,
    learning: Learning,
    metrics: Metrics,
    bar: Bar,
    seconds: f64,
    tokens: usize,
    /// Of all cores.
    peak_flops: f64,
}

impl Training {
    async fn prepare(
        args: &TrainArgs,
        context: &SessionContext,
        out: Folder,
        base: Base,
        settings: Settings,
        checkpoint: Option<Manifest>,
        resume: Option<Position>,
    ) -> Result<Self, Failure> {
        let encoder = Encoder::load(&base.folder, settings.max_length, args.long.into())?;
        let encoder = Arc::new(Encoder { held_back: settings.held_back, ..encoder });
        let config = FeedConfig {
            location: args.data.clone(),
            columns: args.columns.clone(),
            epochs: settings.epochs,
            seed: settings.seed,
            follow: settings.follow,
            resume,
            part: (0, 1),
        };
        let opening = Opening::of(std::slice::from_ref(&args.data), false);
        let rows = Rows::open(context, &config).await?;
        let survey = match settings.follow {
            true => None,
            false => Some(rows.survey(&encoder).await?),
        };
        drop(opening);
        let plan = Plan::new(&settings, &base.config, survey.as_ref(), args.keep.map(Keep::from))?;
        complain(&plan.table(&settings, survey.as_ref(), args.checkpoints));
        if survey.as_ref().is_some_and(|survey| survey.learned == 0) {
            return Err(Failure::Failed(format!("{} holds no row to learn from", args.data)));
        }
        let feed = Feed::begin(rows, config.clone(), Arc::clone(&encoder))?;
        feed.notes.iter().for_each(|note| complain(&format!("note: {note}")));
        let (clip, weight_decay) = (settings.clip, settings.weight_decay);
        let optimizer = AdamWConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay, clip };
        let trainer = TrainerConfig { optimizer, pass_tokens: settings.pass_tokens, keep: plan.keep };
        let mut trainer = Trainer::new(base.decoder()?, trainer);
        let mut metrics = Metrics::default();
        if let Some(manifest) = &checkpoint {
            checkpoint::restore(&out, manifest, &mut trainer).await?;
            metrics = Metrics::until(&out, manifest.step).await?;
        }
        let first = checkpoint.as_ref().and_then(|held| held.epoch_steps);
        let rates = Rates::new(&settings, plan.steps, first);
        let (position, bar) = (feed.start, Bar::new(plan.steps, trainer.steps()));
        let learning = checkpoint.map_or_else(Learning::default, |held| held.learning);
        let (seconds, tokens) = (0.0, 0);
        Ok(Self {
            out,
            base,
            settings,
            encoder,
            config,
            survey,
            plan,
            trainer,
            feed,
            rates,
            position,
            learning,
            metrics,
            bar,
            seconds,
            tokens,
            peak_flops: peak_flops(),
        })
    }

    /// Makes steps until the feed ends or the process is asked to end; a checkpoint every so often.
    async fn run(&mut self, args: &TrainArgs, stop: &Stop) -> Result<(), Failure> {
        let (mut written, mut wait) = (Instant::now(), METRICS_SECONDS);
        loop {
            let step = tokio::select! {
                step = self.feed.step(self.settings.step_examples) => step?,
                () = stop.asked() => None,
            };
            if stop.is_asked() {
                self.save(args).await?;
                let step = self.trainer.steps();
                return Err(Failure::TryLater(format!("interrupted after step {step}; the same command goes on")));
            }
            let Some(step) = step else { return Ok(()) };
            self.step(step)?;
            if self.trainer.steps().is_multiple_of(args.checkpoint_every) {
                self.save(args).await?;
            }
            if written.elapsed().as_secs_f64() >= wait {
                let begun = Instant::now();
                self.metrics.write(&self.out).await?;
                wait = METRICS_SECONDS.max(begun.elapsed().as_secs_f64() / METRICS_SHARE);
                written = Instant::now();
            }
        }
    }

    fn step(&mut self, step: Vec<Fed>) -> Result<(), Failure> {
        let Some(last) = step.last() else { return Ok(()) };
        let (begun, position, epoch) = (Instant::now(), last.position, last.position.epoch);
        let rate = self.rates.rate(self.trainer.steps(), epoch);
        let sources: Vec<_> = step.iter().map(|fed| fed.source.clone()).collect();
        let examples: Vec<Example> = step.into_iter().map(|fed| fed.example).collect();
        let made = tokio::task::block_in_place(|| self.trainer.step(&examples, rate));
        let made: Step = made.map_err(|error| match error {
            LmError::Diverged { steps } => {
                let rows: Vec<String> = sources.iter().map(|(file, row)| format!("{file} row {row}")).collect();
                let rows = rows.join(", ");
                Failure::Failed(format!(
                    "the loss of step {} is no longer a number: lower the learning rate, or look at its rows ({rows}); the last \
                     checkpoint is what it was",
                    steps + 1
                ))
            }
            other => other.into(),
        })?;
        self.position = position;
        self.learning.advance(&made, epoch);
        let seconds = begun.elapsed().as_secs_f64();
        (self.seconds, self.tokens) = (self.seconds + seconds, self.tokens + made.tokens);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let Step { loss, norm, tokens, learned, flops } = made;
        let share_of_peak = flops / (seconds.max(1e-9) * self.peak_flops);
        let step = self.trainer.steps();
        let line = Line { step, epoch, loss, rate, norm, tokens, learned, time, seconds, share_of_peak };
        self.bar.advance(&line);
        self.metrics.push(line);
        Ok(())
    }

    async fn save(&mut self, args: &TrainArgs) -> Result<(), Failure> {
        let manifest = Manifest {
            step: self.trainer.steps(),
            position: self.position.to_string(),
            learning: self.learning.clone(),
            epoch_steps: self.rates.first(),
            files: BTreeMap::new(),
        };
        self.metrics.write(&self.out).await?;
        checkpoint::save(&self.out, &self.trainer, manifest, args.checkpoints).await
    }

    /// Writes the model, and removes the checkpoints.
    async fn finish(self, context: &SessionContext, begun: Instant) -> Result<TrainingSummary, Failure> {
        let survey = match self.survey {
            Some(survey) => survey,
            // Rows that came since it began are known only now.
            None => {
                let config = FeedConfig { resume: Some(self.position), ..self.config };
                Rows::open(context, &config).await?.survey(&self.encoder).await?
            }
        };
        self.metrics.write(&self.out).await?;
        let end = self.encoder.template.end();
        let measured = model::write(&self.out, &self.trainer, &self.base, end, &survey.held_back).await?;
        let summary = TrainingSummary {
            out: self.out.shown(),
            version: self.position.version,
            rows_rejected: survey.rejected,
            traces: survey.learned,
            traces_cut: survey.cut,
            traces_left_out: survey.too_long,
            parameters: self.plan.parameters,
            vocabulary: self.base.config.vocab_size,
            learning: self.learning,
            held_back: measured.map(Into::into),
            tokens_per_second: self.tokens as f64 / self.seconds.max(1e-9),
            seconds: begun.elapsed().as_secs_f64(),
        };
        model::finish(&self.out, &self.base, &self.plan, (&self.settings, &summary)).await?;
        checkpoint::remove_all(&self.out).await?;
        Ok(summary)
    }
}
