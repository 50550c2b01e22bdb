//! `asap model`: describes a model, its prompt, and its scoring speed on this machine.

use std::sync::Arc;
use std::time::Duration;

use asap_llm::Llm;
use asap_lm::config::{Limits, ModelConfig};
use asap_lm::{LmError, PromptTemplate, QuestionAndSteps, Reading, Scorer, Wanted, locate};
use asap_pipelines::corpus::Corpus;
use asap_pipelines::location::command;
use asap_pipelines::session::session;
use asap_udfs::settings::ScorerBackend;
use asap_udfs::{Models, Settings, scorers};
use clap::Args;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::{SummaryFormat, count, note, print_as, rough};

/// Tokens of a scored chain, if no corpus gives the length.
const CHAIN_TOKENS: usize = 4096;
/// How long to score chains of the full length, in the time of all cores.
const MEASURED: Duration = Duration::from_secs(1);
/// Short texts that are read to measure a pass.
#[cfg(feature = "eval")]
const PASSES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(15);
const QUESTION: &str = "What is 17 + 25?";

/// Describe a model: family, memory, window, prompt, and scoring speed on this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap model small
  asap model models/r1-distill-7b --set asap.scorer.dtype=bf16
  asap model Qwen/Qwen2.5-0.5B --tokens 600000000
  asap model Qwen/Qwen2.5-0.5B --from traces

With --from, the measured chains have the average length of the chains in that corpus. Without --from, the chains have
4,096 tokens. If a model is too slow for this length, asap uses shorter chains, and the table shows their length. On
CPUs, asap measures CPU time, so other work on the machine does not count.

asap downloads a model such as Qwen/Qwen2.5-0.5B from the Hugging Face Hub, unless it is in the cache on this machine.")]
pub struct ModelArgs {
    /// A folder in Hugging Face's layout, org/name on the Hub, or small (the model that asap includes)
    #[arg(value_name = "MODEL")]
    model: String,
    /// Estimate the time to score N tokens
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = amount)]
    tokens: u64,
    /// Estimate the time to score the chains of this corpus: a Delta table, or a folder or file of Parquet or JSON lines
    #[arg(long, value_name = "LOC", conflicts_with = "tokens")]
    from: Option<String>,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Parses a number of tokens, also with a unit, such as 600M.
fn amount(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.strip_suffix(['K', 'k']).map(|number| (number, 1e3)) {
        Some(found) => found,
        None => match text.strip_suffix('M').map(|number| (number, 1e6)) {
            Some(found) => found,
            None => text.strip_suffix(['B', 'G']).map_or((text, 1.0), |number| (number, 1e9)),
        },
    };
    let wrong = || "expected a number of tokens, such as 600000000 or 600M".to_string();
    let number = number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(wrong)?;
    Ok((number * factor) as u64)
}

#[derive(Debug, Serialize)]
struct Described {
    folder: String,
    /// None for a family that only `torch` or a server runs.
    family: Option<String>,
    layers: Option<usize>,
    hidden_size: Option<usize>,
    parameters: u64,
    bytes_f32: u64,
    bytes_bf16: u64,
    vocabulary: usize,
    prompt: String,
    /// What to know of the chat template.
    template: Vec<String>,
    #[serde(flatten)]
    speed: Speed,
    corpus_tokens: u64,
    /// The other backends that run the model on this machine.
    others: Vec<Speed>,
}

/// How fast a backend reads chains.
#[derive(Debug, Serialize)]
struct Speed {
    computed_as: String,
    window_tokens: usize,
    tokens_per_second: f64,
    row_tokens: usize,
    corpus_seconds: f64,
}

impl Speed {
    /// Measures the backend that settings choose; None if the window is too small.
    async fn of(settings: &Settings, wanted: usize, corpus_tokens: u64) -> Result<Option<Self>, Failure> {
        let (scorer, settings) = opened(settings)?;
        let on_cores = scorers::settled(&settings).runs == scorers::Runs::Here;
        let computed_as = scorers::Place::of_scorer(&settings).to_string();
        let measured = measure(&scorer, wanted, on_cores).await?;
        Ok(measured.map(|(tokens_per_second, row_tokens)| {
            let corpus_seconds = corpus_tokens as f64 / tokens_per_second;
            Self { computed_as, window_tokens: scorer.window(), tokens_per_second, row_tokens, corpus_seconds }
        }))
    }
}

/// The scoring model, and the settings with the backend that runs it.
fn opened(settings: &Settings) -> Result<(Arc<Scorer>, Settings), Failure> {
    let mut settings = settings.clone();
    scorers::settle(&mut settings, None);
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings.clone());
    Ok((Models::default().scorer(&options)?, settings))
}

pub async fn run(args: ModelArgs) -> Result<(), Failure> {
    let settings = Settings { scorer_model: args.model.clone(), ..config::load(&args.settings)? };
    let wrong = |error: LmError| match error.is_unavailable() {
        true => Failure::from(error),
        false => match error.to_string() {
            said if said.contains(&args.model) => Failure::Usage(said),
            said => Failure::Usage(format!("{}: {said}", args.model)),
        },
    };
    let folder = locate(&args.model).map_err(wrong)?;
    let limits = Limits::load(&folder).map_err(wrong)?;
    let config = ModelConfig::load(&folder).ok();
    config.iter().flat_map(|config| &config.notes).for_each(note);
    let window = config.as_ref().map_or(limits.window, |config| config.max_position_embeddings);
    let (prompt, template) = PromptTemplate::load(&folder, settings.scorer_prompt.as_deref())
        .and_then(|prompt| Ok((prompt.render(prompt.ask(QUESTION))?, prompt.remarks())))
        .map_err(wrong)?;
    let (corpus_tokens, chain_tokens) = match &args.from {
        Some(from) => read(from, &settings).await?,
        None => (args.tokens, CHAIN_TOKENS),
    };
    let wanted = chain_tokens.min(window);
    let Some(speed) = Speed::of(&settings, wanted, corpus_tokens).await? else {
        let window = count(window as u64);
        let what = format!("{}: its window of {window} tokens is too small for a question and a step", args.model);
        return Err(Failure::Failed(what));
    };
    let mut others = Vec::new();
    let is_open = settings.scorer_backend == ScorerBackend::AUTO && settings.scorer_device.is_none();
    for kind in scorers::kinds().into_iter().filter(|_| is_open) {
        // Most machines lack some of them.
        let other = Settings { scorer_backend: ScorerBackend::of(kind.name()), ..settings.clone() };
        let other = Speed::of(&other, wanted, corpus_tokens).await;
        others.extend(other.ok().flatten().filter(|other| other.computed_as != speed.computed_as));
    }
    let parameters = asap_lm::parameters(&folder).unwrap_or(0);
    let described = Described {
        folder: folder.display().to_string(),
        family: config.as_ref().map(|config| format!("{:?}", config.family)),
        layers: config.as_ref().map(|config| config.num_hidden_layers),
        hidden_size: config.as_ref().map(|config| config.hidden_size),
        parameters,
        bytes_f32: parameters * 4,
        bytes_bf16: parameters * 2,
        vocabulary: limits.vocabulary,
        prompt,
        template,
        speed,
        corpus_tokens,
        others,
    };
    Ok(print_as(args.format, &described, || table(&described))?)
}

/// Measures how fast the scoring model is on this machine.
#[cfg(feature = "eval")]
pub(crate) async fn speed(settings: &Settings) -> Result<asap_eval::exam::Speed, Failure> {
    let small = || Failure::Failed("the model's window is too small for a step".to_string());
    let tokens_per_second = Speed::of(settings, CHAIN_TOKENS, 0).await?.ok_or_else(small)?.tokens_per_second;
    let (scorer, _) = opened(settings)?;
    // Other work on the machine makes a pass longer, never shorter.
    let (mut seed, mut least) = (0, Duration::MAX);
    for _ in 0..PASSES {
        let begun = std::time::Instant::now();
        score(&scorer, 1, &mut seed).await?;
        least = least.min(begun.elapsed());
    }
    Ok(asap_eval::exam::Speed { tokens_per_second, seconds_per_pass: least.as_secs_f64() })
}

/// Returns the tokens of all chains of a corpus, and of one on average.
async fn read(from: &str, settings: &Settings) -> Result<(u64, usize), Failure> {
    let context = session(settings.clone(), &Llm::default())?;
    let corpus = Corpus::open(&context.state(), from, None).await?;
    context.register_table("corpus", Arc::new(corpus.view(&context.state())?))?;
    let sql = "SELECT count(tokens), coalesce(sum(tokens), 0) FROM (SELECT cot_tokens(cot) AS tokens FROM corpus)";
    let found = match context.sql(sql).await?.collect().await {
        Ok(found) => found,
        Err(error) => return Err(corpus.named(&context.state(), error).await.into()),
    };
    let [chains, tokens] = [0, 1].map(|column| {
        let numbers = found.iter().map(|batch| batch.column(column).as_primitive::<Int64Type>());
        numbers.flat_map(|numbers| numbers.values().iter().copied()).sum::<i64>().unsigned_abs()
    });
    if chains == 0 {
        return Err(Failure::Failed(format!(
            "{from} has no chain ({} shows how it is read)",
            command(&["asap", "inspect", from])
        )));
    }
    Ok((tokens, tokens.div_ceil(chains) as usize))
}

/// Scores distinct chains: first a short one, so that a large model does not take minutes, then longer ones up to
/// `wanted` tokens. Returns the tokens per second and of the last chain, or None if the window is too small for a
/// question and a step.
async fn measure(scorer: &Scorer, wanted: usize, on_cores: bool) -> asap_lm::Result<Option<(f64, usize)>> {
    let (mut steps, mut seed, mut found) = (1, 0, None);
    loop {
        let (mut spent, mut read) = (Duration::ZERO, 0);
        let tokens = loop {
            let begun = now(on_cores);
            let Some(tokens) = score(scorer, steps, &mut seed).await? else { return Ok(found) };
            (spent, read) = (spent + now(on_cores).saturating_sub(begun), read + tokens);
            let is_long_enough = tokens * (steps + 1) / steps > wanted;
            if !is_long_enough || spent >= MEASURED {
                break tokens;
            }
        };
        found = Some((read as f64 / spent.as_secs_f64().max(1e-9), tokens));
        let longer = (steps * 2).min(steps * wanted / tokens);
        if longer <= steps || spent > PATIENCE {
            return Ok(found);
        }
        steps = longer;
    }
}

/// The time: on CPUs the CPU time of this process divided by the cores, else wall time.
fn now(on_cores: bool) -> Duration {
    let clock = if on_cores { ClockId::CLOCK_PROCESS_CPUTIME_ID } else { ClockId::CLOCK_MONOTONIC };
    let cores = if on_cores { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from) / cores as u32
}

/// Scores a chain of `steps` steps and returns its tokens, or None if it is longer than the window.
async fn score(scorer: &Scorer, steps: usize, seed: &mut u64) -> asap_lm::Result<Option<usize>> {
    let chain: Vec<String> = (0..steps).map(|_| step(seed)).collect();
    let steps = chain.iter().map(String::as_str).collect();
    let reading = Reading::Chain(QuestionAndSteps::new(scorer.prompt().ask(QUESTION), steps));
    let prepared = scorer.prepare(&[reading], Wanted::FirstTokens)?;
    let (asked, tokens) = (prepared.calls(), prepared.tokens());
    scorer.score(prepared).await?;
    Ok((asked > 0).then_some(tokens))
}

fn step(seed: &mut u64) -> String {
    *seed += 1;
    let (a, b) = (*seed * 7 % 1000, *seed * 13 % 1000);
    let sum = a + b;
    format!("Step {seed}: adding {a} and {b} gives {sum}, so what is left to be shown is smaller than it was before.")
}

fn table(found: &Described) -> String {
    let gigabytes = |bytes: u64| match bytes {
        ..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    };
    let [f32, bf16] = [found.bytes_f32, found.bytes_bf16].map(gigabytes);
    let [parameters, tokens] = [found.parameters, found.corpus_tokens].map(count);
    let [window, vocabulary] = [found.speed.window_tokens, found.vocabulary].map(|number| count(number as u64));
    let family = match (&found.family, found.layers, found.hidden_size) {
        (Some(family), Some(layers), Some(width)) => {
            format!("{family}, {layers} layers of {}", count(width as u64))
        }
        _ => "not one of asap's own engine".to_string(),
    };
    let speed = |speed: &Speed| {
        let [rate, chain] = [speed.tokens_per_second as u64, speed.row_tokens as u64].map(count);
        format!("speed       {rate} tokens/s, {}, chains of {chain} tokens", speed.computed_as)
    };
    let corpus = |speed: &Speed| rough(speed.corpus_seconds.ceil() as u64);
    let mut lines = vec![
        found.folder.clone(),
        format!("family      {family}"),
        format!("parameters  {parameters}"),
        format!("memory      {f32} in f32, {bf16} in bf16"),
        format!("window      {window} tokens"),
        format!("vocabulary  {vocabulary} tokens"),
        speed(&found.speed),
        format!("corpus      {tokens} tokens take {}", corpus(&found.speed)),
    ];
    lines.extend(found.others.iter().map(|other| format!("{}: {}", speed(other), corpus(other))));
    lines.extend(found.template.iter().map(|remark| format!("template    {remark}")));
    lines.push(format!("prompt      what the model reads before the chain, for the question '{QUESTION}':"));
    lines.extend(found.prompt.lines().map(|line| format!("  | {line}")));
    lines.join("\n")
}
