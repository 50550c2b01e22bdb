//! `asap generate`: answers questions with a model, to inspect and evaluate it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use asap_llm::Llm;
use asap_lm::generate::{self, Finish, Generated, Generator, SampleIndex};
use asap_lm::sampling::Sampling;
use asap_lm::{LmError, locate};
use asap_pipelines::corpus::{ColumnMapping, Corpus};
use asap_pipelines::reasons::Reasons;
use asap_pipelines::run::Observer;
use asap_pipelines::session::session;
use asap_udfs::Settings;
use clap::Args;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::config;
use crate::failure::Failure;
use crate::output::{at_least_one, count, error_line, note, print, reasons, several, without_system};
use crate::progress::{Bar, while_opening};
use crate::rows;

const AHEAD: usize = 256;

/// Answer questions with a model through its chat template
///
/// With --prompt, asap prints the answer as plain text. With --data, asap prints one line of JSON for each row, in the
/// order of the rows.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("asked").required(true).args(["prompt", "data"]),
    after_help = "\
Examples:
  asap generate --model out/model --prompt \"What is 17 + 25?\"
  asap generate --model out/model --data data/sample --max-tokens 512 > answers.json
  asap generate --model Qwen/Qwen3-0.6B --data math500.parquet --column problem --samples 8 --temperature 0.6 --top-p 0.95 > answers.json
  asap sql -c \"SELECT avg(CAST(cot_verify(a.answer, g.text) AS INT)) FROM 'answers.json' g JOIN 'math500.parquet' a ON a.problem = g.question\""
)]
pub struct GenerateArgs {
    /// Use this model: a folder in Hugging Face's layout, org/name on the Hub, or small (the model that asap
    /// includes)
    #[arg(long, value_name = "DIR")]
    model: String,
    /// Answer this question
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Answer the questions of a Delta table, or of a folder or file of Parquet or JSON lines
    #[arg(long, value_name = "LOC")]
    data: Option<String>,
    /// Read the questions from this column [default: the column that asap inspect recognizes]
    #[arg(long, value_name = "C", conflicts_with = "prompt")]
    column: Option<String>,
    /// Set the maximum tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = at_least_one::<u32>)]
    max_tokens: u32,
    /// Generate K answers to each question
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = at_least_one::<u32>)]
    samples: u32,
    /// Divide logits by T before a token is sampled. At 0, take the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = not_below_zero)]
    temperature: f64,
    /// Sample only from the smallest set of likeliest tokens whose total probability is at least P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = share)]
    top_p: f64,
    /// End an answer before this text. May be repeated
    #[arg(long, value_name = "TEXT", value_parser = not_empty)]
    stop: Vec<String>,
    /// Seed the sampling: the same seed gives the same answers
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
}

pub(crate) fn not_below_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number of at least 0, such as 0.6".to_string())
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "expected a number above 0 and at most 1, such as 0.95".to_string())
}

pub(crate) fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected a text, found an empty one".to_string()) } else { Ok(text.to_string()) }
}

struct Question {
    /// The file and the row; None for a question of the command line.
    source: Option<(String, i64)>,
    asked: generate::Question,
}

#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    row: i64,
    sample: u64,
    question: &'a str,
    text: Option<String>,
    tokens_in: Option<usize>,
    tokens_out: Option<usize>,
    finish: Option<&'static str>,
    error: Option<String>,
}

pub async fn run(args: GenerateArgs) -> Result<(), Failure> {
    if args.samples > 1 && args.temperature == 0.0 {
        let what =
            format!("--samples {} gives equal answers at --temperature 0: set a temperature above 0", args.samples);
        return Err(Failure::Usage(what));
    }
    if args.top_p < 1.0 && args.temperature == 0.0 {
        return Err(Failure::Usage("--top-p has no effect at --temperature 0: set a temperature above 0".to_string()));
    }
    config::apply()?;
    let folder = locate(&args.model)?;
    let context = session(Settings::default(), &Llm::default())?;
    let (send, questions) = mpsc::channel(AHEAD);
    let bar = Bar::new("answering", std::io::stdout().is_terminal());
    match (&args.prompt, &args.data) {
        (Some(text), _) => {
            let asked = generate::Question { system: None, text: text.clone() };
            let question = Question { source: None, asked };
            bar.begin(u64::from(args.samples), 1);
            tokio::spawn(async move { send.send(Ok(question)).await });
        }
        (None, Some(location)) => {
            let opened = opened(&context, location, args.column.as_deref());
            let corpus = while_opening(std::slice::from_ref(location), opened).await?;
            bar.begin(corpus.rows() * u64::from(args.samples), 1);
            tokio::spawn(async move {
                if let Err(failure) = send_all(&context, &corpus, &send).await {
                    // A closed receiver does not need the failure.
                    drop(send.send(Err(failure)).await);
                }
            });
        }
        (None, None) => {
            return Err(Failure::Usage(
                "expected a question (--prompt) or a corpus (--data), found neither".to_string(),
            ));
        }
    }
    // The rows are opened first, because a model takes seconds to load.
    let answering = tokio::task::spawn_blocking(move || {
        let generator = Generator::load(&folder, &Arc::default())?;
        let begun = Instant::now();
        Ok::<_, Failure>((answer(generator, &args, questions, &bar)?, begun.elapsed().as_secs_f64()))
    });
    let (Printer { answers, refused, why, unsaid, tokens, .. }, seconds) =
        answering.await.map_err(|error| Failure::Failed(format!("answering stopped: {error}")))??;
    let rate = count((tokens as f64 / f64::max(seconds, 1e-9)) as u64);
    note(format!("{}, {} tokens, {rate} tokens/s", several(answers, "answer"), count(tokens)));
    without_system(unsaid).iter().for_each(note);
    if refused > 0 {
        let what = "could not be asked; the field error of their output lines shows why";
        note(format!("{} {what}{}", several(refused, "question"), reasons(&why)));
    }
    Ok(())
}

async fn opened(context: &SessionContext, location: &str, column: Option<&str>) -> Result<Corpus, Failure> {
    let mapping = column.map(|column| ColumnMapping {
        question: column.to_string(),
        cot: column.to_string(),
        ..ColumnMapping::default()
    });
    let corpus = Corpus::open(&context.state(), location, mapping.as_ref()).await.map_err(|error| match column {
        None if error_line(&error).contains("--columns") => Failure::Failed(format!(
            "no column of {location} is recognized as the question: name it with --column; asap inspect shows the columns"
        )),
        _ => error.into(),
    })?;
    corpus.notes.iter().for_each(note);
    Ok(corpus)
}

async fn send_all(
    context: &SessionContext,
    corpus: &Corpus,
    send: &mpsc::Sender<Result<Question, Failure>>,
) -> Result<(), Failure> {
    let (mut batches, mut empty) = (rows::in_order(context, corpus, ["question", "system"].map(rows::text)).await?, 0);
    while let Some(batch) = batches.try_next().await? {
        let [files, questions, systems] = [0, 2, 3].map(|column| batch.column(column).as_string_view());
        let rows = batch.column(1).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            if questions.is_null(row) {
                empty += 1;
                continue;
            }
            let source = Some((files.value(row).to_string(), rows.value(row)));
            let system = systems.is_valid(row).then(|| systems.value(row).to_string());
            let asked = generate::Question { system, text: questions.value(row).to_string() };
            let question = Question { source, asked };
            if send.send(Ok(question)).await.is_err() {
                return Ok(());
            }
        }
    }
    if empty > 0 {
        note(format!("{} rows have no question", count(empty)));
    }
    Ok(())
}

/// Answers the questions and prints the answers in their order.
fn answer(
    mut generator: Generator,
    args: &GenerateArgs,
    mut questions: mpsc::Receiver<Result<Question, Failure>>,
    bar: &Bar,
) -> Result<Printer, Failure> {
    let samples = u64::from(args.samples);
    let drops_system = generator.drops_system();
    let printer = RefCell::new(Printer { samples, drops_system, ..Printer::default() });
    let failure = Cell::new(None);
    let fail = |failed| failure.set(Some(failed));
    let asked = std::iter::from_fn(|| {
        let question = questions.blocking_recv()?.map_err(fail).ok()?;
        Some(printer.borrow_mut().ask(question))
    });
    let each = |place: SampleIndex, answer: Result<Generated, LmError>| {
        bar.advance(1, answer.as_ref().map_or(0, |answer| answer.tokens_out as u64));
        printer.borrow_mut().answer(place, answer).map_err(fail).is_ok()
    };
    let GenerateArgs { temperature, top_p, seed, ref stop, .. } = *args;
    let sampling = Sampling { temperature, top_p, seed, max_tokens: args.max_tokens as usize, stop: stop.clone() };
    generator.answer_all(asked, samples, sampling, each, &|| true);
    bar.finish();
    failure.take().map_or(Ok(printer.into_inner()), Err)
}

#[derive(Default)]
struct Printer {
    samples: u64,
    drops_system: bool,
    asked: u64,
    questions: BTreeMap<u64, Question>,
    waiting: BTreeMap<SampleIndex, (String, bool)>,
    next: SampleIndex,
    answers: u64,
    refused: u64,
    /// Why the chat template refuses questions.
    why: Reasons,
    /// Questions whose system prompt the chat template does not print.
    unsaid: u64,
    tokens: u64,
}

impl Printer {
    fn ask(&mut self, question: Question) -> generate::Question {
        let asked = question.asked.clone();
        self.unsaid += u64::from(self.drops_system && asked.system.is_some());
        self.questions.insert(self.asked, question);
        self.asked += 1;
        asked
    }

    fn answer(&mut self, place: SampleIndex, answer: Result<Generated, LmError>) -> Result<(), Failure> {
        match &answer {
            Ok(answer) => (self.answers, self.tokens) = (self.answers + 1, self.tokens + answer.tokens_out as u64),
            Err(error) => {
                self.refused += 1;
                if let LmError::Prompt(why) = error {
                    self.why.count(why, 1);
                }
            }
        }
        let Some(question) = self.questions.get(&place.question) else { return Ok(()) };
        let is_last = answer.is_err() || place.sample + 1 == self.samples;
        let text = match (&question.source, answer) {
            (None, answer) => answer?.text,
            (Some((file, row)), answer) => line(file, *row, &question.asked.text, place, answer)?,
        };
        self.waiting.insert(place, (text, is_last));
        while let Some((text, is_last)) = self.waiting.remove(&self.next) {
            print(&text)?;
            if is_last {
                self.questions.remove(&self.next.question);
                self.next = SampleIndex { question: self.next.question + 1, sample: 0 };
            } else {
                self.next.sample += 1;
            }
        }
        Ok(())
    }
}

/// Formats an answer as a line of JSON, or why its question cannot be asked. A failure of the model is an error.
fn line(
    file: &str,
    row: i64,
    question: &str,
    SampleIndex { sample, .. }: SampleIndex,
    answer: Result<Generated, LmError>,
) -> Result<String, Failure> {
    let (answer, error) = match answer {
        Ok(answer) => (Some(answer), None),
        Err(error @ (LmError::TooLong { .. } | LmError::Prompt(_))) => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let (tokens_in, tokens_out) = answer.as_ref().map(|answer| (answer.tokens_in, answer.tokens_out)).unzip();
    let finish = answer.as_ref().map(|answer| match answer.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    });
    let text = answer.map(|answer| answer.text);
    let line = Line { file, row, sample, question, text, tokens_in, tokens_out, finish, error };
    Ok(serde_json::to_string(&line)?)
}
