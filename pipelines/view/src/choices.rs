//! Pictures of outputs that choose among several chains of a question: correct samples, and rank-surprisal ratios.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use maud::{Markup, html};

use super::place::PLACE;
use super::source::{Picture, QueryRow, Source};
use super::svg::{Axis, Bar, Columns, bars, columns};
use crate::output::{count, percent, quoted, several};
use crate::terminal::visible;

/// The columns of `shortest_correct` and `closest_correct`, with those of their input that they read.
const OF_SAMPLES: [&str; 3] = ["generation", "generations", "source_answer"];
/// The status of questions without a correct sample.
const UNVERIFIED: &str = "unverified";
/// What these pipelines choose from.
const IS_CORRECT: &str = "cot_think(sample) <> '' AND cot_verify(source_answer, sample)";
const RATIO: &str = "ratio";
/// The column that names who wrote a chain.
const TEACHERS: [&str; 2] = ["teacher", "model"];
/// Teachers with columns of their own.
const MOST_TEACHERS: usize = 6;
/// Columns of ratios for each doubling.
const BINS: i64 = 8;

/// The pictures that the columns of an output allow. `sample` is the condition of the rows whose text is read, and `drawn`
/// the order by which `points` rows are drawn.
pub(crate) async fn pictures(
    source: &Source,
    sample: Option<&str>,
    (drawn, points): (&str, usize),
) -> Result<Vec<Picture>> {
    let table = quoted(&source.location);
    let mut queries = Vec::new();
    if has_samples(source) {
        let sampled = sample.map_or(String::new(), |sample| format!(" WHERE {sample}"));
        let lost = lost(source).map_or(String::new(), |_| {
            let also = sample.map_or(String::new(), |sample| format!(" AND {sample}"));
            let rejects = quoted(&source.rejects());
            format!("\nUNION ALL SELECT 0, count(*) FROM {rejects} WHERE status = '{UNVERIFIED}'{also}")
        });
        queries.push(("correct", "Correct samples of each question", "Questions by the number of samples that have a chain and state the expected answer. A question without such a sample is a reject: the model learns nothing of it.", format!(
            "SELECT correct, count(*) AS questions FROM (\n  SELECT sum(CASE WHEN {IS_CORRECT} THEN 1 ELSE 0 END) AS correct FROM (\n    SELECT {}, {}, source_answer, unnest(generations) AS sample FROM {table}{sampled}) GROUP BY file, row)\nGROUP BY correct{lost}\nORDER BY correct", PLACE[0], PLACE[1]
        )));
        queries.push(("chosen", "Tokens of the correct samples, and of the chosen one", "Questions by the mean tokens of their correct samples, and the tokens of the chosen sample. The mean is an estimate from the characters.", format!(
            "SELECT {table} AS output, file, row, CAST(round(tokens * avg(character_length(cot_think(sample))) / characters) AS BIGINT) AS original, tokens AS kept\nFROM (\n  SELECT {}, {}, source_answer, pruned_tokens AS tokens, greatest(character_length(cot), 1) AS characters, unnest(generations) AS sample\n  FROM (SELECT * FROM {table} ORDER BY {drawn} LIMIT {points}))\nWHERE {IS_CORRECT} GROUP BY file, row, tokens, characters ORDER BY file, row", PLACE[0], PLACE[1]
        )));
    }
    if is_number(source, RATIO) {
        let teacher = TEACHERS.into_iter().find(|name| source.has(name));
        let teacher = teacher.map_or("''".to_string(), |name| format!("CAST({name} AS VARCHAR)"));
        queries.push(("ratios", "Rank-surprisal ratios", "Chains by their rank-surprisal ratio. The chosen chains have the lowest ratio of their question.", format!(
            "SELECT teacher, power(2.0, bin / {BINS}.0) AS at_least, count(*) AS chains, sum(CASE WHEN place = 1 THEN 1 ELSE 0 END) AS chosen FROM (\n  SELECT teacher, floor({BINS} * log2({RATIO})) AS bin, row_number() OVER (PARTITION BY question ORDER BY {RATIO}, file, row) AS place FROM (\n    SELECT {teacher} AS teacher, {RATIO}, md5(question) AS question, {}, {} FROM {table} WHERE {RATIO} > 0))\nGROUP BY teacher, bin ORDER BY teacher, bin", PLACE[0], PLACE[1]
        )));
    }
    let mut pictures = Vec::new();
    for (name, title, about, sql) in queries {
        let rows = source.rows(&sql).await?;
        pictures.extend((!rows.rows.is_empty()).then(|| Picture { name, title, about: about.to_string(), sql, rows }));
    }
    Ok(pictures)
}

fn has_samples(source: &Source) -> bool {
    OF_SAMPLES.into_iter().all(|name| source.has(name))
}

fn is_number(source: &Source, column: &str) -> bool {
    let field = source.schema.field_with_unqualified_name(column);
    field.is_ok_and(|field| DataType::is_numeric(field.data_type()))
}

/// The number of questions without a correct sample.
fn lost(source: &Source) -> Option<u64> {
    source.status.rejects.get(UNVERIFIED).copied().filter(|_| has_samples(source))
}

/// How many questions are lost to training, in a sentence.
pub(crate) fn sentence(source: &Source) -> Option<String> {
    let lost = lost(source)?;
    let questions = source.status.rows + source.status.rejects.values().sum::<u64>();
    Some(format!(
        "{} of {} ({}) have no correct sample: the model learns nothing of them.",
        count(lost),
        several(questions, "question"),
        percent(lost as f64, questions as f64)
    ))
}

/// Draws the picture of correct samples.
pub(crate) fn correct(of: &Picture) -> Markup {
    let total: f64 = of.rows.iter().map(|row| row.number("questions")).sum();
    let bar = |row: QueryRow<'_>| Bar {
        label: format!("{} correct", count(row.count("correct"))),
        value: format!("{} ({})", count(row.count("questions")), percent(row.number("questions"), total)),
        parts: vec![(row.number("questions") / total.max(1.0), if row.count("correct") == 0 { "u" } else { "k" })],
    };
    bars(of.title, &of.rows.iter().map(bar).collect::<Vec<_>>())
}

/// Draws the picture of ratios: the chains of each teacher, and those with the lowest ratio of their question.
pub(crate) fn ratios(of: &Picture) -> Markup {
    let bin = |row: QueryRow<'_>| (BINS as f64 * row.number("at_least").log2()).round() as i64;
    let (Some(least), Some(most)) = (of.rows.iter().map(bin).min(), of.rows.iter().map(bin).max()) else {
        return html! {};
    };
    let mut teachers: Vec<&str> = of.rows.iter().map(|row| row.text("teacher")).collect();
    teachers.dedup();
    let sum = |teacher: Option<&str>, column: &str| -> (u64, Vec<f64>) {
        let mut heights = vec![0.0; (most + 1 - least) as usize];
        let own = of.rows.iter().filter(|row| teacher.is_none_or(|teacher| teacher == row.text("teacher")));
        own.for_each(|row| heights[(bin(row) - least) as usize] += row.number(column));
        (heights.iter().sum::<f64>() as u64, heights)
    };
    let (all, chosen) = (sum(None, "chains"), sum(None, "chosen"));
    let is_choice = chosen.0 < all.0;
    let mut series = Vec::new();
    if teachers.len() == 1 || teachers.len() > MOST_TEACHERS {
        series.push(Columns { label: several(all.0, "chain"), class: "k", heights: all.1, ..Columns::default() });
    } else {
        series.extend(teachers.into_iter().map(|teacher| {
            let ((chains, heights), (chosen, _)) = (sum(Some(teacher), "chains"), sum(Some(teacher), "chosen"));
            let value = format!("{}, {} chosen", several(chains, "chain"), count(chosen));
            Columns { label: visible(teacher).to_string(), value, class: "k", heights, line: None }
        }));
    }
    if is_choice {
        let label = format!("chosen: {}", several(chosen.0, "chain"));
        series.push(Columns { label, class: "s", heights: chosen.1, ..Columns::default() });
    }
    let tick = |bin: i64| format!("{:.2}", (bin as f64 / BINS as f64).exp2());
    let axis = Axis { ticks: vec![(0.0, tick(least)), (1.0, tick(most + 1))], unit: "" };
    columns(of.title, &series, None, &axis, None)
}
