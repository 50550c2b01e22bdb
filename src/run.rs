//! `asap run`: a pipeline over a corpus, committed to a table.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::run::{Estimate, Request, Summary, estimate, run as run_pipeline};
use asap_udfs::llm::Usage;

use crate::cli::{Failure, SettingArgs};
use crate::config;
use crate::output::{complain, count, print};
use crate::progress::Bar;

/// Run a pipeline over a corpus and commit what it returns to a Delta table
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap run pipelines/sql/asap.sql --from data/sample --to out/pruned
  asap run pipelines/sql/asap.sql --from traces.parquet --to out/short --set asap.refine.max_tokens=2048
  asap run pipelines/sql/truncate.sql --from data/sample --to out/truncated --limit 100 --format json
  asap run pipelines/sql/asap.sql --from DIR --to OUT --dry-run --set asap.anchor.provider=openai …
  asap run mine.sql --from DIR --to OUT --columns question=Prompt,cot=Reasoning,answer=Reply

The same command again finds what is done in the table's own log and does nothing twice.")]
pub struct RunArgs {
    /// The pipeline: a file with one SELECT over the table corpus
    #[arg(value_name = "PIPELINE")]
    pipeline: PathBuf,
    /// The corpus: a folder or file of Parquet in any published shape
    #[arg(long, value_name = "LOC")]
    from: String,
    /// The output: a new folder, or one that this pipeline filled before
    #[arg(long, value_name = "LOC")]
    to: String,
    /// Say which columns are question, cot and answer, where that cannot be recognised; without an answer, cot is the
    /// whole generation: the chain between think tags, then the answer
    #[arg(long, value_name = "question=…,cot=…,answer=…")]
    columns: Option<String>,
    /// Read at most so many input rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Say what the run would ask of a language model and what that would cost; nothing is asked, paid or written. An
    /// answer of ai_complete counts with asap.anchor.max_tokens, and what a model thinks before it answers is not known
    #[arg(long)]
    dry_run: bool,
    /// How the summary is printed; json is one object on the last line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
    #[command(flatten)]
    settings: SettingArgs,
}

/// How the summary of a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// For people.
    Table,
    /// For machines: one JSON object on the last line.
    Json,
}

/// Runs the pipeline and prints its summary.
pub async fn run(args: RunArgs) -> Result<(), Failure> {
    let settings = config::load(&args.settings)?;
    let sql = std::fs::read_to_string(&args.pipeline)
        .map_err(|error| Failure::Usage(format!("cannot read the pipeline {}: {error}", args.pipeline.display())))?;
    let request = Request {
        name: args.pipeline.display().to_string(),
        sql,
        from: args.from,
        to: args.to,
        columns: args.columns.as_deref().map(str::parse::<ColumnMapping>).transpose()?,
        limit: args.limit,
        settings,
    };
    let bar = Bar::new("pruning");
    let stop = async {
        // Without a handler the process is simply ended by the signal.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    if args.dry_run {
        let result = estimate(request, &bar, stop).await;
        bar.finish();
        let estimate = result?;
        return print_as(args.format, &estimate, || estimate_table(&estimate));
    }
    let result = run_pipeline(request, &bar, stop).await;
    bar.finish();
    let summary = result?;
    for note in &summary.notes {
        complain(&format!("note: {note}"));
    }
    print_as(args.format, &summary, || table(&summary))
}

/// Prints what was found, as a line of JSON or as a table.
pub fn print_as(format: SummaryFormat, found: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Failure> {
    let text = match format {
        SummaryFormat::Json => serde_json::to_string(found).map_err(|error| Failure::Failed(error.to_string()))?,
        SummaryFormat::Table => table(),
    };
    Ok(print(&text)?)
}

/// The estimate as a person reads it.
fn estimate_table(estimate: &Estimate) -> String {
    let Estimate { from, to, rows, anchor, .. } = estimate;
    let lines = [
        format!("{from} -> {to} (dry run: nothing was asked, paid or written)"),
        String::new(),
        format!("rows      {}", count(*rows)),
        format!("calls     {}, if the first answer for each row is accepted", count(anchor.calls)),
        format!("cached    {} requests, paid before or equal to another", count(anchor.cache_hits)),
        format!(
            "tokens    {} in, {} out, in the scoring model's tokenizer",
            count(anchor.tokens_in),
            count(anchor.tokens_out)
        ),
        format!("cost      {:.4}, by the prices that are set", anchor.cost),
    ];
    lines.join("\n")
}

/// What the calls to a language model took, if there were any.
pub fn calls(anchor: &Usage) -> Option<String> {
    let Usage { calls, cache_hits, retries, failed, tokens_in, tokens_out, cost } = *anchor;
    (calls + cache_hits > 0).then(|| {
        format!(
            "calls     {} ({} retries, {} requests failed), {} answers from the cache; {} tokens in, {} out; cost {cost:.4}",
            count(calls),
            count(retries),
            count(failed),
            count(cache_hits),
            count(tokens_in),
            count(tokens_out)
        )
    })
}

/// The summary as a person reads it in five seconds.
fn table(summary: &Summary) -> String {
    let version = summary.table_version.map_or(String::new(), |version| format!(" (table version {version})"));
    let mut lines = vec![format!("{} -> {}{version}", summary.from, summary.to)];
    if summary.nothing_to_do {
        lines.push("nothing to do: every row of the input is already in the output".to_string());
        return lines.join("\n");
    }
    lines.push(String::new());
    lines.push(format!(
        "rows      {} in, {} out, {} rejected, {} filtered, {} emptied",
        count(summary.rows_in),
        count(summary.rows_out),
        count(summary.rows_rejected),
        count(summary.rows_filtered),
        count(summary.rows_emptied)
    ));
    if !summary.rejects.is_empty() {
        let reasons: Vec<_> =
            summary.rejects.iter().map(|(status, rows)| format!("{status} {}", count(*rows))).collect();
        lines.push(format!("rejects   {} (see {}/_asap/rejects)", reasons.join(", "), summary.to));
    }
    lines.extend(calls(&summary.anchor));
    lines.extend(stages(summary));
    let parts: Vec<_> =
        summary.seconds_by_part.iter().map(|(part, seconds)| format!("{part} {seconds:.1} s")).collect();
    lines.push(String::new());
    lines.push(format!("time      {:.1} s ({}, summed over threads)", summary.seconds, parts.join(", ")));
    lines.join("\n")
}

/// Tokens and steps after each stage.
fn stages(summary: &Summary) -> Vec<String> {
    let Some(original) = summary.tokens_in else { return Vec::new() };
    let mut lines = vec![String::new(), format!("{:<10}{:>14}{:>9}{:>12}", "", "tokens", "ratio", "steps")];
    let stages = [
        ("original", summary.tokens_in, summary.steps_in),
        ("coarse", summary.tokens_coarse, None),
        ("pruned", summary.tokens_out, summary.steps_out),
    ];
    for (stage, tokens, steps) in stages {
        let Some(tokens) = tokens else { continue };
        let ratio = if original == 0 { 0.0 } else { 100.0 * tokens as f64 / original as f64 };
        let steps = steps.map(count).unwrap_or_default();
        lines.push(format!("{stage:<10}{:>14}{ratio:>7.1} %{steps:>12}", count(tokens)).trim_end().to_string());
    }
    lines
}
