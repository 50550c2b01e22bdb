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
use asap_pipelines::outputs::whole_table;
use asap_pipelines::run::{Summary as RunSummary, estimate, run as run_pipeline};
use asap_udfs::Settings;
use clap::Args;
use sha2::{Digest, Sha256};

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::model;
use crate::output::{SummaryFormat, at_least_one, count, note, print, print_as, rough};
use crate::progress::Bar;
use crate::signals::Stop;
use variants::Variant;

/// Compare pipelines by whether the answer survives pruning
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap exam --from data/sample --pipelines spirit,longest --questions 20 --to out/exam
  asap exam --from traces --pipelines without_anchor,spirit,mine.sql --shares 0.25,0.5 --to out/exam --set asap.scorer.model=DIR
  asap sql -c \"SELECT pipeline, share, avg(log_probability) FROM 'out/exam' GROUP BY pipeline, share\"

The exam gives the scoring model the question and the pruned chain, and checks whether the model still states the
answer. The exam compares each pipeline with random steps and with a random block of the same chain. In a second round,
the sentences that state the answer are removed first.

Run the same command again to resume.")]
pub struct ExamArgs {
    /// Take questions from this corpus: a folder, file or glob pattern of Parquet or JSON lines, or a Delta table
    #[arg(long, value_name = "LOC", required_unless_present = "print")]
    from: Option<String>,
    /// Compare these pipelines: names, or files with one SELECT over the table corpus. asap adds the controls
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', required = true)]
    pipelines: Vec<String>,
    /// Prune to these shares of the tokens of a chain
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_value = "0.25,0.5,0.75",
        value_parser = crate::generate::share)]
    shares: Vec<f64>,
    /// Use at most N questions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    questions: usize,
    /// Skip chains of more than N tokens
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = at_least_one)]
    max_tokens: usize,
    /// Draw the questions and the random controls with this seed
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
    /// Write the rows to this folder
    #[arg(long, value_name = "LOC", required_unless_present = "print")]
    to: Option<String>,
    /// Print the SQL of each variant and exit
    #[arg(long)]
    print: bool,
    /// Set the output format of the summary; json prints one object on the last line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
    #[command(flatten)]
    settings: SettingArgs,
}

pub async fn run(args: ExamArgs) -> Result<(), Failure> {
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
    let settings = config::load(&args.settings)?;
    let url = location::folder(to)?;
    let identity = serde_json::json!({
        "from": from, "questions": args.questions, "max_tokens": args.max_tokens, "seed": args.seed,
    })
    .to_string();
    whole_table::check_identity(&url, rows::PROPERTY, &identity).await?;
    let questions = format!("{:x}", Sha256::digest(&identity));
    let folder = format!("{}/.asap/exam/{questions:.8}", to.trim_end_matches('/'));
    let sample = sample::take(from, &folder, &args, &settings).await?;
    announce(&variants, &sample, &folder, &settings).await?;
    let stop = Stop::listen("committing the finished rows");
    let mut noted = BTreeSet::new();
    for (index, variant) in variants.iter().enumerate() {
        note(format!("{} of {} variants: {}", index + 1, variants.len(), variant.name()));
        let bar = Bar::new("examining", false);
        let ended = run_pipeline(variant.request(&sample, &folder, &settings), &bar, stop.asked()).await;
        bar.finish();
        check(ended?, &mut noted)?;
    }
    let rows = rows::gather(&url, &folder, &variants, identity).await?;
    let summary = summary::Summary::of(&rows, to, &args.pipelines);
    Ok(print_as(args.format, &summary, || summary.table())?)
}

/// Prints how many tokens the scoring model will read, and how long that takes on this machine.
async fn announce(variants: &[Variant], sample: &str, folder: &str, settings: &Settings) -> Result<(), Failure> {
    let mut tokens = 0;
    for variant in variants {
        let bar = Bar::new("estimating", true);
        tokens +=
            estimate(variant.request(sample, folder, settings), &bar, std::future::pending()).await?.scored_tokens;
    }
    if tokens > 0 {
        let rate = model::tokens_per_second(settings).await?;
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
