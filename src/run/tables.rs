//! Formats the summary of a run, and the estimate of a dry run.

use std::collections::BTreeMap;

use asap_pipelines::location::command;
use asap_pipelines::run::{Estimate, Summary};
use serde::Serialize;
use serde_json::Value;

use crate::output::{calls, count};

/// The summary of a run that failed after it began, and the error.
#[derive(Debug, Serialize)]
pub(crate) struct Broken<'a> {
    #[serde(flatten)]
    pub summary: &'a Summary,
    pub rows_read: u64,
    pub error: String,
}

const PRICES: &str = "asap.anchor.price_per_million_input_tokens and asap.anchor.price_per_million_output_tokens";

pub(crate) fn estimate_table(estimate: &Estimate) -> String {
    let Estimate { from, to, rows, anchor, scored_tokens, scored_is_estimate, encoder_tokens, .. } = estimate;
    let mut lines = vec![
        format!("{} -> {to} (dry run: nothing was sent, paid or written)\n", from.join(", ")),
        format!("rows      {}", count(*rows)),
        match anchor.calls {
            0 => "calls     none".to_string(),
            calls => format!("calls     {}, if the first answer for each row is accepted", count(calls)),
        },
    ];
    let deleted = estimate.rows_deleted.filter(|rows| *rows > 0);
    lines.extend(deleted.map(|rows| format!("deleted   {} rows of {to}, before the first new row", count(rows))));
    lines.extend(sampled(estimate.sample.as_ref()));
    if !estimate.rejects.is_empty() {
        let rows = count(estimate.rejects.values().sum());
        lines.push(format!("rejects   at least {rows}: {}", by_status(&estimate.rejects)));
    }
    if anchor.cache_hits > 0 {
        lines.push(format!("cached    {} requests, already paid or equal to another", count(anchor.cache_hits)));
    }
    if anchor.calls > 0 {
        let [read, written] = [anchor.tokens_in, anchor.tokens_out].map(count);
        lines.push(format!("tokens    {read} in, {written} out, counted with the tokenizer of asap.scorer.model"));
        lines.push(match anchor.cost > 0.0 {
            true => format!("cost      {:.4}, at the configured prices", anchor.cost),
            false => format!("cost      unknown: set {PRICES}"),
        });
    }
    if *scored_tokens > 0 {
        let (about, tokens) = (if *scored_is_estimate { "about " } else { "" }, count(*scored_tokens));
        let what = "tokens to read by asap.scorer.model (`asap model` estimates the time)";
        lines.push(format!("scoring   {about}{tokens} {what}"));
    }
    lines.extend(estimate.scorer.as_ref().map(|place| format!("scorer    {place}")));
    if let Some(place) = &estimate.encoder {
        lines.push(format!("encoding  {} tokens to read by asap.compressor.model", count(*encoder_tokens)));
        lines.push(format!("encoder   {place}"));
    }
    lines.join("\n")
}

fn by_status(rejects: &BTreeMap<String, u64>) -> String {
    rejects.iter().map(|(status, rows)| format!("{status} {}", count(*rows))).collect::<Vec<_>>().join(", ")
}

fn sampled(sample: Option<&Value>) -> Option<String> {
    let number = |name: &str| sample?.get(name)?.as_u64();
    let (rows, of, seed) = (number("rows")?, number("of")?, number("seed")?);
    Some(format!("sample    {} of {} rows, with the seed {seed}", count(rows), count(of)))
}

pub(super) fn table(summary: &Summary) -> String {
    let version = summary.table_version.map_or(String::new(), |version| format!(" (table version {version})"));
    let mut lines = vec![format!("{} -> {}{version}", summary.from.join(", "), summary.to)];
    let counts = &summary.counts;
    if summary.nothing_to_do {
        lines.push(nothing_to_do(summary));
        lines.extend(ignored(summary));
        return lines.join("\n");
    }
    let rows = [counts.rows_in, counts.rows_out, counts.rows_rejected, counts.rows_filtered];
    let [rows_in, out, rejected, filtered] = rows.map(count);
    let what = match summary.read.map(|(rows, rejected)| (count(rows), count(rejected))) {
        Some((rows, rejected)) => {
            lines.push(format!("\nrows      {rows} read and {rejected} of them rejected before the run failed"));
            "committed"
        }
        None => "\nrows     ",
    };
    lines.push(format!("{what} {rows_in} in, {out} out, {rejected} rejected, {filtered} filtered"));
    let left = [("left", summary.slices_left), ("done by another run", summary.slices_lost)];
    let left: Vec<_> = left.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {} {what}", count(*n))).collect();
    lines.push(format!("slices    {} committed{}", count(summary.slices), left.concat()));
    if counts.rows_emptied > 0 {
        lines.push(format!("emptied   {} rows of the output have no step left", count(counts.rows_emptied)));
    }
    lines.extend(ignored(summary));
    lines.extend(sampled(summary.sample.as_ref()));
    if summary.rows_beyond_limit > 0 {
        lines.push(format!("limit     {} rows are beyond the limit", count(summary.rows_beyond_limit)));
    }
    if !counts.rejects.is_empty() {
        let reasons = by_status(&counts.rejects);
        let rejects = format!("{}/.asap/rejects", summary.to);
        lines.push(format!("rejects   {reasons} ({} shows them)", command(&["asap", "inspect", &rejects])));
    }
    lines.extend(calls(&summary.anchor));
    lines.extend(stages(summary));
    let parts = summary.seconds_by_part.iter().map(|(part, seconds)| format!("{part} {seconds:.1} s, "));
    let parts = parts.collect::<String>();
    let parts = if parts.is_empty() { parts } else { format!(" ({parts}summed over threads)") };
    lines.push(format!("\ntime      {:.1} s{parts}", summary.seconds));
    lines.join("\n")
}

/// Whether there is no output yet, and no row that could fill it.
pub(super) fn lacks_input(summary: &Summary) -> bool {
    let Summary { nothing_to_do, slices_left, rows_beyond_limit, files_failed, table_version, .. } = summary;
    *nothing_to_do && table_version.is_none() && files_failed.is_empty() && *slices_left + *rows_beyond_limit == 0
}

fn nothing_to_do(summary: &Summary) -> String {
    let Summary { slices_left, rows_beyond_limit, files_failed, .. } = summary;
    match (files_failed.len(), *slices_left, *rows_beyond_limit) {
        _ if lacks_input(summary) => "nothing to do: the input has no rows".to_string(),
        (0, 0, 0) => "nothing to do: every row of the input is already in the output or its rejects".to_string(),
        (0, 0, beyond) => format!("nothing to do: the limit is reached; {} rows are beyond it", count(beyond)),
        (0, left, _) => format!("nothing to do: {} open slices belong to other parts", count(left)),
        _ => "nothing was done: all remaining rows are in files that failed".to_string(),
    }
}

fn ignored(summary: &Summary) -> Option<String> {
    let files = &summary.files_ignored;
    (!files.is_empty()).then(|| format!("ignored   changed files, whose old rows stay: {}", files.join(", ")))
}

fn stages(summary: &Summary) -> Vec<String> {
    let counts = &summary.counts;
    let Some(original) = counts.tokens_before.filter(|_| counts.rows_out > 0) else { return Vec::new() };
    let coarse = counts.tokens_coarse.filter(|_| summary.anchored_by.is_some());
    let mut lines = vec![String::new(), format!("{:<10}{:>14}{:>9}{:>12}", "", "tokens", "ratio", "steps")];
    let stages = [
        ("original", counts.tokens_before, counts.steps_before),
        ("coarse", coarse, None),
        ("pruned", counts.tokens_out, counts.steps_out),
    ];
    for (stage, tokens, steps) in stages {
        let Some(tokens) = tokens else { continue };
        let ratio = if original == 0 { 0.0 } else { 100.0 * tokens as f64 / original as f64 };
        let steps = steps.map(count).unwrap_or_default();
        lines.push(format!("{stage:<10}{:>14}{ratio:>7.1} %{steps:>12}", count(tokens)).trim_end().to_string());
    }
    if coarse.is_some() && counts.rows_short_after_stage_1 > 0 {
        let (short, all) = (count(counts.rows_short_after_stage_1), count(counts.rows_out));
        lines.push(format!(
            "stage 1 already shortened {short} of {all} chains to at most the budget; stage 2 removed nothing from these"
        ));
    }
    let why = match summary.has_budget {
        true => "no chain exceeds the budget (asap.refine.max_tokens, 4096 by default, and asap.refine.ratio)",
        false => "the pipeline ignores the budget",
    };
    if counts.tokens_out == Some(original) && counts.steps_out.is_some() && counts.steps_out == counts.steps_before {
        lines.push(format!("every step was kept: {why}"));
    } else if coarse.is_some() && coarse == counts.tokens_out && counts.rows_short_after_stage_1 == 0 {
        lines.push(format!("stage 2 removed nothing: {why}"));
    }
    lines
}
