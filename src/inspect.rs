//! `asap inspect`: shows the schemas and rows of traces, which columns are read as question, chain and answer, what
//! the rows teach, and their faults.

mod lessons;

#[cfg(feature = "view")]
use std::io::{IsTerminal, Write};
#[cfg(feature = "view")]
use std::process::{Command, Stdio};

use asap_llm::Llm;
use asap_lm::locate_tokenizer;
use asap_pipelines::PRUNED_BY;
use asap_pipelines::corpus::inspect::{Inspected, InspectedRow};
use asap_pipelines::corpus::{ColumnMapping, Corpus};
use asap_pipelines::location::{self, command};
use asap_pipelines::outputs;
use asap_pipelines::outputs::rejects::RejectsOfStatus;
use asap_udfs::Settings;
#[cfg(feature = "view")]
use asap_view::{
    chain::{self, Chain},
    health::Health,
};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::config;
use crate::failure::Failure;
use crate::output::{
    SummaryFormat, at_least_one, count, failed_files, note, parsed, print_as, quoted, several, shortened,
};
#[cfg(feature = "view")]
use crate::output::{has_color, print};
use crate::progress::while_opening;
use crate::terminal::one_line;
use lessons::Lessons;

const SHOWN_CHARACTERS: usize = 100;
const SHOWN_ROWS: usize = 3;

/// Show what a folder or file holds: the role of each column, some rows as asap reads them, what the rows teach, and their faults
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap inspect data/sample
  asap inspect traces.jsonl --rows 10
  asap inspect s3://lake/traces --columns question=Question,cot=Complex_CoT,answer=Response
  asap inspect out/pruned --model Qwen/Qwen3-8B --max-length 8192
  asap inspect s3://lake/traces --health --bench math500.jsonl aime24.jsonl
  asap inspect out/pruned --chain openr1-math.parquet:17
  asap sql -c \"SELECT * FROM corpus_shapes()\"      lists the recognized column names")]
pub struct InspectArgs {
    /// A folder, a file or a Delta table
    #[arg(value_name = "LOC")]
    from: String,
    /// Name the question, cot and answer columns, as for asap run and asap sql
    #[arg(long, value_name = "question=…,cot=…,answer=…", value_parser = parsed::<ColumnMapping>)]
    columns: Option<ColumnMapping>,
    /// Show N rows of each schema [default: 3, or 0 with --model and --health]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Count what the rows teach with the tokenizer and chat template of this model: a folder, or org/name on the
    /// Hub. Shows per file the trained tokens, the rows that train nothing, the rows over --max-length and what they
    /// lose, the rows whose chain the template drops; and the loss of packing, and two rows with the trained text in [[ ]]
    #[arg(long, value_name = "DIR")]
    model: Option<String>,
    /// Set the maximum tokens of a row for --model, up to the model's window
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = at_least_one::<usize>, requires = "model")]
    max_length: usize,
    #[cfg(feature = "view")]
    /// Check all rows for faults: cut_off, loop, mixed_scripts, hollow, wrong_answer, call_without_result,
    /// result_without_call, arguments_not_json, call_id_twice, duplicate and contaminated. Shows of each the number of rows, three
    /// examples, and the WHERE that removes the rows in asap sql. Removes nothing
    #[arg(long)]
    health: bool,
    #[cfg(feature = "view")]
    /// Look for the questions of these benchmarks, which are files of Parquet or JSON lines
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "health")]
    bench: Vec<String>,
    #[cfg(feature = "view")]
    /// Show what pruning did to one chain of an output, by its id or its input row
    #[arg(long, value_name = "ID|FILE:ROW", conflicts_with_all = ["columns", "rows", "model", "health"])]
    chain: Option<String>,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

#[derive(Debug, Serialize)]
struct Inspection {
    schemas: Vec<Inspected>,
    failures: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lessons: Option<Lessons>,
    #[cfg(feature = "view")]
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
}

pub async fn run(args: InspectArgs) -> Result<(), Failure> {
    config::apply()?;
    #[cfg(feature = "view")]
    if let Some(named) = &args.chain {
        let chain = chain::find(&args.from, named).await?;
        return match args.format {
            SummaryFormat::Json => Ok(print(&serde_json::to_string(&chain)?)?),
            SummaryFormat::Table => page(&chain),
        };
    }
    if let Some(output) = args.from.trim_end_matches('/').strip_suffix("/.asap/rejects") {
        let found = outputs::rejects::rejects(output, args.rows.unwrap_or(SHOWN_ROWS)).await?;
        return Ok(print_as(args.format, &found, || rejects(output, &found))?);
    }
    let context = asap_pipelines::session::session(Settings::default(), &Llm::default())?;
    let state = context.state();
    let looked = Corpus::look(&state, &args.from, args.columns.as_ref());
    let corpus = while_opening(std::slice::from_ref(&args.from), looked).await?;
    corpus.notes.iter().for_each(note);
    let failures: Vec<String> = corpus.failures.iter().map(ToString::to_string).collect();
    let folder = args.model.as_deref().map(locate_tokenizer).transpose()?;
    #[cfg(feature = "view")]
    let is_checked = args.health;
    #[cfg(not(feature = "view"))]
    let is_checked = false;
    let rows = args.rows.unwrap_or(if folder.is_some() || is_checked { 0 } else { SHOWN_ROWS });
    let schemas = match corpus.inspect(&context, rows).await {
        Ok(schemas) => schemas,
        Err(error) => return Err(corpus.named(&state, error).await.into()),
    };
    let location = (args.from.as_str(), args.columns.as_ref());
    let lessons = match args.model.as_deref().zip(folder.as_deref()) {
        Some(model) => Some(Lessons::read(&context, location, &corpus, model, args.max_length).await?),
        None => None,
    };
    #[cfg(feature = "view")]
    // A corpus without a readable row is refused below.
    let health = match args.health && !schemas.is_empty() {
        true => Some(Health::read(&context, location, &corpus, &args.bench).await?),
        false => None,
    };
    let found = Inspection {
        schemas,
        failures,
        lessons,
        #[cfg(feature = "view")]
        health,
    };
    let shown = location::parse(&args.from).map_or(args.from.clone(), |url| location::display(&url));
    print_as(args.format, &found, || table(&shown, &found))?;
    match found.failures.as_slice() {
        [] => Ok(()),
        _ => Err(Failure::Failed(format!("not recognized:\n  {}", failed_files(&corpus.failures)))),
    }
}

/// Shows a chain through the user's pager, if stdout is a terminal.
#[cfg(feature = "view")]
fn page(chain: &Chain) -> Result<(), Failure> {
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty()).unwrap_or("less -R".to_string());
    let pager = std::io::stdout().is_terminal().then(|| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &pager]).env("LESS", "FRX").stdin(Stdio::piped()).spawn()
    });
    let Some(Ok(mut pager)) = pager else { return Ok(print(&chain.terminal(false))?) };
    if let Some(mut stdin) = pager.stdin.take() {
        // A reader that quits before the end has seen enough.
        drop(stdin.write_all(chain.terminal(has_color(&std::io::stdout())).as_bytes()));
    }
    pager.wait()?;
    Ok(())
}

fn rejects(output: &str, found: &[RejectsOfStatus]) -> String {
    let mut lines = vec![format!("{} of {output}", several(found.iter().map(|status| status.rows).sum(), "reject"))];
    for RejectsOfStatus { status, rows, sample } in found {
        lines.push(format!("\n{status}: {}", several(*rows, "row")));
        lines.extend(sample.iter().map(|row| format!("  row {} of {}: {}", row.row, row.file, row.error)));
    }
    if !found.is_empty() {
        let sql = format!("SELECT * FROM {}", quoted(&format!("{output}/.asap/rejects")));
        lines.push(format!("\n{} shows their columns.", command(&["asap", "sql", "-c", &sql])));
    }
    lines.join("\n")
}

fn table(location: &str, inspection: &Inspection) -> String {
    let Inspection { schemas, failures, lessons, .. } = inspection;
    let mut lines = vec![location.to_string()];
    lines.extend((schemas.is_empty() && failures.is_empty()).then(|| "empty: it has no rows".to_string()));
    for schema in schemas {
        lines.push(String::new());
        let files = match schema.files {
            1 => schema.file.clone(),
            files => format!("{} files like {}", count(files as u64), schema.file),
        };
        lines.push(format!("{files}: {}, read as {}", several(schema.rows, "row"), schema.shape));
        let columns: Vec<String> =
            schema.columns.iter().map(|(name, kind)| format!("{} ({kind})", one_line(name))).collect();
        let parts = [
            ("question", Some(schema.question.clone())),
            ("cot", Some(schema.cot.clone())),
            ("answer", Some(schema.answer.clone())),
            ("system", schema.system.clone()),
            ("columns", Some(columns.join(", "))),
            ("to change", Some(command(&["--columns", &schema.mapping.to_string()]))),
            ("rejected", schema.flag.as_ref().map(|flag| format!("rows whose {flag} is false or 0"))),
        ];
        lines.extend(parts.into_iter().filter_map(|(what, part)| Some(format!("  {what:<9}  {}", part?))));
        schema.sample.iter().for_each(|row| show_row(&mut lines, row));
    }
    #[cfg(feature = "view")]
    lines.extend(inspection.health.iter().flat_map(|health| [String::new(), health.table()]));
    lines.extend(lessons.iter().flat_map(|lessons| [String::new(), lessons.table()]));
    lines.join("\n")
}

fn show_row(lines: &mut Vec<String>, row: &InspectedRow) {
    lines.push(format!("  row {} of {}", row.row, row.file));
    for (what, text) in [("question", &row.question), ("cot", &row.cot), ("answer", &row.answer)] {
        lines.push(format!("    {what:<8}  {}", shortened(text.as_deref(), SHOWN_CHARACTERS)));
    }
    let system = row.system.as_deref();
    lines.extend(system.map(|system| format!("    system    {}", shortened(Some(system), SHOWN_CHARACTERS))));
    lines.extend(row.turns.iter().map(|turns| format!("    turns     {}", counted(turns, row.thought_tokens))));
    let rejected = row.status.as_ref().zip(row.error.as_ref());
    // A row without a thought has no turns to prune, and another status.
    let is_pruned = row.turns.is_some() && row.status.as_deref() == Some("multi_turn");
    let by = if is_pruned { format!("; only {PRUNED_BY} prune conversations") } else { String::new() };
    lines.extend(rejected.map(|(status, error)| format!("    rejected  {status}: {error}{by}")));
}

/// The turns of a conversation in numbers.
fn counted(turns: &[Value], tokens: Option<i64>) -> String {
    let calls: usize = turns.iter().filter_map(|turn| Some(turn["calls"].as_array()?.len())).sum();
    let thoughts = turns.iter().filter(|turn| turn["thought"].is_string()).count();
    let [turns, calls, thoughts] = [(turns.len(), "turn"), (calls, "tool call"), (thoughts, "thought")]
        .map(|(number, what)| several(number as u64, what));
    let tokens = several(tokens.unwrap_or_default().unsigned_abs(), "token");
    format!("{turns}, {calls}, {thoughts} of {tokens}")
}
