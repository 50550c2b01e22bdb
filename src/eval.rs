//! `asap eval`: evaluates a model on the paper's benchmarks, compares two evaluations, and makes tables of several.

use std::num::NonZeroU32;

use asap_eval::{Bench, Format, Request};
use asap_udfs::Settings;
use clap::Args;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::at_least_one;

/// Flags without which a command evaluates a model: those of comparisons and tables.
const WITHOUT_BENCH: [&str; 7] = ["compare", "table", "base", "no_accuracy", "published", "svg", "svg_budgets"];

/// Evaluate a model on a benchmark, compare two evaluations, or make tables of several
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap eval --bench gsm8k --data test.jsonl --endpoint http://localhost:8000/v1 --model out/model --to out/eval/gsm8k
  asap eval --bench math500 --data test.jsonl --model out/model --budget 1024,2048,4096 --to out/eval/math500
  asap eval --bench aime24 --data aime24.jsonl --model org/name --samples 16 --temperature 0.6 --top-p 0.95 --to out/eval/aime24
  asap eval --compare out/eval/original out/eval/pruned
  asap eval --table original=out/original-gsm8k --table asap=out/asap-gsm8k --base original --svg figure.svg

asap reads the published file of a benchmark and downloads nothing. With --endpoint, a server such as vLLM answers.
Without --endpoint, asap loads the model from a folder and answers.

Run the same command again to resume, or to grade the stored responses again without a call.")]
pub struct EvalArgs {
    /// Evaluate on this benchmark
    #[arg(long, value_enum, ignore_case = true, required_unless_present_any = WITHOUT_BENCH, requires = "to")]
    bench: Option<Bench>,
    /// Read the problems from this file: JSON lines, also compressed with gzip. May be repeated
    #[arg(long, value_name = "FILE", required_unless_present_any = WITHOUT_BENCH)]
    data: Vec<String>,
    /// Ask this endpoint, which serves an API like OpenAI's
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Ask this model: with --endpoint, its name at the endpoint; without --endpoint, a folder in Hugging Face's layout
    #[arg(long, value_name = "NAME|DIR", required_unless_present_any = WITHOUT_BENCH)]
    model: Option<String>,
    /// Set the maximum tokens of a response. Several budgets are evaluated at once [default: the budget of the paper]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = at_least_one::<NonZeroU32>)]
    budget: Vec<NonZeroU32>,
    /// Ask for K responses to each problem
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = at_least_one::<u32>)]
    samples: u32,
    /// Divide logits by T before a token is sampled. At 0, take the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = crate::generate::not_below_zero)]
    temperature: f64,
    /// Sample only from the smallest set of likeliest tokens whose total probability is at least P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = crate::generate::share)]
    top_p: f64,
    /// End a response before this text. May be repeated
    #[arg(long, value_name = "TEXT", value_parser = crate::generate::not_empty)]
    stop: Vec<String>,
    /// Ask by this prompt, a file with the placeholder {question} and, for code, {starter}, instead of asap's own
    #[arg(long, value_name = "FILE", requires = "bench")]
    prompt: Option<String>,
    /// Append this text to each prompt, with the escapes \n and \t, such as the ratio of TokenSkip
    #[arg(long, value_name = "TEXT", requires = "bench", default_value_t, hide_default_value = true)]
    suffix: String,
    /// Keep N requests in flight
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least_one::<u32>)]
    concurrency: u32,
    /// Evaluate on the first N problems
    #[arg(long, value_name = "N", value_parser = at_least_one::<usize>)]
    limit: Option<usize>,
    /// Write the responses to this folder: a new folder, or the folder of an evaluation of the same model and benchmark
    #[arg(long, value_name = "LOC")]
    to: Option<String>,
    /// Also write one row for each question, with all responses to it, for the pipelines shortest_correct and
    /// closest_correct
    #[arg(long, value_name = "LOC", requires = "bench")]
    generations: Option<String>,
    /// Run programs with this Python
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: String,
    /// Put the evaluation LOC into the tables as NAME. May be repeated; a name may have several benchmarks, and several
    /// seeds, which are averaged
    #[arg(long, value_name = "NAME=LOC", num_args = 1.., value_parser = named, conflicts_with_all = ["bench", "data", "model", "endpoint", "to", "compare"])]
    table: Vec<(String, String)>,
    /// Show the changes to this name of --table
    #[arg(long, value_name = "NAME", requires = "table")]
    base: Option<String>,
    /// Print the accuracies of --table as –, for this reason
    #[arg(long, value_name = "REASON", requires = "table")]
    no_accuracy: Option<String>,
    /// Show the 95 % intervals of the changes in Markdown and LaTeX, too. JSON and CSV always hold them
    #[arg(long, requires = "base")]
    intervals: bool,
    /// Put printed values next to those of --table, with the differences: those of the ASAP paper, or of a TOML file of yours
    #[arg(long, value_name = "paper|FILE", requires = "table")]
    published: Option<String>,
    /// Also draw accuracy against tokens into this file
    #[arg(long, value_name = "FILE", requires = "table")]
    svg: Option<String>,
    /// Also draw accuracy under token budgets, as the paper's figure 4 does, into this file
    #[arg(long, value_name = "FILE", requires = "table")]
    svg_budgets: Option<String>,
    /// Compare two evaluations of the same problems
    #[arg(long, value_name = "LOC", num_args = 2, conflicts_with_all = ["bench", "data", "model", "endpoint", "to"])]
    compare: Vec<String>,
    /// Set the output format; json prints one object on the last line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    settings: SettingArgs,
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, location) = text.split_once('=').ok_or("expected NAME=LOC, such as asap=out/eval/asap")?;
    match name.is_empty() || location.is_empty() {
        true => Err("expected a name and a location around the =".to_string()),
        false => Ok((name.to_string(), location.to_string())),
    }
}

pub async fn run(args: EvalArgs) -> Result<(), Failure> {
    // Tables and comparisons need no settings.
    let settings = if args.bench.is_some() { config::load(&args.settings)? } else { Settings::default() };
    let EvalArgs {
        bench,
        data,
        endpoint,
        model,
        budget,
        samples,
        temperature,
        top_p,
        stop,
        prompt,
        suffix,
        concurrency,
        limit,
        to,
        generations,
        python,
        table,
        base,
        no_accuracy,
        intervals,
        published,
        svg,
        svg_budgets,
        compare,
        format,
        settings: _,
    } = args;
    asap_eval::run(Request {
        bench,
        data,
        endpoint,
        model,
        budget,
        samples,
        temperature,
        top_p,
        stop,
        prompt,
        suffix,
        concurrency,
        limit,
        to,
        generations,
        python,
        table,
        base,
        no_accuracy,
        intervals,
        published,
        svg,
        svg_budgets,
        compare,
        format,
        settings,
    })
    .await
}
