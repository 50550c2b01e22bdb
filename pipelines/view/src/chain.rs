//! Chains with what pruning did to each step: as a part of a page, and for a terminal.

use asap_pipelines::location::command;
use datafusion::common::Result;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, ident, lit};
use maud::{Markup, html};
use serde::Serialize;

use super::filter::Condition;
use super::source::{Listing, QueryRow, Source};
use super::svg;
use super::text::{FOLDED, folded};
use crate::failure::Failure;
use crate::output::{count, percent, quoted, several};
use crate::terminal::{one_line, visible};

/// The row of an input file that a chain comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InputRow {
    pub file: String,
    pub row: u64,
}

impl InputRow {
    pub(crate) fn of(row: QueryRow<'_>) -> Self {
        Self { file: row.text("file").to_string(), row: row.count("row") }
    }

    /// Reads FILE:ROW.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (file, row) = text.rsplit_once(':')?;
        Some(Self { file: file.to_string(), row: row.parse().ok()? })
    }

    /// The condition that a row comes from one of these places.
    fn condition(places: &[Self]) -> Condition {
        let field = |name: &str| get_field(ident("source"), name);
        // As SQL reads it: a literal of another type would convert the column.
        let row = |row: u64| i64::try_from(row).map_or_else(|_| lit(row), lit);
        let is = |place: &Self| field("file").eq(lit(place.file.as_str())).and(field("row").eq(row(place.row)));
        let text = |place: &Self| format!("({FILE} = {} AND {ROW} = {})", quoted(&place.file), place.row);
        let texts: Vec<_> = places.iter().map(text).collect();
        let expr = places.iter().map(is).reduce(Expr::or).unwrap_or_else(|| lit(false));
        Condition { expr, text: texts.join("\n   OR ") }
    }
}

impl std::fmt::Display for InputRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.row)
    }
}

/// The file and the row of the input that a row comes from.
pub(crate) const FILE: &str = "source['file']";
pub(crate) const ROW: &str = "source['row']";
/// Both as columns, and as an order.
pub(crate) const PLACE: [&str; 2] = ["source['file'] AS file", "source['row'] AS row"];
pub(crate) const BY_PLACE: [(&str, bool); 2] = [(FILE, false), (ROW, false)];

pub(crate) const COUNTED_ALONE: &str =
    "Each step is counted alone, so that all steps may have some tokens more than the chain.";

/// Where a chain is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Report,
    Page,
    WholePage,
}

#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub tokens: u64,
    pub score: Option<f64>,
    /// The stage that dropped it.
    pub dropped: Option<String>,
    pub text: String,
}

#[derive(Debug, Serialize)]
pub struct Chain {
    #[serde(flatten)]
    pub(crate) place: InputRow,
    pub id: Option<String>,
    pub question: String,
    pub answer: String,
    pub original_tokens: u64,
    pub pruned_tokens: u64,
    pub(crate) steps: Vec<Step>,
    /// The messages of the example: role and content.
    pub messages: Vec<(String, String)>,
}

/// What a page reads of a chain.
const COLUMNS: [&str; 11] = [
    PLACE[0],
    PLACE[1],
    "id",
    "question",
    "answer",
    "original_tokens",
    "pruned_tokens",
    "steps",
    "cot_steps(original_cot) AS texts",
    "prompt",
    "completion",
];

/// The condition of chains. Only the pages with these rows are read: a condition on a column that is no struct makes the
/// reader load the index of the pages.
pub(crate) fn at(places: &[InputRow]) -> Condition {
    let Condition { expr, text } = InputRow::condition(places);
    Condition {
        expr: ident("original_tokens").gt_eq(lit(0i64)).and(expr),
        text: format!("original_tokens >= 0 AND ({text})"),
    }
}

/// The query for the chains of a condition.
pub(crate) fn query<'a>(table: &'a str, condition: &'a Condition) -> Listing<'a> {
    Listing { table, columns: &COLUMNS, condition: Some(condition), order: &[], first: 0, rows: None }
}

/// Reads chains of an output, in the order of `places`; some may be missing.
pub(crate) async fn read(source: &Source, location: &str, places: &[InputRow]) -> Result<Vec<Chain>> {
    if places.is_empty() {
        return Ok(vec![]);
    }
    let rows = source.listed(&query(location, &at(places))).await?;
    let mut chains: Vec<_> = rows.iter().map(Chain::of).collect();
    chains.sort_by_key(|chain| places.iter().position(|place| *place == chain.place));
    Ok(chains)
}

/// Why there is no chain of an input row, if the row was rejected.
pub(crate) async fn reject(source: &Source, place: &InputRow) -> Result<Option<String>> {
    if source.status.rejects.is_empty() {
        return Ok(None);
    }
    let (rejects, condition) = (source.rejects(), InputRow::condition(std::slice::from_ref(place)));
    let columns = &["status", "error"];
    let listing =
        Listing { table: &rejects, columns, condition: Some(&condition), order: &[], first: 0, rows: Some(1) };
    let found = source.listed(&listing).await?;
    let said = |row: QueryRow<'_>| {
        format!("row {} of {} was rejected ({}): {}", place.row, place.file, row.text("status"), row.text("error"))
    };
    Ok(found.first().map(said))
}

/// Finds the chain that FILE:ROW names, or the only one with this id.
pub async fn find(location: &str, named: &str) -> Result<Chain, Failure> {
    let source = Source::open(location, None, None).await?;
    let by_place = InputRow::parse(named);
    if let Some(chain) = read(&source, &source.location, by_place.as_slice()).await?.pop() {
        return Ok(chain);
    }
    if let Some(place) = &by_place
        && let Some(reject) = reject(&source, place).await?
    {
        return Err(Failure::Failed(format!("{location} has no chain '{named}': {reject}")));
    }
    let condition = Some(&Condition::is("id", named));
    let listing =
        Listing { table: &source.location, columns: &PLACE, condition, order: &BY_PLACE, first: 0, rows: Some(5) };
    let places: Vec<_> = source.listed(&listing).await?.iter().map(InputRow::of).collect();
    let missing = || {
        Failure::Usage(format!(
            "{location} has no chain '{named}': expected an id, or FILE:ROW with the name of an input file and its row from 0; \
             {} lists them",
            command(&["asap", "sql", "-c", &format!("SELECT source, id FROM {}", quoted(location))])
        ))
    };
    match places.as_slice() {
        [] => Err(missing()),
        [place] => read(&source, &source.location, std::slice::from_ref(place)).await?.pop().ok_or_else(missing),
        places => {
            let places: Vec<_> = places.iter().map(InputRow::to_string).collect();
            Err(Failure::Usage(format!(
                "{location} has several chains with id '{named}': name one by {}",
                places.join(" or ")
            )))
        }
    }
}

impl Chain {
    fn of(row: QueryRow<'_>) -> Self {
        let texts: Vec<_> = row.get("texts").as_array().into_iter().flatten().collect();
        let step = |(index, step): (usize, QueryRow<'_>)| Step {
            tokens: step.count("tokens"),
            score: step.get("surprisal").as_f64(),
            dropped: step.get("dropped").as_str().map(str::to_string),
            text: texts.get(index).and_then(|text| text.as_str()).unwrap_or_default().to_string(),
        };
        let message = |message: QueryRow<'_>| (message.text("role").to_string(), message.text("content").to_string());
        Self {
            place: InputRow::of(row),
            id: row.get("id").as_str().map(str::to_string),
            question: row.text("question").to_string(),
            answer: row.text("answer").to_string(),
            original_tokens: row.count("original_tokens"),
            pruned_tokens: row.count("pruned_tokens"),
            steps: row.list("steps").enumerate().map(step).collect(),
            messages: row.list("prompt").chain(row.list("completion")).map(message).collect(),
        }
    }

    fn kept(&self) -> usize {
        self.steps.iter().filter(|step| step.dropped.is_none()).count()
    }

    /// What is left of the chain, in words.
    pub(crate) fn summary(&self) -> String {
        let (steps, kept) = (self.steps.len() as u64, self.kept() as u64);
        let share = percent(self.pruned_tokens as f64, self.original_tokens as f64);
        format!(
            "{} of {} tokens kept ({share}), {} of {}",
            count(self.pruned_tokens),
            count(self.original_tokens),
            count(kept),
            several(steps, "step")
        )
    }

    pub(crate) fn strip(&self, name: &str) -> Markup {
        let cells: Vec<_> = self.steps.iter().map(|step| (step.tokens as f64, class(step))).collect();
        svg::strip(&format!("{name}: {}", self.summary()), &cells)
    }

    /// The chain as a part of a page, next to the same chain of another output. Long texts are folded, except on
    /// [`On::WholePage`].
    pub(crate) fn html(&self, other: Option<&Chain>, on: On) -> Markup {
        let limit = if on == On::WholePage { usize::MAX } else { FOLDED };
        // The heading above is that of a page, or that of a chain among chains.
        let head = |text: &str| html! { @if on == On::Report { h4 { (text) } } @else { h2.part { (text) } } };
        let shown = |text: &str| self.shown(text, limit);
        html! {
            p.facts { (self.summary()) @if let Some(id) = &self.id { ", id " span.id { (visible(id)) } } }
            (self.strip("this output"))
            @if let Some(other) = other { p.facts { "Other output: " (other.summary()) } (other.strip("other output")) }
            div.sides {
                div {
                    (head("Question"))
                    div.t dir="auto" { (shown(&self.question)) }
                    (head("Steps"))
                    @if on != On::Report { p.about { (COUNTED_ALONE) } }
                    ol.steps {
                        @for step in &self.steps {
                            li class=(class(step)) {
                                span.fate { (several(step.tokens, "token")) ", " (fate(step)) }
                                div.t dir="auto" { (shown(&step.text)) }
                            }
                        }
                    }
                    (head("Answer"))
                    div.t dir="auto" { (shown(&self.answer)) }
                }
                div {
                    (head("What the trainer sees"))
                    @for (role, content) in &self.messages {
                        p.role { (visible(role)) }
                        div.t dir="auto" { (shown(content)) }
                    }
                }
            }
        }
    }

    fn shown(&self, text: &str, limit: usize) -> Markup {
        let (text, hidden) = folded(text, limit);
        html! {
            (visible(text))
            @if hidden > 0 {
                " " span.folded { "… " (several(hidden as u64, "more character")) ": " (visible(&command(&["asap", "inspect", "OUT", "--chain", &self.place.to_string()]))) " shows them" }
            }
        }
    }

    /// The chain for a terminal: one paragraph per step, with a `+` if it is kept and a `-` if it is not.
    pub fn terminal(&self, has_color: bool) -> String {
        let mut lines = vec![format!("{}: {}", one_line(&self.place.to_string()), self.summary())];
        lines.extend(self.id.as_ref().map(|id| format!("id {}", one_line(id))));
        lines.push(format!("\nquestion\n{}\n", indented(&self.question, "  ")));
        for (index, step) in self.steps.iter().enumerate() {
            let (mark, color) = match class(step) {
                "k" => ('+', "32"),
                "r" => ('-', "33"),
                _ => ('-', "31"),
            };
            let head = format!("{mark} {:>3}  {}, {}", index + 1, several(step.tokens, "token"), fate(step));
            lines.push(match has_color {
                true => format!("\u{1b}[{color}m{head}\u{1b}[0m"),
                false => head,
            });
            lines.push(format!("{}\n", indented(&step.text, &format!("{mark} "))));
        }
        lines.push(format!("answer\n{}", indented(&self.answer, "  ")));
        lines.join("\n")
    }
}

fn indented(text: &str, by: &str) -> String {
    visible(text).lines().map(|line| format!("{by}{line}")).collect::<Vec<_>>().join("\n")
}

/// The class of a step on pages: kept, dropped by stage 1, or by the stage that refines.
fn class(step: &Step) -> &'static str {
    match step.dropped.as_deref() {
        None => "k",
        Some("anchor") => "a",
        Some(_) => "r",
    }
}

fn fate(step: &Step) -> String {
    let score = step.score.map_or(String::new(), |score| format!(", score {score:.2}"));
    match step.dropped.as_deref() {
        None => format!("kept{score}"),
        Some("anchor") => format!("dropped by stage 1: the direct thought does not need it{score}"),
        Some(stage) => format!("dropped by {}{score}", visible(stage)),
    }
}
