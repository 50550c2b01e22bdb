//! Faults of the rows of a corpus or an output, each with examples and the condition that removes its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asap_pipelines::PRUNED_BY;
use asap_pipelines::corpus::{CORPUS, ColumnMapping, Corpus};
use asap_pipelines::health::{Known, contaminated, near_duplicates};
use asap_pipelines::location::command;
use asap_pipelines::run::Observer;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use serde::Serialize;

use super::faults::{
    CONTAMINATED, CUT_OFF, DUPLICATE, HOLLOW, Kind, LOOP, MIXED_SCRIPTS, NOT_JSON, SAME_ID, WITHOUT_CALL,
    WITHOUT_RESULT, WRONG_ANSWER,
};
use crate::failure::Failure;
use crate::output::{count, percent, quoted, several, shortened, table};
use crate::progress::Bar;
use crate::terminal::one_line;

const EXAMPLES: usize = 3;
/// The value of columns that no file has.
const NOTHING: &str = "CAST(NULL AS VARCHAR)";
const SHOWN_CHARACTERS: usize = 160;
/// Columns that say why a generation ended.
const FINISH_REASONS: [&str; 4] = ["finish_reason", "stop_reason", "done_reason", "finish_reasons"];
/// Columns with the expected answer. An original column `answer` has another name if the answer of a generation is read.
const REFERENCES: [&str; 9] = [
    "expected_answer",
    "reference_answer",
    "ground_truth",
    "gold_answer",
    "gold",
    "reference",
    "target",
    "source_answer",
    "source_final_answer",
];

#[derive(Debug, Serialize)]
pub struct Health {
    rows: u64,
    faults: Vec<Fault>,
    /// Rows that a run rejects, by status.
    rejected: BTreeMap<String, u64>,
    /// Finish reasons that asap does not know, with their rows.
    unknown_finish_reasons: BTreeMap<String, u64>,
    not_checked: Vec<String>,
    #[serde(skip)]
    command: String,
}

#[derive(Debug, Serialize)]
struct Fault {
    fault: &'static str,
    rows: u64,
    share: f64,
    examples: Vec<Example>,
    /// The SQL condition on the table `corpus` that the other rows meet.
    keep: String,
}

/// A row with a fault. The order of the fields is the order of examples.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Example {
    file: String,
    row: i64,
    shown: String,
}

/// A check of one row, in SQL: whether it has the fault, and what to show of it.
struct Check {
    fault: &'static Kind,
    is_faulty: String,
    shown: String,
    /// The value that a row needs to be checked, and what is missing without it.
    needs: Option<(String, String)>,
}

/// The rows with a fault, and the first of them.
#[derive(Default)]
struct Found {
    rows: u64,
    first: BTreeSet<Example>,
    /// Rows that cannot be checked.
    unchecked: u64,
}

impl Found {
    fn add(&mut self, example: Example) {
        self.rows += 1;
        self.first.insert(example);
        if self.first.len() > EXAMPLES {
            self.first.pop_last();
        }
    }

    /// Adds rows whose questions are elsewhere too. The matches of a row follow each other.
    fn known(known: &[Known]) -> Self {
        let mut found = Self::default();
        for rows in known.chunk_by(|a, b| (&a.row.file, a.row.row) == (&b.row.file, b.row.row)) {
            let Known { row, of, share, matched } = &rows[0];
            let matched = matched.as_deref().unwrap_or(&row.question);
            let mut shown = format!("{} as row {} of {}", percent(*share, 1.0), of.row, of.file);
            shown += &format!(": \"{}\"", shortened(Some(matched), SHOWN_CHARACTERS));
            if matched != of.question.as_ref() {
                shown += &format!(" in \"{}\"", shortened(Some(&of.question), SHOWN_CHARACTERS));
            }
            found.add(Example { file: row.file.to_string(), row: row.row, shown });
        }
        found
    }

    fn fault(self, kind: &Kind, of: u64, keep: String) -> Fault {
        let share = self.rows as f64 / of.max(1) as f64;
        Fault { fault: kind.name, rows: self.rows, share, examples: self.first.into_iter().collect(), keep }
    }
}

impl Health {
    pub async fn read(
        context: &SessionContext,
        (location, columns): (&str, Option<&ColumnMapping>),
        corpus: &Corpus,
        benches: &[String],
    ) -> Result<Self, Failure> {
        let state = context.state();
        context.register_table(CORPUS, Arc::new(corpus.view(&state)?))?;
        let rows = corpus.rows();
        let passes = if benches.is_empty() { 2 } else { 3 };
        let bar = Bar::new("checking", false);
        bar.begin(passes * rows, 0);
        let on_rows = |rows| bar.advance(rows, 0);
        let mapping = columns.map_or(String::new(), |columns| format!(", {}", quoted(&columns.to_string())));
        let mut not_checked = Vec::new();
        // The benchmarks come first, so that a wrong file is reported at once.
        let mut known = Vec::new();
        if benches.is_empty() {
            not_checked.push("contaminated: name benchmarks with --bench".to_string());
        } else {
            let (found, unchecked) = contaminated(&state, corpus, benches, &on_rows).await?;
            if unchecked > 0 {
                let rows = several(unchecked as u64, "row");
                not_checked.push(format!("contaminated: {rows} of the benchmarks without a question, or with one that is too short or made of common phrases"));
            }
            let files = benches.iter().map(|bench| quoted(bench)).collect::<Vec<_>>().join(", ");
            let keep =
                format!("source NOT IN (SELECT source FROM cot_contaminated({}, {files}{mapping}))", quoted(location));
            known.push(Found::known(&found).fault(&CONTAMINATED, rows, keep));
        }
        let found = near_duplicates(&state, corpus, &on_rows).await?;
        let keep = format!("source NOT IN (SELECT source FROM cot_duplicates({}{mapping}))", quoted(location));
        known.insert(0, Found::known(&found).fault(&DUPLICATE, rows, keep));
        let mut names: Vec<String> = corpus.schema().fields().iter().map(|field| field.name().clone()).collect();
        // An answer is no reference for itself. Where a file has a column source_answer, its column answer has another name.
        let is_renamed = corpus.said_by("answer").is_some() && !names.iter().any(|name| name == "source_source_answer");
        names.retain(|name| name != "source_answer" || !is_renamed);
        let (checks, reason) = checks(&names);
        let (found, [rejected, unknown_finish_reasons]) = check(context, corpus, &checks, reason, &on_rows).await?;
        bar.finish();
        let mut faults = Vec::new();
        for (found, Check { fault, is_faulty, needs, .. }) in found.into_iter().zip(checks) {
            let is_checked = found.rows > 0 || found.unchecked < rows.max(1);
            if let Some((_, missing)) = needs.filter(|_| found.unchecked > 0) {
                not_checked.push(format!("{missing} in {} of {}", count(found.unchecked), several(rows, "row")));
            }
            faults.extend(is_checked.then(|| found.fault(fault, rows, format!("({is_faulty}) IS NOT TRUE"))));
        }
        faults.append(&mut known);
        let columns = columns.map(ToString::to_string);
        let columns = columns.iter().flat_map(|columns| ["--columns", columns]);
        let words = ["asap", "sql", "--from", location].into_iter().chain(columns);
        let words: Vec<_> = words.chain(["-c", "SELECT * FROM corpus WHERE …"]).collect();
        let command = command(&words);
        Ok(Self { rows, faults, rejected, unknown_finish_reasons, not_checked, command })
    }

    pub fn table(&self) -> String {
        let row = |fault: &Fault| [fault.fault.to_string(), count(fault.rows), percent(fault.share, 1.0)];
        let mut lines = vec![
            format!("faults in {}", several(self.rows, "row")),
            table(["fault", "rows", "share"], self.faults.iter().map(row)),
        ];
        if !self.rejected.is_empty() {
            let by_status: Vec<_> =
                self.rejected.iter().map(|(status, rows)| format!("{} {status}", count(*rows))).collect();
            let rows = several(self.rejected.values().sum(), "row");
            lines.push(format!("rejected     {rows} that asap run would reject, by status: {}", by_status.join(", ")));
            if self.rejected.contains_key("multi_turn") {
                lines.push(format!("multi_turn   {PRUNED_BY} prune the conversations among these"));
            }
        }
        lines.extend(self.not_checked.iter().map(|line| format!("not checked  {line}")));
        let unknown = self.unknown_finish_reasons.iter();
        lines.extend(unknown.map(|(reason, rows)| {
            format!("unknown      finish reason '{reason}' of {}, not counted as cut_off", several(*rows, "row"))
        }));
        for Fault { fault, examples, keep, .. } in self.faults.iter().filter(|fault| fault.rows > 0) {
            lines.push(format!("\n{fault}\n  WHERE {keep}"));
            lines.extend(
                examples.iter().map(|Example { file, row, shown }| {
                    format!("  row {row} of {}: {}", one_line(file), one_line(shown))
                }),
            );
        }
        if self.faults.iter().any(|fault| fault.rows > 0) {
            lines.push(format!("\nNothing was removed. To read the other rows:\n  {}", self.command));
        }
        lines.join("\n")
    }
}

/// The checks of a row, and the expression of the finish reason.
fn checks(names: &[String]) -> (Vec<Check>, String) {
    // The first of these columns that a row has: files may differ in their columns.
    let find = |known: &[&str], value: fn(String) -> String| {
        let held = known.iter().filter_map(|name| names.iter().find(|column| column.eq_ignore_ascii_case(name)));
        let quoted = |name: &String| if *name == name.to_lowercase() { name.clone() } else { format!("\"{name}\"") };
        let held: Vec<String> = held.map(|name| value(quoted(name))).collect();
        match held.as_slice() {
            [] => NOTHING.to_string(),
            [one] => one.clone(),
            several => format!("coalesce({})", several.join(", ")),
        }
    };
    let reason = find(&FINISH_REASONS, |name| match name.to_lowercase().contains("reasons") {
        // The reasons of several generations: they count if they are equal.
        true => format!("CASE WHEN cardinality(array_distinct({name})) = 1 THEN {name}[1] END"),
        false => name,
    });
    let original = find(&["original_cot"], |name| name);
    let gold = find(&REFERENCES, |name| format!("nullif(CAST({name} AS VARCHAR), '')"));
    let end = |column: &str| format!("right({column}, {SHOWN_CHARACTERS})");
    let other = "cot_scripts(cot)[2]";
    let wrong = match gold.as_str() {
        NOTHING => String::new(),
        gold => format!(" OR (NOT cot_verify({gold}, answer) AND cot_answer(answer) IS NOT NULL)"),
    };
    let of = |fault: &'static Kind, is_faulty, shown| Check { fault, is_faulty, shown, needs: None };
    let needing = |what: &str, columns: &[&str], needs: &String, check| Check {
        needs: Some((needs.clone(), format!("{what}: no column {}", columns.join(", ")))),
        ..check
    };
    let shown_reason = format!("concat({reason}, ': … ', {})", end("coalesce(nullif(answer, ''), cot)"));
    let shown_loop = format!("concat(round(100 * cot_repetition(cot), 1), ' % of the chain: … ', {})", end("cot"));
    let shown_script = format!("concat(round(100 * {other}['share'], 2), ' % of the words are ', {other}['script'])");
    let shown_answer = format!("coalesce(error, concat('expected ', {gold}, ', found ', cot_answer(answer)))");
    let cut_off = of(&CUT_OFF, format!("cot_cut_off({reason})"), shown_reason);
    let hollow = of(&HOLLOW, format!("cot_hollow({original}, cot)"), "cot".to_string());
    let wrong_answer = of(&WRONG_ANSWER, format!("status = 'unverified'{wrong}"), shown_answer);
    let of_calls = |fault: &'static Kind, list: &str| {
        of(fault, fault.sql.to_string(), format!("array_to_string(cot_call_faults(turns)['{list}'], ', ')"))
    };
    let checks = vec![
        needing("cut_off", &FINISH_REASONS, &reason, cut_off),
        of(&LOOP, LOOP.sql.to_string(), shown_loop),
        of(&MIXED_SCRIPTS, MIXED_SCRIPTS.sql.to_string(), shown_script),
        needing("hollow", &["original_cot (an output has it)"], &original, hollow),
        needing("wrong_answer, except by flags", &REFERENCES, &gold, wrong_answer),
        of_calls(&WITHOUT_RESULT, "without_result"),
        of_calls(&WITHOUT_CALL, "without_call"),
        of_calls(&NOT_JSON, "not_json"),
        of_calls(&SAME_ID, "same_id"),
    ];
    (checks, reason)
}

/// Runs the checks on all rows, in one pass. Counts also the rows that a run rejects by status, and the unknown finish
/// reasons.
async fn check(
    context: &SessionContext,
    corpus: &Corpus,
    checks: &[Check],
    reason: String,
    on_rows: &(dyn Fn(u64) + Sync),
) -> Result<(Vec<Found>, [BTreeMap<String, u64>; 2]), Failure> {
    let reason = format!("CASE WHEN cot_cut_off({reason}) IS NULL THEN {reason} END");
    let mut columns = vec!["source['file']".to_string(), "source['row']".to_string(), "status".to_string(), reason];
    // A fault without a text to show is a fault too.
    columns.extend(
        checks
            .iter()
            .map(|Check { is_faulty, shown, .. }| format!("CASE WHEN {is_faulty} THEN coalesce({shown}, '') END")),
    );
    let needs = |check: &Check| check.needs.as_ref().map_or("''".to_string(), |(value, _)| value.clone());
    columns.extend(checks.iter().map(|check| format!("CASE WHEN {} IS NULL THEN '' END", needs(check))));
    let text = |(place, column): (usize, &String)| match place {
        1 => format!("{column} AS c1"),
        _ => format!("arrow_cast({column}, 'Utf8View') AS c{place}"),
    };
    let columns: Vec<String> = columns.iter().enumerate().map(text).collect();
    let sql = format!("SELECT {} FROM {CORPUS}", columns.join(", "));
    let mut batches = context.sql(&sql).await?.execute_stream().await?;
    let mut found: Vec<Found> = checks.iter().map(|_| Found::default()).collect();
    let mut counted: [BTreeMap<String, u64>; 2] = Default::default();
    while let Some(batch) = batches.next().await {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return Err(corpus.named(&context.state(), error).await.into()),
        };
        let (files, rows) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Int64Type>());
        for (counted, column) in counted.iter_mut().zip(&batch.columns()[2..]) {
            for value in column.as_string_view().iter().flatten() {
                *counted.entry(value.to_string()).or_default() += 1;
            }
        }
        for (found, column) in found.iter_mut().zip(&batch.columns()[4..]) {
            let shown = column.as_string_view();
            for row in (0..batch.num_rows()).filter(|row| shown.is_valid(*row)) {
                let shown = shortened(Some(shown.value(row)), SHOWN_CHARACTERS);
                found.add(Example { file: files.value(row).to_string(), row: rows.value(row), shown });
            }
        }
        for (found, missing) in found.iter_mut().zip(&batch.columns()[4 + checks.len()..]) {
            found.unchecked += (batch.num_rows() - missing.null_count()) as u64;
        }
        on_rows(batch.num_rows() as u64);
    }
    Ok((found, counted))
}
