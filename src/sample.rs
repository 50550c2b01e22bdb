//! `asap sample`: generates labelled traces, or reports which words predict the labels of a corpus.

pub mod labelled;

use std::path::PathBuf;

use asap_generator::{Cue, LEAST_SUPPORT, Labelled, MOST_PRECISION, Openers, cues, generate, generate_sums, judge};
use clap::{Args, ValueEnum};

use self::labelled::Read;
use crate::failure::Failure;
use crate::output::{count, print};

const LABELS: &str = "labels";
const SHOWN_CUES: usize = 8;

/// Generate a corpus of labelled traces, or report which words predict the labels of a corpus
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap sample --rows 2000 --seed 1 --to data/sample
  asap sample --rows 2000 --openers real --to out/real
  asap sample --rows 2000 --family sums --to out/sums
  asap sample --cues data/sample
  asap sample --cues traces.parquet --labels needed")]
pub struct SampleArgs {
    /// Generate N rows. Without --family, half of the rows are programming problems, in a second file with other
    /// columns
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rows: u64,
    /// Seed the generator: the same seed gives the same bytes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Choose how the steps of a chain begin, and whether the chain continues after the answer
    #[arg(long, value_enum, default_value_t = Openers::Even)]
    openers: Openers,
    /// Generate problems of this family only
    #[arg(long, value_enum, conflicts_with = "openers")]
    family: Option<Family>,
    /// Write to this folder, which must be new or empty
    #[arg(long, value_name = "DIR", required_unless_present = "cues")]
    to: Option<PathBuf>,
    /// Generate nothing; report which words predict the labels of this corpus. Fail if a word predicts a label with
    /// more than 70 % precision
    #[arg(long, value_name = "LOC", conflicts_with_all = ["rows", "seed", "openers", "family", "to"])]
    cues: Option<String>,
    /// Read the label of each step, a text or a boolean, from this column of a corpus that asap did not generate. High
    /// precision is then not a failure
    #[arg(long, value_name = "COLUMN", requires = "cues")]
    labels: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// Short sums for models that are trained from scratch. The column concise holds the core steps of each chain
    Sums,
}

pub async fn run(args: SampleArgs) -> Result<(), Failure> {
    let Some(to) = &args.to else {
        return print_cues_of(&args.cues.unwrap_or_default(), args.labels.as_deref()).await;
    };
    let paths = match args.family {
        None => generate(args.rows as usize, args.seed, args.openers, to)?,
        Some(Family::Sums) => generate_sums(args.rows as usize, args.seed, to)?,
    };
    for path in paths {
        print(&path.display().to_string())?;
    }
    Ok(())
}

async fn print_cues_of(location: &str, labels: Option<&str>) -> Result<(), Failure> {
    let read = labelled::read(location, labels.unwrap_or(LABELS)).await?;
    print_first_words(&read)?;
    let found = cues(&read.steps, LEAST_SUPPORT);
    print_cues(&read.steps, &found)?;
    match found.first().filter(|cue| labels.is_none() && cue.precision > MOST_PRECISION) {
        None => Ok(()),
        Some(Cue { words, label, precision, .. }) => {
            let [found, most] = [precision, &MOST_PRECISION].map(|share| 100.0 * share);
            let what = format!("{words:?} predicts {label} with {found:.1} % precision, above {most:.0} %");
            Err(Failure::Failed(what))
        }
    }
}

fn print_first_words(read: &Read) -> Result<(), Failure> {
    let judged = judge(&read.steps);
    let lengths = [read.steps.len(), read.chains, judged.words, read.places.len()];
    let [steps, chains, words, stated] = lengths.map(|length| count(length as u64));
    print(&format!("{steps} steps of {chains} chains\n\nfirst words: {words} distinct; the values below are in bits"))?;
    for (bits, what) in [
        (Some(judged.entropy), "entropy"),
        (Some(judged.distance), "distance from those of real traces"),
        (Some(judged.of_need), "information on whether a step is needed (core, true)"),
        (Some(judged.of_label), "information on its label"),
        (judged.of_function, "information on its function"),
    ] {
        bits.map_or(Ok(()), |bits| print(&format!("{bits:>9.3}  {what}")))?;
    }
    match read.places.get(read.places.len() / 2) {
        Some(place) => Ok(print(&format!(
            "\nthe answer first occurs at {place:.2} of the chain (median of the {stated} of {chains} that state it)"
        ))?),
        None => Ok(()),
    }
}

/// Prints the labels, most frequent first, with the best cues of each.
fn print_cues(steps: &[Labelled], found: &[Cue]) -> Result<(), Failure> {
    print(&format!("\nwords and n-grams of up to 3 words in {LEAST_SUPPORT} steps or more"))?;
    let mut labels: Vec<_> = steps.iter().map(|step| step.label.as_str()).collect();
    labels.sort_unstable();
    let mut labels: Vec<_> = labels.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    labels.sort_by_key(|(steps, _)| std::cmp::Reverse(*steps));
    for (of_label, label) in labels {
        let share = of_label as f64 / steps.len() as f64;
        print(&format!("\n{label} ({:.1} % of steps)\n precision  steps  cue", 100.0 * share))?;
        for cue in found.iter().filter(|cue| cue.label == label).take(SHOWN_CUES) {
            print(&format!("{:>8.1} %{:>7}  {}", 100.0 * cue.precision, cue.steps, cue.words))?;
        }
    }
    Ok(())
}
