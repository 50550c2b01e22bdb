//! The pictures of the overview: each is one query, ready for asap sql.

use datafusion::common::Result;

use super::chain::COUNTED_ALONE;
use super::choices;
use super::expression::ROW;
use super::faults::{self, Kind};
use super::filter::Condition;
use super::place::{BY_PLACE, FILE, InputRow, PLACE};
use super::source::{Listing, Picture, Source};
use crate::output::quoted;

/// The rows whose text the overview reads.
pub(crate) const SAMPLE: u64 = 2000;
const SEED: u32 = 42;
/// Chains of each output that the picture of original and kept tokens shows.
const POINTS: usize = 300;
/// The lengths that trainers often cut at.
const LIMITS: &str = "(4096), (8192), (16384), (32768)";

/// The hash by which rows are drawn: it depends on the place of a row and a seed.
fn draw(salt: &str) -> String {
    format!("md5(concat({FILE}, ':', {ROW}, ':{salt}{SEED}'))")
}

/// The places of `rows` rows that pass a filter, drawn with a seed.
pub(crate) async fn drawn(source: &Source, condition: Option<&Condition>, rows: usize) -> Result<Vec<InputRow>> {
    let (hash, rows) = (draw("chain"), Some(rows as u64));
    let order = [(hash.as_str(), false), BY_PLACE[0], BY_PLACE[1]];
    let table = source.filtered(condition);
    let listing = Listing { table, columns: &PLACE, condition, order: &order, first: 0, rows };
    Ok(source.listed(&listing).await?.iter().map(InputRow::of).collect())
}

/// The place of a chain to show first: one that was pruned and is neither short nor long, else any.
pub(crate) async fn example(source: &Source) -> Result<Option<InputRow>> {
    let typical = "pruned_tokens < original_tokens AND pruned_tokens > 0 AND cardinality(steps) BETWEEN 6 AND 40";
    let typical = Condition::checked(typical, &source.schema)?;
    match drawn(source, Some(&typical), 1).await?.pop() {
        Some(place) => Ok(Some(place)),
        None => Ok(drawn(source, None, 1).await?.pop()),
    }
}

pub(crate) struct Overview {
    pub tokens: Picture,
    pub runs: Picture,
    pub things: Picture,
    /// In the order of the page.
    pub pictures: Vec<Picture>,
    /// The rows whose text was read.
    pub sampled: u64,
}

pub(crate) async fn overview(source: &Source) -> Result<Overview> {
    let table = quoted(&source.location);
    let sample = sample(source, &table).await?;
    let sampled = sample.as_ref().map_or(String::new(), |sample| format!("\nWHERE {sample}"));
    let of = async |name, title, about: &str, sql: String| {
        let rows = source.rows(&sql).await?;
        Ok::<_, datafusion::common::DataFusionError>(Picture { name, title, about: about.to_string(), sql, rows })
    };
    let compared = if source.against.is_some() { " Only chains that both outputs have." } else { "" };
    let tokens = of("tokens", "Tokens, and which stage dropped them", &format!("Tokens of the chains, as the scoring model counts them.{compared}"), both(source, &|name, rows| {
        format!("SELECT {name} AS output, count(*) AS rows, sum(original_tokens) AS original, sum(coarse_tokens) AS after_stage_1, sum(pruned_tokens) AS pruned\nFROM {rows}")
    }, "output")).await?;
    let runs = of("runs", "Calls, money, time", "One row for each run that wrote to the output, from its history. Calls and costs are those of language models.", format!(
        "SELECT run, sum(rows_in) AS rows_in, sum(rows_out) AS rows_out, sum(rows_rejected) AS rejected, sum(rows_filtered) AS filtered,\n       max(calls) AS calls, max(tokens_in) AS tokens_in, max(tokens_out) AS tokens_out, max(cost) AS cost, max(seconds) AS seconds\nFROM cot_history({table}) WHERE run IS NOT NULL GROUP BY run ORDER BY min(version), run"
    )).await?;
    let all_of = |filter: &str| match &sample {
        Some(sample) => format!("{sample} AND ({filter})"),
        None => filter.to_string(),
    };
    let tests: Vec<_> = faults::in_view().map(|(Kind { name, sql, .. }, _)| format!(
        "SELECT '{name}' AS thing, count(*) AS chains, min(concat(source['file'], ':', source['row'])) AS example\nFROM {table} WHERE {}",
        all_of(sql)
    )).collect();
    let things = of(
        "things",
        "Things to look at",
        "Chains of the sample that may be wrong, each kind with an example.",
        tests.join("\nUNION ALL\n") + "\nORDER BY chains DESC, thing",
    )
    .await?;
    let mut pictures = Vec::new();
    if let Some(exam) = &source.exam {
        let exam = quoted(exam);
        pictures.push(of("survival", "Does the answer survive?", "The share of questions whose answer the scoring model still gives from the pruned chain, among those where it gives it from the whole chain. Not counted: not_answered, where it does not, and not_comparable, which have no answer that can be compared. random_steps and block keep other steps of the same size. plus_minus is half of a 95 % interval.", format!(
            "SELECT pipeline, share, questions, survives, 1.96 * sqrt(survives * (1 - survives) / questions) AS plus_minus, not_answered, not_comparable FROM (\n  SELECT pruned.pipeline, pruned.share, count(DISTINCT CASE WHEN whole.survives AND pruned.survives IS NOT NULL THEN pruned.place END) AS questions,\n         avg(CASE WHEN whole.survives AND pruned.survives THEN 1.0 WHEN whole.survives AND NOT pruned.survives THEN 0.0 END) AS survives,\n         count(DISTINCT CASE WHEN NOT whole.survives THEN pruned.place END) AS not_answered,\n         count(DISTINCT CASE WHEN whole.survives IS NULL OR whole.survives AND pruned.survives IS NULL THEN pruned.place END) AS not_comparable\n  FROM {exam} AS pruned JOIN {exam} AS whole ON whole.place = pruned.place AND whole.pipeline = 'original'\n  WHERE pruned.pipeline <> 'original' GROUP BY pruned.pipeline, pruned.share)\nORDER BY pipeline, share"
        )).await?);
    }
    pictures.extend(choices::pictures(source, sample.as_deref(), (draw("point").as_str(), POINTS)).await?);
    pictures.push(of("tenths", "Where was it cut?", &format!("The share of tokens that is kept in each tenth of the steps of a chain. In a chain of fewer than ten steps, each step covers several tenths.{compared}"), both(source, &tenths, "output, tenth")).await?);
    let hash = draw("point");
    pictures.push(of("scatter", "Original and kept tokens", &format!("{}{compared}", points(source)), both(source, &|name, rows| format!(
        "SELECT * FROM (\n  SELECT {name} AS output, {}, {}, original_tokens AS original, pruned_tokens AS kept\n  FROM {rows} ORDER BY {hash} LIMIT {POINTS})", PLACE[0], PLACE[1]
    ), "output, file, row")).await?);
    let edge = edge(source);
    let series = [("original", "original_tokens"), ("after_stage_1", "coarse_tokens"), ("pruned", "pruned_tokens")];
    let lengths = series.map(|(name, column)| format!(
        "SELECT '{name}' AS series, round({edge} * power(2.0, ceil(2 * log2(greatest({column}, 1) / {edge}.0)) / 2), 1) AS at_most, count(*) AS chains FROM {table} GROUP BY at_most"
    ));
    pictures.push(of("lengths", "Lengths of chains", "Chains by their length in tokens, before and after pruning. In the numbers, a row counts the chains with at most at_most tokens, and more than at_most of the row before.", lengths.join("\nUNION ALL\n") + "\nORDER BY series, at_most").await?);
    let limits = of("limits", "Lengths against the trainer's limit", "Chains that are longer than a limit, and their tokens beyond it, before and after pruning. A trainer drops these chains, or cuts these tokens. Question and answer need room too.", format!(
        "SELECT max_length, count(*) AS chains_before, sum(original_tokens - max_length) AS tokens_lost_before,\n       sum(CASE WHEN pruned_tokens > max_length THEN 1 ELSE 0 END) AS chains_after, sum(greatest(pruned_tokens - max_length, 0)) AS tokens_lost_after\nFROM {table} CROSS JOIN (VALUES {LIMITS}) AS limits(max_length)\nWHERE original_tokens > max_length GROUP BY max_length ORDER BY max_length"
    )).await?;
    pictures.extend((!limits.rows.rows.is_empty()).then_some(limits));
    pictures.push(of("reasons", "What happened to the steps", &format!("Steps and tokens that are kept, or by the stage that dropped them. 'anchor' is stage 1: the direct thought does not need the step. {COUNTED_ALONE}{compared}"), both(source, &|name, rows| format!(
        "SELECT {name} AS output, coalesce(s['dropped'], 'kept') AS fate, count(*) AS steps, sum(s['tokens']) AS tokens\nFROM (SELECT unnest(steps) AS s FROM {rows}) GROUP BY fate"
    ), "output, tokens DESC, fate")).await?);
    pictures.push(
        of("fates", "What happened to the rows", "Pruned rows, and rejected rows by status.", fates(source, &table))
            .await?,
    );
    if !source.status.rejects.is_empty() {
        pictures.push(of("rejects", "Rejects, with examples", "The first three rejects of each status.", format!(
            "SELECT status, file, row, error FROM (\n  SELECT status, source['file'] AS file, source['row'] AS row, error,\n         row_number() OVER (PARTITION BY status ORDER BY source['file'], source['row']) AS place FROM {})\nWHERE place <= 3 ORDER BY status, place",
            quoted(&source.rejects())
        )).await?);
    }
    if source.has("rung") {
        pictures.push(of("rungs", "Shares that the answer needs", "The share of its tokens that each chain keeps: the shortest after which the scoring model still gives the answer.", format!(
            "SELECT rung, survives, count(*) AS chains FROM {table} GROUP BY rung, survives ORDER BY rung, survives"
        )).await?);
    }
    pictures.push(of("words", "First words of dropped steps", &format!("How often dropped and kept steps begin with these words, in {}.", said(source)), format!(
        "SELECT words, sum(CASE WHEN dropped IS NULL THEN 0 ELSE 1 END) AS dropped, sum(CASE WHEN dropped IS NULL THEN 1 ELSE 0 END) AS kept FROM (\n  SELECT lower(btrim(split_part(ltrim(text), ' ', 1), ',.:;!*#([\\$`-')) AS words, s['dropped'] AS dropped FROM (\n    SELECT unnest(cot_steps(original_cot)) AS text, unnest(steps) AS s FROM {table}{sampled}))\nWHERE words <> '' GROUP BY words ORDER BY dropped DESC, words LIMIT 8"
    )).await?);
    let scores = of("scores", "Scores of kept and dropped steps", "Steps by their score in nats. A high score marks a step that the scoring model did not expect. Steps that stage 1 dropped have no score.", format!(
        "SELECT floor(2 * greatest(least(s['surprisal'], 20), -5)) / 2 AS score, sum(CASE WHEN s['dropped'] IS NULL THEN 1 ELSE 0 END) AS kept, sum(CASE WHEN s['dropped'] IS NULL THEN 0 ELSE 1 END) AS dropped\nFROM (SELECT unnest(steps) AS s FROM {table}) WHERE s['surprisal'] IS NOT NULL GROUP BY score ORDER BY score"
    )).await?;
    pictures.extend((!scores.rows.rows.is_empty()).then_some(scores));
    if source.status.rows == 0 {
        pictures.retain(|picture| matches!(picture.name, "fates" | "rejects"));
    }
    Ok(Overview { tokens, runs, things, pictures, sampled: source.status.rows.min(SAMPLE) })
}

/// The tokens at which bin 0 of the lengths ends: the budget, so that no bin is on both sides of it.
pub(crate) fn edge(source: &Source) -> i64 {
    source.status.made_by.as_ref().and_then(|made| made.max_tokens).map_or(1, |budget| budget.max(1))
}

/// The sample, in words.
pub(crate) fn said(source: &Source) -> String {
    use crate::output::count;
    match source.status.rows {
        1 => "the only chain".to_string(),
        rows if rows <= SAMPLE => format!("all {} chains", count(rows)),
        rows => format!("a random sample of {} of {} chains", count(SAMPLE), count(rows)),
    }
}

/// The condition of the rows whose text is read; None if all are.
async fn sample(source: &Source, table: &str) -> Result<Option<String>> {
    if source.status.rows <= SAMPLE {
        return Ok(None);
    }
    let hash = draw("");
    let last = SAMPLE - 1;
    let found = source.rows(&format!("SELECT {hash} AS hash FROM {table} ORDER BY hash LIMIT 1 OFFSET {last}")).await?;
    let last = found.first().map(|row| row.text("hash").to_string()).unwrap_or_default();
    Ok(Some(format!("{hash} <= '{last}'")))
}

/// A query over this output, or over the rows that it and the other one have. `of` gets the name of a table and its rows.
fn both(source: &Source, of: &dyn Fn(&str, &str) -> String, order: &str) -> String {
    let own = quoted(&source.location);
    let queries = match source.against.as_deref().map(quoted) {
        None => of(&own, &own),
        Some(other) => [(&own, &other), (&other, &own)].map(|(one, other)| of(one, &format!(
            "(SELECT one.* FROM {one} AS one LEFT SEMI JOIN {other} AS other\n      ON one.source['file'] = other.source['file'] AND one.source['row'] = other.source['row'])"
        ))).join("\nUNION ALL\n"),
    };
    format!("{queries}\nORDER BY {order}")
}

/// The tokens in each tenth of the steps. A step that covers several tenths has a share of its tokens in each.
fn tenths(name: &str, rows: &str) -> String {
    format!(
        "SELECT {name} AS output, t + 1 AS tenth, round(sum(tokens), 1) AS tokens,\n       round(sum(CASE WHEN dropped IS NULL THEN tokens ELSE 0 END), 1) AS kept\nFROM (\n  SELECT t, s['dropped'] AS dropped,\n         s['tokens'] * (least(10 * s['step'], n * (t + 1)) - greatest(10 * (s['step'] - 1), n * t)) / 10.0 AS tokens\n  FROM (\n    SELECT s, n, unnest(range(10 * (s['step'] - 1) / n, (10 * s['step'] + n - 1) / n)) AS t\n    FROM (SELECT unnest(steps) AS s, CAST(cardinality(steps) AS BIGINT) AS n FROM {rows})))\nGROUP BY tenth"
    )
}

/// The chains of the picture of original and kept tokens.
fn points(source: &Source) -> String {
    let what = "tokens before and after pruning";
    match source.status.rows {
        rows if rows <= POINTS as u64 => format!("All chains by their {what}."),
        _ => format!("{POINTS} random chains by their {what}."),
    }
}

fn fates(source: &Source, table: &str) -> String {
    let kept = format!("SELECT 'pruned' AS fate, count(*) AS rows FROM {table}");
    match source.status.rejects.is_empty() {
        true => kept,
        false => format!(
            "{kept}\nUNION ALL SELECT status, count(*) FROM {} GROUP BY status\nORDER BY rows DESC, fate",
            quoted(&source.rejects())
        ),
    }
}
