//! `asap train`: a language model from nothing but a config and a corpus.

mod bar;
mod data;
mod folder;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Instant;

use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::train::{self, FitConfig, Keep, Precision, measure};
use asap_lm::{PromptTemplate, Tokenizer};
use asap_pipelines::corpus::ColumnMapping;
use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{SummaryFormat, complain, print_as};
use bar::Bar;
use data::Examples;
use folder::NewFolder;
use summary::{Learning, TrainingSummary};

/// The gradient's norm is brought down to this.
const CLIP: f64 = 1.0;

/// Train a language model from nothing on the chains of a corpus
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap train --init config.json --data data/sample --out out/model --learning-rate 3e-3 --epochs 4
  asap train --init config.json --data data/sample --out out/model --held-back 0.05 --format json")]
pub struct TrainArgs {
    /// The shape of the model, as Hugging Face writes it; its dtype says how weights are stored
    #[arg(long, value_name = "CONFIG.JSON")]
    init: PathBuf,
    /// A folder or file of Parquet or JSON lines (asap inspect says how they are read)
    #[arg(long, value_name = "LOC")]
    data: String,
    /// Say which columns are question, cot and answer, where that cannot be recognised
    #[arg(long, value_name = "question=…,cot=…,answer=…")]
    columns: Option<ColumnMapping>,
    /// The folder of the model: new
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How often each trace is seen
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    epochs: usize,
    /// Tokens at which a trace is cut
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = at_least_one)]
    max_length: usize,
    /// The highest learning rate: it warms up over 3 % of the steps and falls to a tenth
    #[arg(long, value_name = "RATE", default_value_t = 4e-5, value_parser = above_zero)]
    learning_rate: f64,
    /// Traces that go through the model together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    micro_batch: usize,
    /// Micro-batches of a step
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    accumulate: usize,
    /// Of the first weights and the order of traces: the same seed gives the same model
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
    /// The part of the traces that the model is measured on instead of trained
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    held_back: f64,
    /// How the summary is printed
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
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

/// Makes a tokenizer and a model and writes both to a folder, which appears when it is whole.
pub async fn run(args: TrainArgs) -> Result<(), Failure> {
    let begin = Instant::now();
    let init = Init::read(&args.init)?;
    let folder = NewFolder::make(&args.out)?;
    let corpus = data::read(&args.data, args.columns.as_ref()).await?;
    let (learned, held_back) = data::divide(corpus.traces, args.held_back, args.seed);

    let vocabulary = train::train_tokenizer(&data::texts(&learned), init.config.vocab_size, folder.path())?;
    train::write_configs(&init.given, folder.path())?;
    let tokenizer = Tokenizer::load(folder.path())?;
    let prompt = PromptTemplate::load(folder.path(), None)?;
    let max_length = args.max_length.min(init.config.max_position_embeddings);
    let learned = Examples::encode(&learned, &prompt, &tokenizer, max_length)?;
    let held_back = Examples::encode(&held_back, &prompt, &tokenizer, max_length)?;
    if learned.examples.is_empty() {
        return Err(Failure::Failed(format!("{} holds no trace to learn from: {learned}", args.data)));
    }
    if learned.cut + learned.left_out > 0 {
        complain(&format!("note: {learned}"));
    }

    let mut decoder = Decoder::new(init.config.clone(), train::random::weights(&init.config, args.seed)?);
    let fit = FitConfig {
        epochs: args.epochs,
        learning_rate: args.learning_rate,
        micro_batch: args.micro_batch,
        accumulate: args.accumulate,
        seed: args.seed,
        clip: CLIP,
        keep: Keep::All,
    };
    let (mut bar, mut learning) = (Bar::new(), Learning::default());
    let fitting = Instant::now();
    train::fit(&mut decoder, &learned.examples, &fit, |step| {
        learning.advance(&step);
        bar.advance(&step);
    })?;
    bar.finish();
    let tokens_per_second = learning.tokens as f64 / fitting.elapsed().as_secs_f64();
    train::write_weights(&decoder.weights, init.precision, folder.path())?;

    // What was stored is measured: it is rounded to the config's dtype.
    let stored = Decoder::load(folder.path())?;
    let measured = (!held_back.examples.is_empty()).then(|| measure(&stored, &held_back.examples)).transpose()?;
    let summary = TrainingSummary {
        out: args.out.display().to_string(),
        rows_rejected: corpus.rejected,
        traces: learned.examples.len(),
        traces_cut: learned.cut,
        traces_left_out: learned.left_out,
        parameters: stored.weights.named().iter().map(|(_, tensor)| tensor.elem_count()).sum(),
        vocabulary,
        learning,
        held_back: measured.map(Into::into),
        tokens_per_second,
        seconds: begin.elapsed().as_secs_f64(),
    };
    folder.keep()?;
    Ok(print_as(args.format, &summary, || summary.table())?)
}

/// The config that a model begins with.
struct Init {
    /// As it was given.
    given: Value,
    /// What it means.
    config: ModelConfig,
    /// How weights are stored.
    precision: Precision,
}

impl Init {
    fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |found: String| Failure::Usage(format!("{}: {found}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        let config = ModelConfig::parse(&text).map_err(wrong)?;
        let given = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let precision = Precision::of(&given).map_err(wrong)?;
        Ok(Self { given, config, precision })
    }
}
