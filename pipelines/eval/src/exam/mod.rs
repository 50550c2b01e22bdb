//! `asap exam`: compares pipelines by whether the answer survives pruning.
//!
//! ```text
//!   corpus ─ sample ─▶ questions ─ each pipeline, at each share ─▶ asap run ─▶ rows ─▶ Delta table ─ summary
//!                                                                 TO/.asap/exam/QUESTIONS/VARIANT
//! ```
//!
//! A variant is a pipeline at a share of the tokens. Its SQL is wrapped by the exam's, and runs like any pipeline, so a
//! killed exam resumes. After each variant, the rows of all variants so far are gathered in one table.

mod rows;
mod sample;
mod summary;
pub(crate) mod variants;

use std::collections::BTreeSet;
use std::time::Instant;

use asap_lm::SMALL;
use asap_pipelines::location;
use asap_pipelines::run::{Summary as RunSummary, estimate, run as run_pipeline};
use asap_pipelines::whole_table;
use asap_udfs::Settings;
use asap_udfs::settings::Effect;
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::output::{SummaryFormat, count, note, print, print_as, rough};
use crate::progress::Bar;
use crate::signals::Stop;
use variants::Variant;

/// What to compare. The fields are the flags of `asap exam`.
#[derive(Debug)]
pub struct Request {
    /// Take questions from this corpus: a folder, file or glob pattern of Parquet or JSON lines, or a Delta table
    pub from: Option<String>,
    /// Compare these pipelines: names, or files with one SELECT over the table corpus. asap adds the controls
    pub pipelines: Vec<String>,
    /// Prune to these shares of the tokens of a chain
    pub shares: Vec<f64>,
    /// Use at most N questions
    pub questions: usize,
    /// Skip chains of more than N tokens
    pub max_tokens: usize,
    /// Draw the questions and the random controls with this seed
    pub seed: u64,
    /// Write the rows to this folder
    pub to: Option<String>,
    /// Print the SQL of each variant and exit
    pub print: bool,
    /// Set the output format of the summary; json prints one object on the last line
    pub format: SummaryFormat,
    pub settings: Settings,
}

/// How fast the scoring model is on this machine.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    /// Tokens that the model reads in a second.
    pub tokens_per_second: f64,
    /// Seconds of a pass that reads a short text.
    pub seconds_per_pass: f64,
}

/// Texts to which a pass adds a token while the model writes.
const WRITTEN_AT_ONCE: f64 = 8.0;

/// Compares pipelines. `speed` measures the scoring model.
///
/// # Errors
/// If a pipeline is missing or ignores the budget, the corpus has no question that fits, or the folder holds an exam of
/// other questions or settings. [`Failure::TryLater`] if it is interrupted.
pub async fn run(args: Request, speed: impl AsyncFn(&Settings) -> Result<Speed, Failure>) -> Result<(), Failure> {
    let variants = variants::all(&args.pipelines, &args.shares, args.seed)?;
    if args.print {
        let sql = |variant: &Variant| {
            format!("-- {}: --set asap.refine.ratio={}\n{}", variant.name(), variant.share, variant.sql.trim_end())
        };
        return Ok(print(&variants.iter().map(sql).collect::<Vec<_>>().join("\n\n"))?);
    }
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        return Err(Failure::Usage("expected --from and --to".to_string()));
    };
    let settings = &args.settings;
    let url = location::folder(to)?;
    let identity = identity(&args, from);
    let is_there = whole_table::check_identity(&url, rows::PROPERTY, &identity).await?;
    let questions = format!("{:x}", Sha256::digest(&identity));
    let folder = format!("{}/.asap/exam/{questions:.8}", to.trim_end_matches('/'));
    let sample = sample::take(from, &folder, &args, settings).await?;
    let shares = announce(&variants, &sample, &folder, settings, speed).await?;
    let mut found = Vec::new();
    for variant in &variants {
        found.push(rows::of(&folder, variant).await?);
    }
    let mut rows = Vec::new();
    if !is_there {
        // From now on, the folder refuses an exam of other questions.
        rows = rows::write(&url, &found, &identity).await?;
    }
    let stop = Stop::listen("keeping the rows that are done");
    let (mut noted, begun) = (BTreeSet::new(), Instant::now());
    for (index, variant) in variants.iter().enumerate() {
        let left = time_left(&shares, index, begun.elapsed().as_secs_f64());
        note(format!("{} of {} variants: {}{left}", index + 1, variants.len(), variant.name()));
        let bar = Bar::new("examining", false);
        let ended = run_pipeline(variant.request(&sample, &folder, settings), &bar, stop.asked()).await;
        bar.finish();
        let (is_whole, is_new) = match ended.map_err(Failure::from) {
            Ok(summary) => check(summary, &mut noted),
            Err(Failure::Stopped(_)) => (false, false),
            Err(failure) => return Err(failure),
        };
        let (done, all) = (index + usize::from(is_whole), variants.len());
        if is_new {
            found[index] = rows::of(&folder, variant).await?;
        }
        if is_new || done == all {
            rows = rows::write(&url, &found, &identity).await?;
        }
        if done < all && (stop.is_asked() || !is_whole) {
            return Err(Failure::TryLater(format!(
                "interrupted: {done} of {all} variants are done, and {to} has their rows; run the same command to compute \
                 the rest"
            )));
        }
    }
    let summary = summary::Summary::of(&rows, to, &args.pipelines);
    Ok(print_as(args.format, &summary, || summary.table())?)
}

/// What all variants of an exam share: the questions, and the settings that change results.
fn identity(args: &Request, from: &str) -> String {
    let mut identity = serde_json::json!({
        "from": from, "questions": args.questions, "max_tokens": args.max_tokens, "seed": args.seed,
    });
    // Each variant has a budget of its own.
    let settings = Settings { refine_ratio: None, refine_max_tokens: None, ..args.settings.clone() };
    let settings = settings.of_results().into_iter();
    for (key, value, _) in settings.filter(|(_, _, effect)| *effect != Effect::Backend) {
        identity[key] = value.into();
    }
    identity.to_string()
}

/// The time that the rest of the variants takes, by what those before took. Empty before the first.
fn time_left(shares: &[f64], index: usize, elapsed: f64) -> String {
    let [done, left] = [&shares[..index], &shares[index..]].map(|part| part.iter().sum::<f64>());
    let seconds = (elapsed / done * left).ceil();
    if done > 0.0 { format!(" (about {} left)", rough(seconds as u64)) } else { String::new() }
}

/// Prints how many tokens the scoring model will read and write, and how long that takes on this machine. Returns the
/// seconds of each variant.
async fn announce(
    variants: &[Variant],
    sample: &str,
    folder: &str,
    settings: &Settings,
    speed: impl AsyncFn(&Settings) -> Result<Speed, Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut estimates = Vec::new();
    for variant in variants {
        let bar = Bar::new("estimating", true);
        let begun = Instant::now();
        let found = estimate(variant.request(sample, folder, settings), &bar, std::future::pending()).await?;
        // A run plans, reads and cuts the chains as its estimate does, and takes about as long to write.
        estimates.push((found.scored_tokens, found.written_tokens, 2.0 * begun.elapsed().as_secs_f64()));
    }
    let scored: u64 = estimates.iter().map(|(scored, ..)| scored).sum();
    let written: u64 = estimates.iter().map(|(_, written, _)| written).sum();
    if scored == 0 {
        return Ok(vec![0.0; variants.len()]);
    }
    let Speed { tokens_per_second, seconds_per_pass } = speed(settings).await?;
    let seconds = |(scored, written, other): &(u64, u64, f64)| {
        let read = (scored - written) as f64 / tokens_per_second;
        other + read + *written as f64 / WRITTEN_AT_ONCE * seconds_per_pass
    };
    let shares: Vec<f64> = estimates.iter().map(seconds).collect();
    note(format!(
        "the scoring model reads about {} tokens and writes at most {}, which takes about {}",
        count(scored - written),
        count(written),
        rough(shares.iter().sum::<f64>().ceil() as u64)
    ));
    if settings.scorer_model == SMALL {
        note("asap's small model states almost no answer, so this exam shows only how an exam works");
    }
    Ok(shares)
}

/// Prints each note of a run once. Returns whether all its rows are done, and whether it did any.
fn check(summary: RunSummary, noted: &mut BTreeSet<String>) -> (bool, bool) {
    for text in summary.notes {
        if noted.insert(text.clone()) {
            note(text);
        }
    }
    (!summary.interrupted || summary.slices_left == 0, !summary.nothing_to_do)
}
