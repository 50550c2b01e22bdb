//! `asap sample`: the corpus of labelled traces that comes with asap, and others like it.

use std::path::{Path, PathBuf};

use asap_generator::{LEAST_SUPPORT, Label, MOST_PRECISION, Voice, cues, generate, read_steps};
use asap_kernels::{steps::steps, tags::think};
use clap::Args;

use crate::failure::Failure;
use crate::output::print;

/// Generate a corpus of labelled traces, or list the words that tell its labels
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap sample --rows 2000 --seed 1 --to data/sample
  asap sample --cues data/sample")]
pub struct SampleArgs {
    /// How many rows; half of them are programming problems, in a file of another shape
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rows: u64,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Which of two complete sets of wordings
    #[arg(long, value_enum, default_value_t = Voice::Plain)]
    voice: Voice,
    /// The folder to write to: new or empty
    #[arg(long, value_name = "DIR", required_unless_present = "cues")]
    to: Option<PathBuf>,
    /// List what tells the labels of a sample instead; fails above 70 % precision
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rows", "seed", "voice", "to"])]
    cues: Option<PathBuf>,
}

/// Writes a sample, or judges one.
pub fn run(args: SampleArgs) -> Result<(), Failure> {
    let Some(to) = &args.to else {
        let folder = args.cues.unwrap_or_default();
        return judge(&folder);
    };
    for path in generate(args.rows as usize, args.seed, args.voice, to)? {
        print(&path.display().to_string())?;
    }
    Ok(())
}

fn judge(folder: &Path) -> Result<(), Failure> {
    let steps = read_steps(folder, |generation| think(generation).map(steps))?;
    let found = cues(&steps, LEAST_SUPPORT);
    print(&format!("{} steps; words and n-grams of up to 3 words in {LEAST_SUPPORT} steps or more", steps.len()))?;
    for label in Label::ALL {
        let share = steps.iter().filter(|step| step.label == label).count() as f64 / steps.len().max(1) as f64;
        print(&format!("\n{} ({:.1} % of steps)\n precision  steps  cue", label.name(), 100.0 * share))?;
        for cue in found.iter().filter(|cue| cue.label == label).take(8) {
            print(&format!("{:>8.1} %{:>7}  {}", 100.0 * cue.precision, cue.steps, cue.words))?;
        }
    }
    match found.iter().find(|cue| cue.precision > MOST_PRECISION) {
        None => Ok(()),
        Some(cue) => Err(Failure::Failed(format!(
            "{:?} tells {} with {:.1} % precision, above {:.0} %",
            cue.words,
            cue.label.name(),
            100.0 * cue.precision,
            100.0 * MOST_PRECISION
        ))),
    }
}
