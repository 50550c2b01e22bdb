//! `asap experiment`: trains models on pruned chains, and compares their answers with those of random controls.
//!
//! ```text
//!   each seed: sample ─ base model ─ check ─▶ each arm: prune ─ train ─ evaluate ─▶ rows ─ report
//! ```
//!
//! Every part is a command of asap in a process of its own. The output of a complete part is stored under `parts/`, so
//! an experiment that was killed resumes with the parts that are missing.

mod arms;
mod parts;
mod plan;
mod preset;
mod report;
mod tables;

use std::path::{Path, PathBuf};

use clap::Args;
use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{SummaryFormat, note, print_as};
use arms::Arm;
use parts::Parts;
pub(crate) use parts::end_with_parent;
use plan::Seed;
use preset::Preset;
use report::Report;

const IDENTITY: &str = "experiment.json";

/// Train small models on pruned chains and on random controls, and compare the answers of the models
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap experiment --preset smoke --to out/smoke
  asap experiment --to out/experiment
  asap experiment --arms asap,spirit,core --share 0.5 --seeds 1 --to out/half

For each seed, asap generates short sums and trains a base model on some of these sums from scratch. For each arm (a way
to prune), asap prunes other sums with the base model as scoring model, trains the base model on the pruned sums, and
evaluates the trained model on held-out sums. The arms base, random and block are always part of an experiment.

Run the same command again to resume. The folder holds the report (report.md and report.json), and commands.sh, which
lists the command of each part.")]
pub struct ExperimentArgs {
    /// Write all parts and the report to this folder
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Choose the sizes of the samples and of the model
    #[arg(long, value_enum, default_value_t = Preset::Mini)]
    preset: Preset,
    /// Repeat with N seeds, each with its own sample and its own base model [default: 3; smoke: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
    /// Compare these arms: pipelines, original (not pruned), or core (the steps with the label core) [default: 18 arms]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    arms: Vec<String>,
    /// Prune to this share of the tokens of a chain
    #[arg(long, value_name = "P", default_value_t = 0.25, value_parser = crate::generate::share)]
    share: f64,
    /// Set the output format of the report; json prints one object on the last line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

pub fn run(args: &ExperimentArgs) -> Result<(), Failure> {
    let arms = arms::all(&args.arms)?;
    let seeds = args.seeds.unwrap_or(args.preset.seeds());
    claim(args, seeds, &arms)?;
    check_disk(&args.to, args.preset, seeds * arms.len() as u64)?;
    let config = serde_json::to_string_pretty(&args.preset.config())?;
    std::fs::write(args.to.join(plan::CONFIG), config)?;
    let mut parts = Parts::open(&args.to)?;
    let mut report = Report::new(args.preset, args.share);
    for number in 1..=seeds {
        let seed = Seed { number, preset: args.preset, share: args.share };
        report.add_base(base(&seed, &mut parts)?);
        let budget = seed.budget(&mut parts)?;
        for arm in &arms {
            note(format!("seed {number} of {seeds}, arm {}", arm.name()));
            report.add(arm, seed.run(arm, budget, &mut parts)?);
        }
    }
    let report = report.finish();
    for (name, text) in [("report.md", report.markdown()), ("report.json", serde_json::to_string_pretty(&report)?)] {
        std::fs::write(args.to.join(name), text + "\n")?;
    }
    Ok(print_as(args.format, &report, || report.markdown())?)
}

/// Trains the base model of a seed, and checks that it solves enough of the held-out problems.
fn base(seed: &Seed, parts: &mut Parts) -> Result<report::Base, Failure> {
    let base = seed.base(parts)?;
    let bar = seed.preset.least_accuracy();
    if base.accuracy >= bar {
        return Ok(base);
    }
    Err(Failure::Failed(format!(
        "the base model of seed {} solves {:.1} % of the held-out problems after {} tokens, expected at least {:.0} %: \
         arms would compare chance with chance; use another seed or preset in a new folder",
        seed.number,
        100.0 * base.accuracy,
        crate::output::count(base.trained_tokens),
        100.0 * bar,
    )))
}

/// Creates the folder, or checks that it holds this experiment.
fn claim(args: &ExperimentArgs, seeds: u64, arms: &[Arm]) -> Result<(), Failure> {
    let folder = &args.to;
    let names: Vec<String> = arms.iter().map(Arm::name).collect();
    let identity = json!({
        "version": asap_pipelines::VERSION, "preset": args.preset, "seeds": seeds, "share": args.share, "arms": names,
    });
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let path = folder.join(IDENTITY);
    if !path.exists() {
        if std::fs::read_dir(folder)?.next().is_some() {
            let shown = folder.display();
            return Err(Failure::Usage(format!("{shown} is not empty and holds no experiment: choose a new folder")));
        }
        return parts::write_whole(&path, &serde_json::to_string_pretty(&identity)?);
    }
    let found: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let differs = ["version", "preset", "seeds", "share", "arms"].into_iter().find(|key| found[key] != identity[key]);
    match differs {
        None => Ok(()),
        Some(key) => Err(Failure::Usage(format!(
            "{} holds another experiment ({key} was {}, and is now {}): choose a new folder, or the same settings",
            folder.display(),
            found[key],
            identity[key],
        ))),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::by(error, format!("cannot write to {}: {error}", path.display()))
}

/// Checks that the models and samples fit on the disk.
fn check_disk(folder: &Path, preset: Preset, models: u64) -> Result<(), Failure> {
    let needed = preset.bytes(models);
    let held = statvfs(folder).map_err(std::io::Error::from)?;
    let free = held.blocks_available() * held.fragment_size();
    // A resumed experiment already holds a part of what it needs.
    let is_new = !folder.join(plan::CONFIG).exists();
    if is_new && free < needed {
        let [needed, free] = [needed, free].map(|bytes| format!("{} MB", crate::output::count(bytes / 1_000_000)));
        let shown = folder.display();
        return Err(Failure::Failed(format!(
            "not enough disk: the experiment needs {needed}, but {free} are free in {shown}; free some space, or name \
             fewer arms"
        )));
    }
    Ok(())
}
