//! `asap model`: what a model is, how it asks, and how fast it scores here.

use std::time::{Duration, Instant};

use asap_lm::config::ModelConfig;
use asap_lm::{PromptTemplate, QuestionAndSteps, Reading, Scorer, Wanted, locate};
use asap_udfs::{Models, Settings};
use clap::Args;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, config_datafusion_err};
use serde::Serialize;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::{SummaryFormat, complain, count, print_as, rough};

/// How long is measured.
const MEASURED: Duration = Duration::from_secs(2);
/// What a round of rows takes at least before it counts: shorter ones measure the clock.
const ROUND: Duration = Duration::from_millis(250);
/// Steps of a row at first, and at most: about 30 and 1,000 tokens.
const STEPS: (usize, usize) = (1, 32);
/// The question for which the prompt is shown.
const QUESTION: &str = "What is 17 + 25?";

/// Say what a model is: family, memory, window, its prompt, and how fast it scores on this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap model small
  asap model models/r1-distill-7b --set asap.scorer.dtype=bf16
  asap model Qwen/Qwen2.5-0.5B --tokens 600000000

A name such as Qwen/Qwen2.5-0.5B is looked for in the cache of the Hugging Face Hub; asap downloads nothing.")]
pub struct ModelArgs {
    /// A folder in Hugging Face's layout, org/name in the Hub's cache, or small, the one that asap brings
    #[arg(value_name = "MODEL")]
    model: String,
    /// Say how long a corpus of so many tokens would take
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    tokens: u64,
    /// How it is printed; json is one line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
    #[command(flatten)]
    settings: SettingArgs,
}

/// What is said of a model.
#[derive(Debug, Serialize)]
struct Described {
    folder: String,
    family: String,
    layers: usize,
    hidden_size: usize,
    parameters: u64,
    bytes_f32: u64,
    bytes_bf16: u64,
    window_tokens: usize,
    vocabulary: usize,
    /// What stands before the first step of a chain that answers a question.
    prompt: String,
    computed_as: String,
    tokens_per_second: f64,
    /// Tokens of a row while that was measured.
    row_tokens: usize,
    corpus_tokens: u64,
    corpus_seconds: f64,
}

/// Prints what a model is.
///
/// # Errors
/// If it is none, or not one that asap computes.
pub async fn run(args: ModelArgs) -> Result<(), Failure> {
    let settings = Settings { scorer_model: args.model.clone(), ..config::load(&args.settings)? };
    let wrong = |error: asap_lm::LmError| -> DataFusionError { config_datafusion_err!("{}: {error}", args.model) };
    let folder = locate(&args.model).map_err(wrong)?;
    let config = ModelConfig::load(&folder).map_err(wrong)?;
    config.notes.iter().for_each(|note| complain(&format!("note: {note}")));
    let prompt = PromptTemplate::load(&folder, settings.scorer_prompt.as_deref())
        .and_then(|prompt| prompt.render(QUESTION.into()))
        .map_err(wrong)?;
    let computed_as = format!("{:?} on {:?}", settings.scorer_dtype, settings.scorer_device).to_lowercase();
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings);
    let scorer = Models::default().scorer(&options)?;
    let Some(Speed { tokens_per_second, row_tokens }) = measure(&scorer).await.map_err(wrong)? else {
        let window = count(config.max_position_embeddings as u64);
        let what = format!("{}: its window of {window} tokens holds not even a question and a step", args.model);
        return Err(Failure::Failed(what));
    };
    let parameters = config.parameters();
    let described = Described {
        folder: folder.display().to_string(),
        family: format!("{:?}", config.family),
        layers: config.num_hidden_layers,
        hidden_size: config.hidden_size,
        parameters,
        bytes_f32: parameters * 4,
        bytes_bf16: parameters * 2,
        window_tokens: config.max_position_embeddings,
        vocabulary: config.vocab_size,
        prompt,
        computed_as,
        tokens_per_second,
        row_tokens,
        corpus_tokens: args.tokens,
        corpus_seconds: args.tokens as f64 / tokens_per_second,
    };
    Ok(print_as(args.format, &described, || table(&described))?)
}

/// How fast chains are scored.
struct Speed {
    tokens_per_second: f64,
    row_tokens: usize,
}

/// Scores chains, none twice, for some seconds: first short ones, so that a large model does not begin with a minute. None if
/// the window holds not even a question and a step.
async fn measure(scorer: &Scorer) -> asap_lm::Result<Option<Speed>> {
    let rows = std::thread::available_parallelism().map_or(1, usize::from) * 2;
    let (mut steps, mut most) = STEPS;
    let (mut seed, mut spent) = (0, Duration::ZERO);
    let (mut tokens, mut row_tokens) = (0, 0);
    while spent < MEASURED {
        let begun = Instant::now();
        let Some((read, longest)) = score(scorer, rows, steps, &mut seed).await? else {
            if steps == 1 {
                return Ok(None);
            }
            steps /= 2;
            most = steps;
            continue;
        };
        let took = begun.elapsed();
        if took < ROUND && steps < most {
            steps *= 2;
            continue;
        }
        spent += took;
        tokens += read;
        row_tokens = longest;
    }
    Ok(Some(Speed { tokens_per_second: tokens as f64 / spent.as_secs_f64(), row_tokens }))
}

/// Scores rows of so many steps: the tokens of all, and of one; None if such a row is longer than the window.
async fn score(scorer: &Scorer, rows: usize, steps: usize, seed: &mut u64) -> asap_lm::Result<Option<(usize, usize)>> {
    let chains: Vec<Vec<String>> = (0..rows).map(|_| (0..steps).map(|_| step(seed)).collect()).collect();
    let readings: Vec<Reading> = chains
        .iter()
        .map(|steps| QuestionAndSteps { question: QUESTION.into(), steps: steps.iter().map(String::as_str).collect() })
        .map(Reading::Chain)
        .collect();
    let prepared = scorer.prepare(&readings, Wanted::FirstTokens)?;
    let (asked, tokens) = (prepared.calls(), prepared.tokens());
    if asked < rows {
        return Ok(None);
    }
    scorer.score(prepared).await?;
    Ok(Some((tokens, tokens / rows)))
}

/// A step that was not there before.
fn step(seed: &mut u64) -> String {
    *seed += 1;
    let (a, b) = (*seed * 7 % 1000, *seed * 13 % 1000);
    format!(
        "Step {seed}: adding {a} and {b} gives {}, so what is left to be shown is smaller than it was before.",
        a + b
    )
}

fn table(found: &Described) -> String {
    let gigabytes = |bytes: u64| match bytes {
        ..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    };
    let mut lines = vec![
        found.folder.clone(),
        format!("family      {}, {} layers of {}", found.family, found.layers, count(found.hidden_size as u64)),
        format!("parameters  {}", count(found.parameters)),
        format!("memory      {} in f32, {} in bf16", gigabytes(found.bytes_f32), gigabytes(found.bytes_bf16)),
        format!("window      {} tokens", count(found.window_tokens as u64)),
        format!("vocabulary  {} tokens", count(found.vocabulary as u64)),
        format!(
            "speed       {} tokens/s, {}, chains of {} tokens",
            count(found.tokens_per_second as u64),
            found.computed_as,
            count(found.row_tokens as u64)
        ),
        format!("corpus      {} tokens take {}", count(found.corpus_tokens), rough(found.corpus_seconds.ceil() as u64)),
        format!("prompt      what stands before the chain that answers '{QUESTION}':"),
    ];
    lines.extend(found.prompt.lines().map(|line| format!("  | {line}")));
    lines.join("\n")
}
