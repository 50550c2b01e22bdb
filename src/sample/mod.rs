//! `asap sample`: a corpus of generated traces whose every step is labelled, the same for the same seed on any machine.
//!
//! A problem is a line of derivations that leads to an answer. A trace makes them in order, and between them checks
//! what it has, follows wrong ways and gives them up, and thinks aloud. What sets the labels apart is which step uses
//! what from which other; the words are drawn from the same pools for all.

mod cues;
mod dice;
mod problems;
mod quantities;
mod rows;
mod shapes;
mod sums;
#[cfg(test)]
mod testing;
mod trace;
mod voice;
mod work;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::Failure;
use crate::output::print;

pub use cues::{Cue, cues};
pub use problems::Family;
pub use rows::{Generation, SampleRow, rows};
pub use trace::{Label, Step};
pub use voice::Voice;

/// A word or n-gram that tells a label in more than this share of its steps would make the sample too easy.
pub const MOST_PRECISION: f64 = 0.7;
/// Steps that a word or n-gram must occur in before it is held to tell anything.
pub const LEAST_SUPPORT: usize = 50;

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
    prepare(to)?;
    let rows = rows(args.rows as usize, args.seed, args.voice);
    for path in shapes::write(&rows, to)? {
        print(&path.display().to_string())?;
    }
    Ok(())
}

/// Makes the folder, which may exist only if nothing is in it.
fn prepare(folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    if std::fs::read_dir(folder).map_err(failed)?.next().is_some() {
        let folder = folder.display();
        return Err(Failure::Usage(format!("{folder} is not empty; name a new folder, or remove what is in it")));
    }
    Ok(())
}

fn judge(folder: &Path) -> Result<(), Failure> {
    let steps = shapes::read_steps(folder)?;
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
