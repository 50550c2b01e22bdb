//! `asap eval` and `asap exam`. `asap eval` evaluates a model on the paper's benchmarks, compares two evaluations, and makes tables of several.
//!
//! ```text
//!   files ─ bench ─▶ problems ─ ask ─▶ responses ─ grade ─▶ rows ─▶ Delta table ─ summary, compare
//!                                       │  ▲
//!                              answers: TO/.asap/cache
//! ```
//!
//! Every response is stored before it is used, so a killed evaluation asks only for what is missing. The table is
//! written at the end: it is the stored responses with the grades of the last command.

mod ask;
mod bench;
mod clock;
mod compare;
pub mod exam;
mod figure;
mod formats;
mod generations;
mod grade;
mod grid;
mod left_out;
mod published;
mod row;
pub mod statistics;
mod summary;
mod table;

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::path::PathBuf;

use asap_llm::chat::CallError;
use asap_pipelines::location;
use asap_pipelines::run::Observer;
use asap_pipelines::whole_table;
use asap_programs::{Limits, Reason, Sandbox, SandboxError, Verdict};
use asap_udfs::Settings;
use clap::ValueEnum;
use rayon::prelude::*;

use asap_console::{failure, output, progress, signals, terminal};

use crate::failure::Failure;
use crate::output::{SummaryFormat, note, print, print_as, several};
use crate::progress::Bar;
use crate::terminal::one_line;
use asap_console::program;
use ask::Found;
pub use bench::Bench;
use bench::{Check, Problem, Wording};
use clock::Asking;
use figure::Axis;
use generations::Generations;
use row::Graded;
use summary::{AtBudget, Summary};

/// The property of a table that says it is an evaluation: its benchmark and model.
const PROPERTY: &str = "asap.eval";

/// What to evaluate, to compare, or to put into tables. The fields are the flags of `asap eval`.
#[derive(Debug)]
pub struct Request {
    /// Evaluate on this benchmark
    pub bench: Option<Bench>,
    /// Read the problems from this file: JSON lines, also compressed with gzip. May be repeated
    pub data: Vec<String>,
    /// Ask this endpoint, which serves an API like OpenAI's
    pub endpoint: Option<String>,
    /// Ask this model: with --endpoint, its name at the endpoint; without --endpoint, a folder in Hugging Face's layout
    pub model: Option<String>,
    /// Set the maximum tokens of a response. Several budgets are evaluated at once [default: the budget of the paper]
    pub budget: Vec<NonZeroU32>,
    /// Ask for K responses to each problem
    pub samples: u32,
    /// Divide logits by T before a token is sampled. At 0, take the likeliest token
    pub temperature: f64,
    /// Sample only from the smallest set of likeliest tokens whose total probability is at least P
    pub top_p: f64,
    /// End a response before this text. May be repeated
    pub stop: Vec<String>,
    /// Ask by this prompt, a file with the placeholder {question} and, for code, {starter}, instead of asap's own
    pub prompt: Option<String>,
    /// Append this text to each prompt, with the escapes \n and \t, such as the ratio of TokenSkip
    pub suffix: String,
    /// Keep N requests in flight
    pub concurrency: u32,
    /// Evaluate on the first N problems
    pub limit: Option<usize>,
    /// Write the responses to this folder: a new folder, or the folder of an evaluation of the same model and benchmark
    pub to: Option<String>,
    /// Also write one row for each question, with all responses to it
    pub generations: Option<String>,
    /// Run programs with this Python
    pub python: String,
    /// Put the evaluation LOC into the tables as NAME. May be repeated; a name may have several benchmarks, and several
    /// seeds, which are averaged
    pub table: Vec<(String, String)>,
    /// Show the changes to this name of --table
    pub base: Option<String>,
    /// Print the accuracies of --table as –, for this reason
    pub no_accuracy: Option<String>,
    /// Show the 95 % intervals of the changes in Markdown and LaTeX, too. JSON and CSV always hold them
    pub intervals: bool,
    /// Put printed values next to those of --table, with the differences: those of the ASAP paper, or of a TOML file of yours
    pub published: Option<String>,
    /// Also draw accuracy against tokens into this file
    pub svg: Option<String>,
    /// Also draw accuracy under token budgets, as the paper's figure 4 does, into this file
    pub svg_budgets: Option<String>,
    /// Compare two evaluations of the same problems
    pub compare: Vec<String>,
    /// Set the output format; json prints one object on the last line
    pub format: Format,
    /// The settings, for an evaluation.
    pub settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people; with --table, in Markdown
    Table,
    /// JSON for programs, on one line
    Json,
    /// With --table: one line for each method, benchmark and budget
    Csv,
    /// With --table: tables for the packages booktabs and graphicx
    Latex,
}

/// A stored evaluation.
pub(crate) struct Evaluation {
    pub location: String,
    pub rows: Vec<Graded>,
    /// The time of its requests, if it was stored.
    pub asking: Option<Asking>,
    /// Problems that were not asked, because their reference programs failed.
    pub left_out: BTreeSet<String>,
    /// Wall-clock seconds of the requests by the number of problems. None for several budgets, which are asked at once.
    pub seconds_per_problem: Option<f64>,
}

impl Evaluation {
    fn new(location: &str, rows: Vec<Graded>, asking: Option<Asking>, left_out: BTreeSet<String>) -> Self {
        let problems: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let budgets: BTreeSet<i64> = rows.iter().map(|row| row.budget).collect();
        let seconds = asking.and_then(|asking| asking.seconds).filter(|_| budgets.len() == 1);
        let seconds_per_problem = seconds.map(|seconds| seconds / problems.len() as f64);
        Self { location: location.to_string(), rows, asking, left_out, seconds_per_problem }
    }
}

async fn print_tables(args: &Request) -> Result<(), Failure> {
    let mut named = Vec::new();
    for (name, location) in &args.table {
        named.push((name.clone(), load(location).await?));
    }
    let left_out = left_out::from_all(named.iter_mut().map(|(_, evaluation)| evaluation));
    let mut tables = table::tables(&named, args.base.as_deref(), args.no_accuracy.as_deref())?;
    tables.left_out.splice(..0, left_out);
    if let Some(name) = &args.published {
        tables.put(published::File::read(name)?);
    }
    for (file, axis) in [(&args.svg, Axis::Tokens), (&args.svg_budgets, Axis::Budget)] {
        let Some(file) = file else { continue };
        let written = std::fs::write(file, tables.svg(axis));
        written.map_err(|error| Failure::Failed(format!("cannot write {file}: {error}")))?;
    }
    let text = match args.format {
        Format::Table => tables.markdown(args.intervals),
        Format::Json => serde_json::to_string(&tables).map_err(std::io::Error::from)?,
        Format::Csv => tables.csv(),
        Format::Latex => tables.latex(args.intervals),
    };
    Ok(print(&text)?)
}

/// Evaluates, compares or prints tables.
///
/// # Errors
/// If files are missing, the endpoint does not answer, or the evaluations do not fit together.
pub async fn run(args: Request) -> Result<(), Failure> {
    if !args.table.is_empty() {
        return print_tables(&args).await;
    }
    let format = match args.format {
        Format::Table => SummaryFormat::Table,
        Format::Json => SummaryFormat::Json,
        Format::Csv | Format::Latex => {
            return Err(Failure::Usage("--format csv and latex need --table".to_string()));
        }
    };
    if let [a, b] = args.compare.as_slice() {
        let mut both = [load(a).await?, load(b).await?];
        let left_out = left_out::from_all(&mut both);
        let compared = compare::compare(&both[0].rows, &both[1].rows)?;
        let seconds = both.each_ref().map(|evaluation| evaluation.seconds_per_problem);
        let object = serde_json::json!({ "budgets": compared, "left_out": left_out,
            "seconds_per_problem_a": seconds[0], "seconds_per_problem_b": seconds[1] });
        return Ok(print_as(format, &object, || compare::tables(&compared, &left_out, seconds))?);
    }
    let (Some(bench), Some(model), Some(to)) = (args.bench, &args.model, &args.to) else {
        return Err(Failure::Usage("expected --bench, --data, --model and --to, or --compare".to_string()));
    };
    if args.top_p < 1.0 && args.temperature == 0.0 {
        return Err(Failure::Usage("--top-p has no effect at --temperature 0: set a temperature above 0".to_string()));
    }
    if args.samples > 1 && args.temperature == 0.0 {
        let what = "gives equal responses at --temperature 0: set a temperature above 0";
        return Err(Failure::Usage(format!("--samples {} {what}", args.samples)));
    }
    let wording = Wording::new(args.prompt.as_deref(), &args.suffix)?;
    let mut problems = bench.read(&args.data, args.limit, &wording)?;
    let whole = bench.problems();
    if args.limit.is_none() && problems.len() != whole {
        note(format!("{} has {whole} problems; these files have {}", bench.name(), problems.len()));
    }
    let mut budgets: Vec<u32> = args.budget.iter().map(|budget| budget.get()).collect();
    if budgets.is_empty() {
        budgets.push(bench.budget());
    }
    budgets.sort_unstable();
    budgets.dedup();
    let (url, identity) = (location::folder(to)?, identity(bench, model, &args, &wording));
    whole_table::check_identity(&url, PROPERTY, &identity).await?;
    let generations = match &args.generations {
        Some(_) if bench.runs_programs() => {
            let what = "--generations needs a benchmark with answers, since a program has no answer to compare";
            return Err(Failure::Usage(format!("{what}: leave it out for {}", bench.name())));
        }
        Some(location) => Some(Generations::at(location, &identity, &problems).await?),
        None => None,
    };
    let (sandbox, left_out) = match bench.runs_programs() {
        true => {
            // Where a program reads the tests or earlier responses, its grade means nothing.
            let private = args.data.iter().map(PathBuf::from).chain(url.to_file_path()).collect();
            let (sandbox, kept, left_out) = with_references(&args.python, private, problems).await?;
            problems = kept;
            (Some(sandbox), left_out)
        }
        false => (None, vec![]),
    };
    let (found, refusal) = ask::ask(&args, model, &problems, &budgets, &url).await?;
    let failures = || found.values().filter_map(|found| found.as_ref().err());
    let first_failure = failures().find(|error| error.is_passing()).or_else(|| failures().next()).cloned();
    let mut rows = rows_of(bench, model, &args, &problems, &budgets, found);
    grade::complete_tags(&mut rows);
    let rows = graded(rows, problems, sandbox).await?;
    let properties = HashMap::from([(PROPERTY.to_string(), Some(identity))]);
    let ids = left_out.iter().map(|(id, _)| id.clone()).collect();
    left_out::save(&url, &ids).await?;
    whole_table::replace(&url, &whole_table::batch(&row::COLUMNS, &rows)?, properties).await?;
    if let Some(generations) = generations {
        generations.write(&rows).await?;
    }
    let evaluation = Evaluation::new(to, rows, clock::total(&url).await?, ids);
    let left_out = left_out.iter().map(named_reason).collect();
    let summary = summarize(&args, bench, model, left_out, &evaluation);
    print_as(format, &summary, || summary.table())?;
    verdict(&summary, first_failure.as_ref(), refusal)
}

/// What an evaluation is of: the value of [`PROPERTY`].
fn identity(bench: Bench, model: &str, args: &Request, wording: &Wording) -> String {
    let Request { samples, temperature, top_p, stop, .. } = args;
    let mut identity = serde_json::json!({
        "bench": bench.name(), "model": model, "samples": samples, "temperature": temperature, "top_p": top_p,
        "stop": stop,
    });
    if let Some(prompt) = &wording.template {
        identity["prompt"] = prompt.as_str().into();
    }
    if !wording.suffix.is_empty() {
        identity["suffix"] = wording.suffix.as_str().into();
    }
    identity.to_string()
}

async fn load(location: &str) -> Result<Evaluation, Failure> {
    let url = location::folder(location)?;
    let table = whole_table::read(&url).await?;
    let table = table.filter(|table| table.properties.contains_key(PROPERTY));
    let table = table
        .ok_or_else(|| Failure::Usage(format!("{location} is not an evaluation: asap eval wrote no table there")))?;
    Ok(Evaluation::new(location, table.rows()?, clock::total(&url).await?, left_out::load(&url).await?))
}

/// A problem whose reference program fails, and why.
type LeftOut = (String, Reason);

fn named_reason((id, reason): &LeftOut) -> String {
    format!("{} ({})", one_line(id), reason.name())
}

/// Opens the sandbox, which hides the private paths, runs the bench's own programs, and leaves out the problems that they
/// fail.
async fn with_references(
    python: &str,
    private: Vec<PathBuf>,
    mut problems: Vec<Problem>,
) -> Result<(Sandbox, Vec<Problem>, Vec<LeftOut>), Failure> {
    let wrong = |error: SandboxError| Failure::Usage(error.to_string());
    let (python, mut command) = (python.to_string(), program::command()?);
    command.push(asap_programs::COMMAND.into());
    let bar = Bar::new("running the bench's own programs", false);
    bar.begin(problems.len() as u64, 1);
    let checked = tokio::task::spawn_blocking(move || {
        let sandbox = Sandbox::new(&python, command, Limits::default())?.hiding(&private)?;
        sandbox.check_imports(problems.iter().filter_map(Problem::program))?;
        let check = |problem: &mut Problem| {
            let Check::Program(program) = &mut problem.check else { return Ok(None) };
            Ok(sandbox.check_reference(program)?.filter(|verdict| !verdict.passed()))
        };
        let failures = problems.par_iter_mut().map(|problem| {
            let failure = check(problem);
            bar.advance(1, 0);
            failure
        });
        let mut failures = failures.collect::<Result<Vec<Option<Verdict>>, SandboxError>>()?;
        // A program may have run out of time because others ran next to it.
        for (problem, failure) in problems.iter_mut().zip(&mut failures).filter(|(_, failure)| failure.is_some()) {
            *failure = check(problem)?;
        }
        bar.finish();
        Ok((sandbox, problems, failures))
    });
    let (sandbox, problems, failures) = checked.await.map_err(stopped)?.map_err(wrong)?;
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (problem, failure) in problems.into_iter().zip(failures) {
        match failure {
            None => kept.push(problem),
            Some(verdict) => left_out.push((problem.id, verdict.reason)),
        }
    }
    if kept.is_empty() {
        let what = "every reference program of the benchmark fails its tests on this machine; check --python";
        let left_out = left_out.iter().map(named_reason).collect::<Vec<_>>().join(", ");
        return Err(Failure::Failed(format!("{what}: {left_out}")));
    }
    if !left_out.is_empty() {
        let what = several(left_out.len() as u64, "problem");
        note(format!("{what} left out, because their reference programs fail their tests on this machine"));
    }
    Ok((sandbox, kept, left_out))
}

fn rows_of(
    bench: Bench,
    model: &str,
    args: &Request,
    problems: &[Problem],
    budgets: &[u32],
    mut found: Found,
) -> Vec<Graded> {
    let mut rows = Vec::new();
    for &budget in budgets {
        for (index, problem) in problems.iter().enumerate() {
            for sample in 0..args.samples {
                let response = found.remove(&ask::ResponseKey { problem: index, sample, budget });
                let mut row = Graded {
                    bench: bench.name(),
                    id: problem.id.clone(),
                    sample: sample.into(),
                    budget: budget.into(),
                    model: model.to_string(),
                    temperature: args.temperature,
                    top_p: args.top_p,
                    prompt: problem.prompt.clone(),
                    ..Graded::default()
                };
                if let Check::Answer(gold) = &problem.check {
                    row.gold = Some(gold.clone());
                }
                match response {
                    Some(Ok(response)) => {
                        row.response = Some(response.text);
                        row.finish_reason = response.finish_reason;
                        row.tokens = Some(response.tokens as i64);
                        row.seconds = Some(response.seconds);
                    }
                    Some(Err(error)) => row.why = error.to_string(),
                    None => row.why = "interrupted".to_string(),
                }
                rows.push(row);
            }
        }
    }
    rows
}

async fn graded(
    mut rows: Vec<Graded>,
    problems: Vec<Problem>,
    sandbox: Option<Sandbox>,
) -> Result<Vec<Graded>, Failure> {
    let bar = Bar::new("grading", false);
    bar.begin(rows.len() as u64, 1);
    let grading = tokio::task::spawn_blocking(move || {
        let by_id: HashMap<&str, &Problem> = problems.iter().map(|problem| (problem.id.as_str(), problem)).collect();
        grade::grade_all(&mut rows, &by_id, sandbox.as_ref(), || bar.advance(1, 0))?;
        bar.finish();
        Ok(rows)
    });
    grading.await.map_err(stopped)?.map_err(|error: SandboxError| Failure::Failed(error.to_string()))
}

fn stopped(error: tokio::task::JoinError) -> Failure {
    Failure::Failed(format!("the evaluation stopped: {error}"))
}

fn summarize(args: &Request, bench: Bench, model: &str, left_out: Vec<String>, of: &Evaluation) -> Summary {
    let rows = &of.rows;
    let budgets: BTreeSet<i64> = rows.iter().map(|row| row.budget).collect();
    let at = |budget: i64| AtBudget::of(budget, &rows.iter().filter(|row| row.budget == budget).collect::<Vec<_>>());
    Summary {
        bench: bench.name(),
        model: model.to_string(),
        to: of.location.clone(),
        temperature: args.temperature,
        samples: args.samples,
        concurrency: args.concurrency,
        seconds_per_problem: of.seconds_per_problem,
        left_out,
        budgets: budgets.into_iter().map(at).collect(),
    }
}

/// Fails if responses are missing. The same command asks for them again.
fn verdict(summary: &Summary, first: Option<&CallError>, refusal: Option<String>) -> Result<(), Failure> {
    let failed: usize = summary.budgets.iter().map(|at| at.failed).sum();
    if failed == 0 {
        return Ok(());
    }
    let missing = several(failed as u64, "response");
    if let Some(refusal) = refusal {
        return Err(Failure::Failed(format!("{missing} missing: {refusal}. Raise the limit and run the same command")));
    }
    let why = first.map_or_else(|| "interrupted".to_string(), ToString::to_string);
    let what = format!("{missing} missing, and not counted; the column why has all reasons, such as {why}");
    match first.is_none_or(CallError::is_passing) {
        true => Err(Failure::TryLater(format!("{what}. Run the same command to ask again"))),
        false => Err(Failure::Failed(format!("{what}. The endpoint refuses these requests each time"))),
    }
}
