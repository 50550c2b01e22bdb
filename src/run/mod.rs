//! `asap run`: runs a pipeline over a corpus, slice by slice, into a table.

mod metrics;
mod tables;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::Duration;

use asap_kernels::front_end::{Again, Flag, either};
use asap_llm::Usage;
use asap_pipelines::builtin;
use asap_pipelines::corpus::ColumnMapping;
use asap_pipelines::location::command;
use asap_pipelines::run::{
    MaxRejects, Observer, OnChange, OnSchemaChange, Originals, Part, Request, Summary, estimate, run as run_pipeline,
};
use chrono::Utc;
use clap::{Args, FromArgMatches};

use crate::config::{self, SettingArgs};
use crate::failure::{Failure, is_unreachable};
use crate::output::{
    SummaryFormat, at_least_one, complain, duration, error_line, failed_files, first_paragraph, note, parsed, print,
    print_as, print_summary, time,
};
use crate::progress::Bar;
use crate::signals::Stop;
use metrics::Metrics;

/// Run a pipeline over a corpus and commit the result to a Delta table
#[derive(Debug, Args)]
#[command(
    override_usage = "asap run [OPTIONS] --from <[NAME=]LOC> --to <LOC> <PIPELINE>",
    after_help = "\
Examples:
  asap run asap --from data/sample --to out/pruned
  asap run asap --from traces.jsonl --to out/short --max-tokens 2048
  asap run truncate --from data/sample --to out/truncated --limit 100 --format json
  asap run asap --from DIR --to OUT --dry-run --set asap.anchor.provider=openai …
  asap run asap --print > mine.sql
  asap run mine.sql --from math=s3://lake/math --from code=s3://lake/code --to s3://lake/pruned --on-change reprocess
  asap run mine.sql --from DIR --to OUT --columns question=Prompt,cot=Reasoning,answer=Reply

Run the same command again to process the remaining rows. The log of the output records which rows are done.

Inputs:
  asap inspect LOC shows how the files of a location are read.
  From a Delta table, the first run reads a snapshot, and later runs read the versions committed since.
  With several --from, give each location a name. In the output, the column `source` holds this name, followed by the
  file path.
  asap identifies a file by its path below the location, and recognizes a renamed file by its content.

Exit codes:
  0   done, or nothing to do
  1   failed
  2   usage or settings
  3   a file failed, too many rows were rejected, or no row reached the output
  4   another run did all the work first, or replaced the whole output (--new-generation)
  75  try again later"
)]
pub struct RunArgs {
    #[arg(value_name = "PIPELINE", help = builtin::help())]
    pipeline: String,
    /// Print the pipeline and exit
    #[arg(long)]
    print: bool,
    /// Read this corpus: a folder, file or glob pattern of Parquet or JSON lines, or a Delta table. Repeat the flag to
    /// read several corpora, each with a name
    #[arg(long, value_name = "[NAME=]LOC", required_unless_present = "print")]
    from: Vec<String>,
    /// Write to this folder: a new folder, or an output of the same pipeline
    #[arg(long, value_name = "LOC", required_unless_present = "print")]
    to: Option<String>,
    /// Set the budget: the maximum tokens of a pruned chain, 4096 by default (asap.refine.max_tokens)
    #[arg(long, value_name = "N", value_parser = config::value_of("refine.max_tokens"))]
    max_tokens: Option<String>,
    /// Set the budget as a share of each original chain, above 0 and at most 1 (asap.refine.ratio). With --max-tokens,
    /// the smaller budget applies
    #[arg(long, value_name = "R", value_parser = config::value_of("refine.ratio"))]
    ratio: Option<String>,
    /// Name the question, cot and answer columns if asap cannot recognize them. If you name no answer column, the
    /// cot column must hold the whole generation: the chain between think tags, then the answer
    #[arg(long, value_name = "question=…,cot=…,answer=…", value_parser = parsed::<ColumnMapping>)]
    columns: Option<ColumnMapping>,
    /// Process at most N input rows, including those of earlier runs. The files share N evenly
    #[arg(long, value_name = "N", value_parser = at_least_one::<usize>)]
    limit: Option<usize>,
    /// Process N random rows of the input. The first run chooses the rows, and later runs add no others
    #[arg(long, value_name = "N", value_parser = at_least_one::<usize>, conflicts_with = "limit")]
    sample: Option<usize>,
    /// Choose the rows of the sample: the same seed chooses the same rows [default: 0]
    #[arg(long, value_name = "S", requires = "sample")]
    seed: Option<u64>,
    /// Choose what happens if a file changes, or leaves its Delta table, after asap read its rows: the file fails and
    /// its old rows stay (fail), new rows replace the old ones in one commit (reprocess), or the old rows stay (ignore)
    #[arg(long, value_name = "fail|reprocess|ignore", default_value = "fail", value_parser = parsed::<OnChange>)]
    on_change: OnChange,
    /// Choose what happens if a file has a column that the output does not have: the output gets the column (add), or
    /// the file fails (fail)
    #[arg(long, value_name = "add|fail", default_value = "add", value_parser = parsed::<OnSchemaChange>)]
    on_schema_change: OnSchemaChange,
    /// Replace the whole output: delete all rows in one commit, then refill the output with this pipeline. Meanwhile,
    /// readers see the output fill
    #[arg(long)]
    new_generation: bool,
    /// Keep running: start the next run TIME after each run ends, until interrupted [default without TIME: 30s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30s", require_equals = true,
        value_parser = duration, conflicts_with = "dry_run")]
    watch: Option<Duration>,
    /// Process rejected rows again from their input files: rows with these statuses, or, without STATUS, all rejected
    /// rows
    #[arg(long, value_name = "STATUS,…", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    retry_rejects: Option<String>,
    /// End the run if more rows than this are rejected: a number, or a share such as 2%
    #[arg(long, value_name = "N|P%", value_parser = parsed::<MaxRejects>)]
    max_rejects: Option<MaxRejects>,
    /// Process only the slices of part K of N. Eight processes, with 1/8 to 8/8, fill one output together
    #[arg(long, value_name = "K/N", value_parser = parsed::<Part>)]
    part: Option<Part>,
    /// Partition a new output by these columns. Delta reads an empty text in these columns as NULL
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    partition_by: Vec<String>,
    /// Copy input columns to the output: all, none, the named columns, or the needed columns. A column is not needed if
    /// its whole content is already in the output columns question, cot, answer or system. Rejects keep all columns
    #[arg(long, value_name = "needed|all|none|COLUMNS", default_value = "needed", value_parser = parsed::<Originals>)]
    originals: Originals,
    /// Estimate the calls to a language model, their cost, and the tokens of the scoring model. Send, pay and write
    /// nothing. The estimate assumes asap.anchor.max_tokens output tokens for each ai_complete answer, and no reasoning
    /// tokens
    #[arg(long)]
    dry_run: bool,
    /// Serve Prometheus metrics of the run under /metrics, at a loopback address
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "dry_run")]
    metrics_addr: Option<SocketAddr>,
    /// Set the output format of the summary; json prints one object on the last line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
    #[command(flatten)]
    settings: SettingArgs,
}

/// What the SQL of a pipeline contains if it asks a language model.
const ASKING: [&str; 3] = ["cot_anchor(", "cot_coarse(", "ai_complete("];

impl RunArgs {
    fn request(mut self) -> Result<Request, Failure> {
        if self.seed.is_some() && self.sample.is_none() {
            let (seed, sample) = (Flag("--seed"), either("--sample N", "sample=N"));
            return Err(Failure::Usage(format!("{seed} chooses the rows of a sample: add {sample}")));
        }
        let has_ratio = self.ratio.is_some();
        let has_budget = self.max_tokens.is_some() || has_ratio;
        self.settings.add("--max-tokens", "refine.max_tokens", self.max_tokens)?;
        self.settings.add("--ratio", "refine.ratio", self.ratio)?;
        let settings = config::load(&self.settings)?;
        let sql = builtin::pipeline(&self.pipeline).map_err(Failure::Usage)?;
        if has_budget && !sql.contains(builtin::BUDGET) {
            without_budget(&self.pipeline, &sql, has_ratio).iter().for_each(note);
        }
        let is_limited =
            self.settings.set.iter().any(|pair| pair.trim_start_matches("asap.").starts_with("anchor.max_c"));
        if is_limited && !ASKING.iter().any(|function| sql.contains(function)) {
            note(format!(
                "the pipeline {} asks no language model: the limits on its calls have no effect",
                self.pipeline
            ));
        }
        Ok(Request {
            sql,
            name: self.pipeline,
            from: self.from,
            to: self.to.unwrap_or_default(),
            columns: self.columns,
            limit: self.limit.map(|limit| limit as u64),
            sample: self.sample.map(|rows| (rows as u64, self.seed.unwrap_or_default())),
            slice_rows: settings.run_slice_rows.map(|rows| rows.0.into()),
            commit_every: settings.run_commit_seconds.duration(),
            on_change: self.on_change,
            on_schema_change: self.on_schema_change,
            new_generation: self.new_generation,
            retry_rejects: self
                .retry_rejects
                .map(|statuses| statuses.split(',').filter(|status| !status.is_empty()).map(str::to_string).collect()),
            max_rejects: self.max_rejects,
            part: self.part,
            grace: settings.run_grace_seconds.duration(),
            partition_by: self.partition_by,
            shard_bytes: NonZeroU64::try_from(u64::from(settings.run_shard_bytes.0)).unwrap_or(NonZeroU64::MIN),
            originals: self.originals,
            says_finished: self.watch.is_none(),
            settings,
        })
    }
}

/// A note on the flags without effect on a pipeline that does not call `cot_budget`. Without a maximum, its functions take
/// `asap.refine.max_tokens`.
fn without_budget(pipeline: &str, sql: &str, has_ratio: bool) -> Option<String> {
    let (tokens, ratio) = (Flag("--max-tokens"), Flag("--ratio"));
    match ["cot_refine", "cot_fit("].iter().any(|function| sql.contains(function)) {
        false => Some(format!("the pipeline {pipeline} ignores {tokens} and {ratio}: it calls no cot_budget")),
        true => has_ratio.then(|| {
            format!(
                "the pipeline {pipeline} ignores {ratio}, and {tokens} applies: for {ratio}, pass \
                 cot_budget(cot_tokens(cot)) as the third argument of cot_refine"
            )
        }),
    }
}

/// The flags that concern the output on a terminal or a process that keeps running, or that set a setting.
const OF_COMMAND: [&str; 9] = ["print", "from", "to", "watch", "metrics-addr", "format", "set", "max-tokens", "ratio"];

/// Returns the names of the flags that [`run_quietly`] takes in addition to `--from`, `--to` and `--set`.
pub fn flags() -> Vec<String> {
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let flags = command.get_arguments().filter_map(clap::Arg::get_long).filter(|flag| !OF_COMMAND.contains(flag));
    flags.map(str::to_string).collect()
}

/// Runs `asap run` with these arguments, for a caller that shows the progress itself. Returns the summary, or the
/// estimate of a dry run, as JSON. If `returns_rejects`, the caller gets the rejects too, and an output without rows is no
/// failure.
///
/// # Errors
/// As `asap run`.
pub async fn run_quietly(
    arguments: Vec<String>,
    returns_rejects: bool,
    bar: &Bar,
    stop: Stop,
) -> Result<String, Failure> {
    let args = parse(arguments)?;
    let dry_run = args.dry_run;
    let request = args.request()?;
    if dry_run {
        return Ok(serde_json::to_string(&estimate(request, bar, stop.asked()).await?)?);
    }
    let summary = run_pipeline(request.clone(), bar, stop.asked()).await?;
    if !returns_rejects {
        has_input(&summary)?;
    }
    verdict(&summary, returns_rejects || request.retry_rejects.is_some())?;
    Ok(serde_json::to_string(&summary)?)
}

fn parse(arguments: Vec<String>) -> Result<RunArgs, Failure> {
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let matches = command.try_get_matches_from(["run".to_string()].into_iter().chain(arguments));
    let args = matches.and_then(|matches| RunArgs::from_arg_matches(&matches));
    args.map_err(|error| Failure::Usage(first_paragraph(&error)))
}

/// Checks a run without doing it. Returns notes on it.
///
/// # Errors
/// As `asap run` does before it reads a row.
#[cfg(feature = "schedule")]
pub(crate) async fn check(arguments: Vec<String>) -> Result<Vec<String>, Failure> {
    let args = parse(arguments)?;
    args.metrics_addr.map_or(Ok(()), metrics::check)?;
    let mut notes = Vec::new();
    if args.new_generation {
        notes.push("new-generation = true deletes all rows of the output at each time of the job".to_string());
    }
    if args.watch.is_some() {
        notes.push("with watch, the run does not end, so the job starts only once".to_string());
    }
    let missing = asap_pipelines::run::check(args.request()?).await?;
    notes.extend(
        missing
            .map(|missing| format!("{missing}: the columns of the input and the rows of the output are not checked")),
    );
    Ok(notes)
}

pub async fn run(args: RunArgs) -> Result<(), Failure> {
    if args.print {
        config::load(&args.settings)?;
        let sql = builtin::pipeline(&args.pipeline).map_err(Failure::Usage)?;
        return Ok(print(sql.trim_end())?);
    }
    let RunArgs { format, dry_run, watch, metrics_addr, .. } = args;
    let request = args.request()?;
    let stop = Stop::listen("committing the finished slices");
    if dry_run {
        let bar = Bar::new("pruning", false).opening(&request.from);
        let result = estimate(request, &bar, stop.asked()).await;
        bar.finish();
        let estimate = result?;
        estimate.notes.iter().for_each(note);
        return Ok(print_as(format, &estimate, || tables::estimate_table(&estimate))?);
    }
    let metrics = match metrics_addr {
        Some(address) => Metrics::serve(address).await?,
        None => Metrics::default(),
    };
    let Some(pause) = watch else { return run_once(&request, format, &metrics, &stop, None).await };
    let (mut last, mut idle, mut error) = (None, String::new(), String::new());
    loop {
        // The process ends with the result of its last run that read rows.
        let ended = match (run_once(&request, format, &metrics, &stop, Some(&mut idle)).await, last) {
            (Err(Failure::Stopped(_)), Some(last)) => return last,
            (ended, _) => ended,
        };
        if stop.is_asked() {
            return ended;
        }
        match &ended {
            Ok(()) => error.clear(),
            Err(
                Failure::TooManyRejects(message)
                | Failure::FileFailed(message)
                | Failure::OtherRun(message)
                | Failure::TryLater(message)
                | Failure::Conflict(message),
            ) => {
                if error != *message {
                    complain(&format!("error: {message} (at {})", now()));
                    error.clone_from(message);
                }
            }
            Err(_) => return ended,
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.asked() => return ended,
        }
        last = Some(ended);
    }
}

/// The observers of a run: a progress bar, and metrics, which `--metrics-addr` serves.
struct Watchers<'a> {
    bar: Bar,
    metrics: &'a Metrics,
    broken: OnceLock<Summary>,
}

impl Watchers<'_> {
    fn each(&self, report: impl Fn(&dyn Observer)) {
        report(&self.bar);
        report(self.metrics);
    }
}

impl Observer for Watchers<'_> {
    fn begin(&self, rows: u64, slices: u64) {
        self.each(|observer| observer.begin(rows, slices));
    }

    fn advance(&self, rows: u64, tokens: u64) {
        self.each(|observer| observer.advance(rows, tokens));
    }

    fn slices(&self, running: u64, waiting: u64, usage: Usage) {
        self.each(|observer| observer.slices(running, waiting, usage));
    }

    fn committed(&self, summary: &Summary) {
        self.each(|observer| observer.committed(summary));
    }

    fn failed(&self, summary: &Summary) {
        // A run fails once.
        drop(self.broken.set(summary.clone()));
    }
}

fn now() -> String {
    time(Utc::now().timestamp_millis()).map_or(String::new(), |time| format!("{time} UTC"))
}

/// Runs once. A watch passes what its last round said if that had nothing to do, and says the time and only news.
async fn run_once(
    request: &Request,
    format: SummaryFormat,
    metrics: &Metrics,
    stop: &Stop,
    idle: Option<&mut String>,
) -> Result<(), Failure> {
    let bar = Bar::new("pruning", false).opening(&request.from);
    let watchers = Watchers { bar, metrics, broken: OnceLock::new() };
    let result = run_pipeline(request.clone(), &watchers, stop.asked()).await;
    watchers.bar.finish();
    metrics.end_run();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => {
            // Before the first answer there is nothing to sum up.
            let is_worked = format == SummaryFormat::Json || !is_unreachable(&error);
            if let Some(summary) = watchers.broken.get().filter(|_| is_worked) {
                let rows_read = summary.read.map_or(0, |(rows, _)| rows);
                let broken = tables::Broken { summary, rows_read, error: error_line(&error) };
                print_summary(format, &broken, || tables::table(summary))?;
            }
            return Err(error.into());
        }
    };
    let is_watch = idle.is_some();
    let said = format!("{}{:?}", tables::table(&summary), summary.notes);
    let is_news = idle.is_none_or(|idle| std::mem::replace(idle, said.clone()) != said);
    if is_news || format == SummaryFormat::Json {
        summary.notes.iter().for_each(note);
        let at = || if is_watch { format!("{}\n", now()) } else { String::new() };
        print_summary(format, &summary, || format!("{}{}", at(), tables::table(&summary)))?;
    }
    if !is_watch {
        has_input(&summary)?;
    }
    verdict(&summary, request.retry_rejects.is_some())
}

/// Fails if no run has filled the output yet, and the input has no row. A watch waits for rows.
fn has_input(summary: &Summary) -> Result<(), Failure> {
    let Summary { from, to, .. } = summary;
    match tables::lacks_input(summary) {
        false => Ok(()),
        true => Err(Failure::TooManyRejects(format!(
            "{} has no rows, so nothing was written to {to}: {} shows what asap finds there",
            from.join(", "),
            either("asap inspect", "asap inspect, on the command line,")
        ))),
    }
}

/// A run that adds to an output fails if it has at least this many rows and all of them are rejects.
const MANY_REJECTS: u64 = 20;

fn verdict(summary: &Summary, may_be_empty: bool) -> Result<(), Failure> {
    let counts = &summary.counts;
    if summary.interrupted && summary.slices_left > 0 {
        let done = format!("{} slices were committed, {} remain", summary.slices, summary.slices_left);
        return Err(Failure::TryLater(format!(
            "interrupted: {done}; {} to resume",
            either("run the same command", "repeat the call")
        )));
    }
    if !summary.files_failed.is_empty() {
        let files = match summary.files_failed.len() {
            1 => "a file".to_string(),
            failed => format!("{failed} files"),
        };
        let what = format!("{files} failed; fix the cause, then run again:\n  {}", failed_files(&summary.files_failed));
        let is_unavailable = summary.files_failed.iter().any(|failure| failure.is_unavailable);
        return Err(if is_unavailable { Failure::TryLater(what) } else { Failure::FileFailed(what) });
    }
    if summary.slices_deleted > 0 {
        return Err(Failure::Conflict(format!(
            "the shards of {} slices were deleted before they were committed, perhaps by asap table vacuum --now; {} to \
             write them again",
            summary.slices_deleted,
            either("run the same command", "repeat the call")
        )));
    }
    if summary.slices == 0 && summary.slices_lost > 0 {
        let what = "another run committed all these rows first";
        return Err(Failure::OtherRun(format!("{what}; {Again} if their files have changed since")));
    }
    // Rows that another run committed meanwhile are in the output, too.
    let is_alone = summary.began_empty && summary.slices_lost == 0;
    if is_alone && counts.rows_filtered > 0 && counts.rows_out + counts.rows_rejected == 0 && !may_be_empty {
        return Err(Failure::TooManyRejects(format!(
            "none of {} rows reached the output: the WHERE of the pipeline filters all of them out",
            counts.rows_in
        )));
    }
    // Retried rows that fail again are no worse than before, and a few new rows may all be rejects.
    let says_something = summary.began_empty || counts.rows_rejected >= MANY_REJECTS;
    match counts.rows_out == 0 && counts.rows_rejected > 0 && says_something && !may_be_empty {
        false => Ok(()),
        true => Err(Failure::TooManyRejects(format!(
            "none of {} rows reached the output; {} shows why, row by row",
            counts.rows_in,
            command(&["asap", "inspect", &format!("{}/.asap/rejects", summary.to)])
        ))),
    }
}
