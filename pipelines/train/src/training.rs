//! A training in progress: steps of the feed, checkpoints, and the final model.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use asap_lm::LmError;
use asap_lm::example::Example;
use asap_lm::train::{AdamWConfig, Measured, Trainer, TrainerConfig, TrainingStep, measure, peak_flops};
use asap_pipelines::feed::{Counts, Encoder, Fed, Feed, FeedConfig, Position, Rows, Survey};
use datafusion::prelude::SessionContext;

use super::bar::Bar;
use super::base::Base;
use super::checkpoint::{self, Manifest};
use super::metrics::{Line, Metrics};
use super::plan::{Plan, Rates};
use super::settings::Settings;
use super::store::Folder;
use super::summary::{HeldOut, TrainingSummary};
use super::{Request, model};
use crate::failure::Failure;
use crate::output::{count, note, reasons, tell, without_system};
use crate::progress::while_opening;
use crate::signals::Stop;

const METRICS_SECONDS: f64 = 30.0;
/// The maximum share of time for writing metrics, which rewrites all of them.
const METRICS_SHARE: f64 = 0.01;

pub(super) struct Training {
    pub out: Folder,
    pub base: Base,
    pub settings: Settings,
    encoder: Arc<Encoder>,
    config: FeedConfig,
    survey: Option<Survey>,
    plan: Plan,
    trainer: Trainer,
    feed: Feed,
    rates: Rates,
    pub position: Position,
    pub table: Option<String>,
    /// The last checkpoint, with what is known since; step 0 if there is none.
    manifest: Manifest,
    last: Option<Last>,
    metrics: Metrics,
    bar: Bar,
    seconds: f64,
    tokens: usize,
    peak_flops: f64,
}

struct Last {
    example: Example,
    sources: Vec<(Arc<str>, u64)>,
}

impl Training {
    /// Reads the rows once, prints the plan, and restores the last checkpoint.
    pub(super) async fn prepare(
        args: &Request,
        context: &SessionContext,
        out: Folder,
        base: Base,
        settings: Settings,
        checkpoint: Option<Manifest>,
        resume: Option<Position>,
    ) -> Result<Self, Failure> {
        let encoder = Encoder::load(&base.folder, settings.max_length, args.long)?;
        let encoder = Arc::new(Encoder { held_out: settings.held_out, loss: settings.loss, ..encoder });
        let config = args.feed(resume);
        let survey = async {
            let rows = Rows::open(context, &config).await?;
            let survey = if settings.follow { None } else { Some(rows.survey(&encoder).await?) };
            Ok::<_, Failure>((rows, survey))
        };
        let (rows, survey) = while_opening(std::slice::from_ref(&args.data), survey).await?;
        let table = rows.table.clone();
        let plan = planned(args, &settings, &base, survey.as_ref(), &out).await?;
        survey.iter().filter_map(|survey| without_system(survey.counts.without_system)).for_each(note);
        let feed = Feed::begin(rows, config.clone(), Arc::clone(&encoder))?;
        feed.notes.iter().for_each(note);
        let (clip, weight_decay) = (settings.steps.clip, settings.steps.weight_decay);
        let optimizer = AdamWConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay, clip };
        let trainer = TrainerConfig { optimizer, pass_tokens: settings.pass_tokens, keep: plan.keep };
        let mut trainer = Trainer::new(base.decoder()?, trainer);
        let mut metrics = Metrics::default();
        if let Some(manifest) = &checkpoint {
            checkpoint::restore(&out, manifest, &mut trainer).await?;
            metrics = Metrics::until(&out, manifest.step).await?;
        }
        let manifest = checkpoint.unwrap_or_default();
        Ok(Self {
            rates: Rates::new(&settings, plan.steps, manifest.epoch_steps),
            out,
            base,
            settings,
            encoder,
            config,
            survey,
            position: feed.start,
            table,
            manifest,
            last: None,
            metrics,
            bar: Bar::new(plan.steps, trainer.steps()),
            plan,
            trainer,
            feed,
            seconds: 0.0,
            tokens: 0,
            peak_flops: peak_flops(),
        })
    }

    /// Trains until the feed ends or the process is asked to stop. Writes regular checkpoints, and one at the end.
    pub(super) async fn run(&mut self, args: &Request, stop: &Stop) -> Result<(), Failure> {
        let ended = self.make_steps(args, stop).await;
        if ended.is_err() {
            // The first error is the one to report.
            drop(self.metrics.write(&self.out).await);
        }
        ended
    }

    async fn make_steps(&mut self, args: &Request, stop: &Stop) -> Result<(), Failure> {
        let (mut written, mut wait) = (Instant::now(), METRICS_SECONDS);
        loop {
            let step = tokio::select! {
                step = self.feed.next_rows(self.settings.step_examples) => step?,
                () = stop.asked() => None,
            };
            let is_made = match step {
                Some(step) => self.measure_before(&step, stop)? && self.step(step, stop)?,
                None => false,
            };
            if stop.is_asked() {
                self.save(args).await?;
                let (out, step) = (self.out.shown(), self.trainer.steps());
                let what =
                    format!("interrupted after step {step}: {out} has no model yet; run the same command to resume");
                return Err(Failure::TryLater(what));
            }
            if !is_made {
                // Writing the model may still fail.
                return self.save(args).await;
            }
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

    /// Measures the model on held-out rows if this step begins training or an epoch. Returns false if the process is
    /// asked to stop meanwhile.
    fn measure_before(&mut self, step: &[Fed], stop: &Stop) -> Result<bool, Failure> {
        let epoch = step.first().map_or(0, |fed| fed.position.epoch);
        let rows = self.survey.as_ref().map_or(&[][..], |survey| &survey.held_out);
        if rows.is_empty() || self.manifest.held_out.len() as u64 > epoch {
            return Ok(true);
        }
        let (mut nats, mut tokens) = (0.0, 0);
        for row in rows {
            if stop.is_asked() {
                return Ok(false);
            }
            let one = tokio::task::block_in_place(|| measure(self.trainer.decoder(), std::slice::from_ref(row)))?;
            (nats, tokens) = (nats + one.surprisal * one.tokens as f64, tokens + one.tokens);
        }
        let loss = nats / tokens.max(1) as f64;
        let when = if epoch == 0 { "before training".to_string() } else { format!("after epoch {epoch}") };
        if !loss.is_finite() {
            let sources = self.last.as_ref().map_or(&[][..], |last| &last.sources);
            return Err(self.diverged(&format!("the loss on held-out rows, {when},"), sources));
        }
        tell(&format!("held out   {loss:.3} nats per token {when}"));
        self.manifest.held_out.push(loss);
        Ok(true)
    }

    /// Makes a step. Returns false, with unchanged weights, if the process is asked to stop meanwhile.
    fn step(&mut self, step: Vec<Fed>, stop: &Stop) -> Result<bool, Failure> {
        let Some(last) = step.last() else { return Ok(false) };
        let (begun, position, epoch) = (Instant::now(), last.position, last.position.epoch);
        let rate = self.rates.rate(self.trainer.steps(), epoch);
        let sources: Vec<_> = step.iter().map(|fed| fed.source.clone()).collect();
        let examples: Vec<Example> = step.into_iter().flat_map(|fed| fed.examples).collect();
        let made = tokio::task::block_in_place(|| self.trainer.step(&examples, rate, &|| !stop.is_asked()));
        let TrainingStep { loss, norm, tokens, learned, flops } = match made {
            Ok(made) => made,
            Err(LmError::Abandoned) => return Ok(false),
            Err(LmError::Diverged { steps }) => {
                return Err(self.diverged(&format!("the loss of step {}", steps + 1), &sources));
            }
            Err(error) => return Err(error.into()),
        };
        let shortest = examples.into_iter().min_by_key(|example| example.ids.len());
        self.last = shortest.map(|example| Last { example, sources });
        self.position = position;
        self.manifest.learning.advance((loss, tokens, learned), epoch);
        let seconds = begun.elapsed().as_secs_f64();
        (self.seconds, self.tokens) = (self.seconds + seconds, self.tokens + tokens);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let share_of_peak = Some(flops / (seconds.max(1e-9) * self.peak_flops));
        let step = self.trainer.steps();
        let line = Line { step, epoch, loss, rate, norm, tokens, learned, time, seconds, share_of_peak };
        self.bar.advance(&line);
        self.metrics.push(line);
        Ok(true)
    }

    /// Writes a checkpoint of the current step, if there is none, after a check that the weights still give a finite
    /// loss.
    async fn save(&mut self, args: &Request) -> Result<(), Failure> {
        self.metrics.write(&self.out).await?;
        let step = self.trainer.steps();
        if step == self.manifest.step {
            return Ok(());
        }
        if let Some(last) = &self.last {
            match tokio::task::block_in_place(|| self.trainer.check(&last.example)) {
                Err(LmError::Diverged { steps }) => {
                    return Err(self.diverged(&format!("the loss after step {steps}"), &last.sources));
                }
                checked => checked?,
            }
        }
        let (position, epoch_steps) = (self.position.to_string(), self.rates.first);
        let mut manifest = Manifest { step, position, epoch_steps, ..self.manifest.clone() };
        checkpoint::save(&self.out, &self.trainer, &mut manifest, args.checkpoints).await?;
        self.manifest = manifest;
        Ok(())
    }

    fn diverged(&self, what: &str, sources: &[(Arc<str>, u64)]) -> Failure {
        let rows: Vec<String> = sources.iter().map(|(file, row)| format!("{file} row {row}")).collect();
        let kept = match self.manifest.step {
            0 => "there is no checkpoint yet".to_string(),
            step => format!("the checkpoint of step {step} is intact"),
        };
        Failure::Failed(format!(
            "{what} is no longer finite: lower the learning rate (this is another training and needs another --out), \
             or check the rows of that step ({}); {kept}",
            rows.join(", ")
        ))
    }

    pub(super) async fn finish(self, context: &SessionContext, begun: Instant) -> Result<TrainingSummary, Failure> {
        let survey = match self.survey {
            Some(survey) => survey,
            // Rows that came after the start are known only now.
            None => {
                let config = FeedConfig { resume: Some(self.position), ..self.config };
                let survey = Rows::open(context, &config).await?.survey(&self.encoder).await?;
                without_system(survey.counts.without_system).iter().for_each(note);
                survey
            }
        };
        let end = self.encoder.template.end;
        let measured = model::write(&self.out, self.trainer.into_decoder(), &self.base, end, &survey.held_out).await?;
        let held_out = match measured {
            Some(Measured { tokens, surprisal, unigram_entropy, .. }) => {
                let traces = survey.counts.held_out as usize;
                let mut losses = self.manifest.held_out.into_iter();
                let before = match losses.next() {
                    Some(before) => before,
                    // Which rows are held out is known only now.
                    None => {
                        let base = self.base.decoder()?;
                        tokio::task::block_in_place(|| measure(&base, &survey.held_out))?.surprisal
                    }
                };
                let after_epochs = losses.collect();
                Some(HeldOut { traces, tokens, surprisal, unigram_entropy, before, after_epochs })
            }
            None => None,
        };
        let summary = TrainingSummary {
            out: self.out.shown().to_string(),
            version: self.position.version,
            rows_rejected: survey.counts.rejected,
            rejected_because: survey.counts.reasons,
            rows_without_system: survey.counts.without_system,
            traces: survey.counts.examples,
            traces_cut: survey.counts.cut,
            traces_left_out: survey.counts.too_long,
            parameters: self.plan.parameters,
            vocabulary: self.base.config.vocab_size,
            learning: self.manifest.learning,
            held_out,
            tokens_per_second: self.tokens as f64 / self.seconds.max(1e-9),
            seconds: begun.elapsed().as_secs_f64(),
        };
        let card = model::card(&self.base, &self.plan, &self.settings, &summary)?;
        self.out.write("README.md", card.into_bytes()).await?;
        self.out.write_json(model::TRAINED, &summary).await?;
        checkpoint::remove_all(&self.out).await?;
        Ok(summary)
    }
}

/// Plans the training, prints the plan, and checks that there is something to train on and space for it.
async fn planned(
    args: &Request,
    settings: &Settings,
    base: &Base,
    survey: Option<&Survey>,
    out: &Folder,
) -> Result<Plan, Failure> {
    let plan = Plan::new(settings, &base.config, survey, args.keep)?;
    tell(&plan.table(settings, survey, args));
    plan.check_disk(out, args.checkpoints).await?;
    match survey {
        Some(survey) if survey.counts.examples == 0 => {
            let Counts { too_long, held_out, rejected, reasons: ref why, .. } = survey.counts;
            let ([held_out, long, rejected], most) = ([held_out, too_long, rejected].map(count), settings.max_length);
            Err(Failure::Failed(format!(
                "{} has no row to train on: {held_out} held out, {long} have more than {most} tokens (--max-length), {rejected} \
                 rejected{}",
                args.data,
                reasons(why)
            )))
        }
        _ => Ok(plan),
    }
}
