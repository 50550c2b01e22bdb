//! `asap exam`: compares pipelines by whether the answer survives pruning.

use asap_eval::exam::{self, Request};
use asap_kernels::front_end::Flag;
use clap::Args;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::model;
use crate::output::{SummaryFormat, at_least_one};

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
        value_parser = below_one)]
    shares: Vec<f64>,
    /// Use at most N questions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one::<usize>)]
    questions: usize,
    /// Skip chains of more than N tokens
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = at_least_one::<usize>)]
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

fn below_one(text: &str) -> Result<f64, String> {
    let share = crate::generate::share(text)?;
    (share < 1.0).then_some(share).ok_or_else(|| "1 removes nothing, and each exam has the original chain".to_string())
}

/// Settings of the budget, which each variant sets.
const BUDGET: [&str; 2] = ["refine.ratio", "refine.max_tokens"];

pub async fn run(args: ExamArgs) -> Result<(), Failure> {
    let settings = config::load(&args.settings)?;
    let keys = args.settings.set.iter().filter_map(|pair| pair.split('=').next());
    let mut keys = keys.map(|key| key.trim().trim_start_matches("asap."));
    if let Some(key) = keys.find(|key| BUDGET.contains(key)) {
        return Err(Failure::Usage(format!(
            "asap.{key} has no effect on an exam, which prunes to the shares of {}: leave it out",
            Flag("--shares")
        )));
    }
    let ExamArgs { from, pipelines, shares, questions, max_tokens, seed, to, print, format, settings: _ } = args;
    exam::run(
        Request { from, pipelines, shares, questions, max_tokens, seed, to, print, format, settings },
        model::speed,
    )
    .await
}
