//! `asap exam`: compares pipelines by whether the answer survives pruning.
//!
//! ```text
//!   corpus ─ sample ─▶ questions ─ each pipeline, at each share ─▶ asap run ─▶ rows ─▶ Delta table ─ summary
//!                                                                 TO/.asap/exam/QUESTIONS/VARIANT
//! ```
//!
//! A variant is a pipeline at a share of the tokens. Its SQL is wrapped by the exam's, and runs like any pipeline, so a
//! killed exam resumes. The last step gathers all variants in one table.

mod rows;
mod sample;
mod summary;
pub(crate) mod variants;

use std::collections::BTreeSet;

use asap_pipelines::location;
use asap_pipelines::run::{Summary as RunSummary, estimate, run as run_pipeline};
use asap_pipelines::whole_table;
use asap_udfs::Settings;
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

/// Compares pipelines. `tokens_per_second` measures how many tokens the scoring model reads in a second on this machine.
///
/// # Errors
/// If a pipeline is missing or ignores the budget, or the corpus has no question that fits.
pub async fn run(
    args: Request,
    tokens_per_second: impl AsyncFn(&Settings) -> Result<f64, Failure>,
) -> Result<(), Failure> {
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
    let identity = serde_json::json!({
        "from": from, "questions": args.questions, "max_tokens": args.max_tokens, "seed": args.seed,
    })
    .to_string();
    whole_table::check_identity(&url, rows::PROPERTY, &identity).await?;
    let questions = format!("{:x}", Sha256::digest(&identity));
    let folder = format!("{}/.asap/exam/{questions:.8}", to.trim_end_matches('/'));
    let sample = sample::take(from, &folder, &args, settings).await?;
    announce(&variants, &sample, &folder, settings, tokens_per_second).await?;
    let stop = Stop::listen("committing the finished rows");
    let mut noted = BTreeSet::new();
    for (index, variant) in variants.iter().enumerate() {
        note(format!("{} of {} variants: {}", index + 1, variants.len(), variant.name()));
        let bar = Bar::new("examining", false);
        let ended = run_pipeline(variant.request(&sample, &folder, settings), &bar, stop.asked()).await;
        bar.finish();
        check(ended?, &mut noted)?;
    }
    let rows = rows::gather(&url, &folder, &variants, identity).await?;
    let summary = summary::Summary::of(&rows, to, &args.pipelines);
    Ok(print_as(args.format, &summary, || summary.table())?)
}

/// Prints how many tokens the scoring model will read, and how long that takes on this machine.
async fn announce(
    variants: &[Variant],
    sample: &str,
    folder: &str,
    settings: &Settings,
    tokens_per_second: impl AsyncFn(&Settings) -> Result<f64, Failure>,
) -> Result<(), Failure> {
    let mut tokens = 0;
    for variant in variants {
        let bar = Bar::new("estimating", true);
        tokens +=
            estimate(variant.request(sample, folder, settings), &bar, std::future::pending()).await?.scored_tokens;
    }
    if tokens > 0 {
        let rate = tokens_per_second(settings).await?;
        let left = rough((tokens as f64 / rate).ceil() as u64);
        note(format!("the scoring model reads about {} tokens, which takes about {left}", count(tokens)));
    }
    Ok(())
}

/// Fails if a run was interrupted. Prints each of its notes once.
fn check(summary: RunSummary, noted: &mut BTreeSet<String>) -> Result<(), Failure> {
    for text in summary.notes {
        if noted.insert(text.clone()) {
            note(text);
        }
    }
    if summary.interrupted && summary.slices_left > 0 {
        return Err(Failure::TryLater("interrupted; run the same command to resume".to_string()));
    }
    Ok(())
}
