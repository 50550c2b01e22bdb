//! Chains with what pruning did to each step: as a part of a page, and for a terminal.

use std::ops::Range;

use asap_pipelines::location::command;
use datafusion::common::Result;
use datafusion::logical_expr::{ident, lit};
use maud::{Markup, html};
use serde::Serialize;

use super::code::Fence;
use super::filter::Condition;
use super::place::{BY_PLACE, InputRow, PLACE};
use super::prose::prose;
use super::reject;
use super::source::{Listing, QueryRow, Source};
use super::stages::{self, Stages, stage};
use super::svg;
use super::text::{FOLDED, folded, indented};
use super::turns::{self, Turn, is_folded};
use crate::failure::Failure;
use crate::output::{count, percent, quoted, several};
use crate::terminal::{one_line, visible};

pub(crate) const COUNTED_ALONE: &str =
    "Steps are counted one by one. Together they may have a few tokens more or fewer than the chain.";

const SCORES: &str = " A high score marks a step that the scoring model did not expect.";

/// Lines of the preview of a chain.
const PREVIEW: usize = 12;
/// Characters of each.
const LINE: usize = 300;

/// Chains that an error names.
const FOUND: u64 = 5;

/// Where a chain is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Report,
    Page,
    WholePage,
}

#[derive(Debug, Clone, Serialize)]
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
    /// The turns of a conversation with several exchanges or tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<Turn>,
    /// The messages of the example: role and content. Calls of tools, and their results, are messages with roles of their own.
    pub messages: Vec<(String, String)>,
}

/// What a page reads of a chain. Outputs of earlier versions have no turns.
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
    "messages",
    "turns",
];

/// The condition of chains. Only the pages with these rows are read: a condition on a column that is no struct makes the
/// reader load the index of the pages.
pub(crate) fn at(places: &[InputRow]) -> Condition {
    let Condition { expr, text, .. } = InputRow::condition(places);
    let expr = ident("original_tokens").gt_eq(lit(0i64)).and(expr);
    Condition::sql(expr, format!("original_tokens >= 0 AND ({text})"))
}

/// The query for the chains of a condition, with the turns of this output.
pub(crate) fn query<'a>(source: &Source, table: &'a str, condition: &'a Condition) -> Listing<'a> {
    let has_turns = source.has("turns") && table == source.location;
    let columns = &COLUMNS[..COLUMNS.len() - usize::from(!has_turns)];
    Listing { table, columns, condition: Some(condition), order: &[], first: 0, rows: None }
}

/// Reads chains of an output, in the order of `places`; some may be missing.
pub(crate) async fn read(source: &Source, location: &str, places: &[InputRow]) -> Result<Vec<Chain>> {
    if places.is_empty() {
        return Ok(vec![]);
    }
    let rows = source.listed(&query(source, location, &at(places))).await?;
    let mut chains: Vec<_> = rows.iter().map(Chain::of).collect();
    chains.sort_by_key(|chain| places.iter().position(|place| *place == chain.place));
    Ok(chains)
}

/// Finds the chain that FILE:ROW names, or the only one with this id.
pub async fn find(location: &str, named: &str) -> Result<Chain, Failure> {
    let source = Source::open(location, None, None).await?;
    let by_place = InputRow::parse(named);
    if let Some(chain) = read(&source, &source.location, by_place.as_slice()).await?.pop() {
        return Ok(chain);
    }
    let mut why = "expected an id".to_string();
    if let Some(place) = &by_place {
        if let Some(row) = reject::read(&source, place).await? {
            return Err(Failure::Failed(format!("{location} has no chain '{named}': {}", reject::said(&row))));
        }
        why = format!("{}; expected an id", place.missing(&source).await?);
    }
    let listed = async |condition: &Condition, columns: &[&str]| {
        let (table, condition) = (source.location.as_str(), Some(condition));
        source.listed(&Listing { table, columns, condition, order: &BY_PLACE, first: 0, rows: Some(FOUND + 1) }).await
    };
    let places: Vec<_> = listed(&Condition::is("id", named), &PLACE).await?.iter().map(InputRow::of).collect();
    if places.is_empty() {
        let found = listed(&Condition::begins("id", named), &["CAST(id AS TEXT) AS id"]).await?;
        let mut ids: Vec<_> = found.iter().map(|row| row.text("id")).collect();
        ids.dedup();
        let more = if ids.len() as u64 > FOUND { ", …" } else { "" };
        ids.truncate(FOUND as usize);
        if !ids.is_empty() {
            why = format!("{why} ({}{more} begin with it)", ids.join(", "));
        }
    }
    let missing = || {
        Failure::Usage(format!(
            "{location} has no chain '{named}': {why}, or FILE:ROW with the name of an input file and its row from 0; \
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
        let steps = steps(row);
        Self {
            place: InputRow::of(row),
            id: row.get("id").as_str().map(str::to_string),
            question: row.text("question").to_string(),
            answer: row.text("answer").to_string(),
            original_tokens: row.count("original_tokens"),
            pruned_tokens: row.count("pruned_tokens"),
            turns: turns::turns(row, steps.len()),
            steps,
            messages: row.list("messages").flat_map(turns::of_message).collect(),
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

    /// What `--loss kept` learns of the chain before pruning: its kept steps, which pages show in black, while those that it
    /// only reads are grey.
    fn masked(&self) -> Option<String> {
        (self.kept() < self.steps.len()).then(|| {
            format!(
                "With --loss kept, a trainer reads all steps and learns only the kept ones: {} of {} tokens. The grey steps are \
                 context.",
                count(tokens_of(self.steps.iter().filter(|step| step.dropped.is_none()))),
                count(tokens_of(&self.steps))
            )
        })
    }

    fn strip(&self, name: &str, stages: &Stages<'_>, is_own: bool) -> Markup {
        let class = |step: &Step| step.dropped.as_deref().map_or("k", |stage| stages.class(stage, is_own));
        let cells: Vec<_> = self.steps.iter().map(|step| (step.tokens as f64, class(step))).collect();
        html! { (svg::strip(&format!("{name}: {}", self.summary()), &cells, 24)) (stages.legend(is_own)) }
    }

    /// The steps as strips: those of this output, and of the other one.
    fn strips(&self, other: Option<(&str, &Chain)>, stages: &Stages<'_>) -> Markup {
        html! {
            (self.strip("this output", stages, true))
            @if let Some((location, other)) = other {
                p.facts { "The other output, " (visible(location)) ": " (other.summary()) }
                (other.strip("other output", stages, false))
            }
        }
    }

    /// The chain as a part of a page, next to the same chain of another output, with its location. Long texts are folded,
    /// except on [`On::WholePage`].
    pub(crate) fn html(&self, other: Option<(&str, &Chain)>, on: On, stages: &Stages<'_>) -> Markup {
        let limit = if on == On::WholePage { usize::MAX } else { FOLDED };
        // The heading above is that of a page, or that of a chain among chains.
        let head = |text: &str| html! { @if on == On::Report { h4 { (text) } } @else { h2.part { (text) } } };
        let shown = |text: &str| self.shown(text, limit, &mut Fence::default());
        html! {
            p.facts { (self.summary()) @if let Some(id) = &self.id { ", id " span.id { (visible(id)) } } }
            (self.strips(other, stages))
            div.sides {
                div {
                    (head("Question"))
                    (shown(&self.question))
                    (head("Steps"))
                    @if on != On::Report { p.about { (COUNTED_ALONE) @if self.steps.iter().any(|step| step.score.is_some()) { (SCORES) } } }
                    @if let Some(masked) = self.masked() { p.about { (masked) } }
                    @if self.turns.is_empty() { (self.list(0..self.steps.len(), other, on)) }
                    @for (index, (turn, steps)) in self.by_turn().enumerate() {
                        (turn.html(index + 1, html! { @if !steps.is_empty() { (self.list(steps, other, on)) } }, &shown))
                    }
                    (head("Answer"))
                    (shown(&self.answer))
                }
                // A report has several, and landmarks have names of their own.
                div.seen role="region" aria-label={ "What the trainer sees of " (visible(&self.place.to_string())) } tabindex="0" {
                    (head("What the trainer sees"))
                    @for (role, content) in &self.messages {
                        @if is_folded(role) { details { summary { (visible(role)) } (shown(content)) } }
                        @else { p.role { (visible(role)) } (shown(content)) }
                    }
                }
            }
        }
    }

    /// The turns, with the places of the steps of each.
    fn by_turn(&self) -> impl Iterator<Item = (&Turn, Range<usize>)> {
        self.turns.iter().scan(0, |end, turn| {
            let begin = *end;
            *end += turn.steps;
            Some((turn, begin..*end))
        })
    }

    /// A list of steps: dropped steps in a row are folded in a report.
    fn list(&self, steps: Range<usize>, other: Option<(&str, &Chain)>, on: On) -> Markup {
        let limit = if on == On::WholePage { usize::MAX } else { FOLDED };
        let mut fence = Fence::default();
        let mut item = |place: usize, step: &Step| {
            let there =
                other.and_then(|(_, other)| other.steps.get(place)).filter(|there| there.dropped != step.dropped);
            html! {
                li class=(class(step)) value=(place + 1) {
                    span.fate {
                        (several(step.tokens, "token")) ", " (fate(step))
                        @if let Some(there) = there { " (other output: " (outcome(there)) ")" }
                    }
                    (self.shown(&step.text, limit, &mut fence))
                }
            }
        };
        html! {
            ol.steps {
                @for (place, run) in self.runs(steps) {
                    @if let [step] = run { (item(place, step)) } @else {
                        li.run.(class(&run[0])) {
                            details open[on != On::Report] {
                                summary { (folded_steps(run)) }
                                ol.steps { @for (index, step) in run.iter().enumerate() { (item(place + index, step)) } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The beginning of the chain, a line per step, next to the same chain of another output.
    pub(crate) fn preview(&self, other: Option<(&str, &Chain)>, stages: &Stages<'_>) -> Markup {
        let runs: Vec<_> = self.runs(0..self.steps.len()).collect();
        let mut fence = Fence::default();
        // Of several steps only the number is shown.
        let mut line = |run: &[Step]| {
            let shown = match run {
                [step] => prose(folded(&step.text, LINE).0, &mut fence.clone()),
                _ => html! { (folded_steps(run)) },
            };
            run.iter().for_each(|step| fence.pass(&step.text));
            shown
        };
        html! {
            div.line dir="auto" { (prose(folded(&self.question, LINE).0, &mut Fence::default())) }
            (self.strips(other, stages))
            ol.steps.preview {
                @for (place, run) in runs.iter().take(PREVIEW) {
                    li class=(class(&run[0])) value=(place + 1) dir="auto" { (line(run)) }
                }
            }
            @if let Some((place, _)) = runs.get(PREVIEW) { p.about { "… and " (several((self.steps.len() - place) as u64, "more step")) } }
        }
    }

    /// Of these steps, the kept ones, and the dropped ones in a row with the same fate, each with the place of the first.
    fn runs(&self, steps: Range<usize>) -> impl Iterator<Item = (usize, &[Step])> {
        let first = steps.start;
        let runs = self.steps[steps].chunk_by(|one, next| one.dropped.is_some() && one.dropped == next.dropped);
        runs.scan(first, |place, run| {
            let first = *place;
            *place += run.len();
            Some((first, run))
        })
    }

    fn shown(&self, text: &str, limit: usize, fence: &mut Fence) -> Markup {
        let (text, hidden) = folded(text, limit);
        html! {
            (prose(text, fence))
            @if hidden > 0 {
                span.folded { "… " (several(hidden as u64, "more character")) ": " (visible(&command(&["asap", "inspect", "OUT", "--chain", &self.place.to_string()]))) " shows them" }
            }
        }
    }

    /// The chain for a terminal: one paragraph per step, with a `+` if it is kept and a `-` if it is not.
    pub fn terminal(&self, has_color: bool) -> String {
        let mut lines = vec![format!("{}: {}", one_line(&self.place.to_string()), self.summary())];
        lines.extend(self.id.as_ref().map(|id| format!("id {}", one_line(id))));
        lines.push(format!("\nquestion\n{}\n", indented(&self.question, "  ")));
        if self.turns.is_empty() {
            lines.extend(self.lines(0..self.steps.len(), has_color));
        }
        for (index, (turn, steps)) in self.by_turn().enumerate() {
            lines.extend(turn.terminal(index + 1, self.lines(steps, has_color).collect()));
        }
        lines.push(format!("answer\n{}", indented(&self.answer, "  ")));
        lines.join("\n")
    }

    /// Steps for a terminal.
    fn lines(&self, steps: Range<usize>, has_color: bool) -> impl Iterator<Item = String> {
        let first = steps.start + 1;
        self.steps[steps].iter().enumerate().map(move |(index, step)| {
            // The colors of the pages: blue, olive and purple.
            let (mark, color) = match class(step) {
                "k" => ('+', "34"),
                "r" => ('-', "35"),
                _ => ('-', "33"),
            };
            let mut head = format!("{mark} {:>3}  {}, {}", first + index, several(step.tokens, "token"), fate(step));
            if has_color {
                head = format!("\u{1b}[{color}m{head}\u{1b}[0m");
            }
            format!("{head}\n{}\n", indented(&step.text, &format!("{mark} ")))
        })
    }
}

/// The steps of a row, with their texts if the row has them.
pub(crate) fn steps(row: QueryRow<'_>) -> Vec<Step> {
    let texts: Vec<_> = row.get("texts").as_array().into_iter().flatten().collect();
    let step = |(index, step): (usize, QueryRow<'_>)| Step {
        tokens: step.count("tokens"),
        score: step.get("surprisal").as_f64(),
        dropped: step.get("dropped").as_str().map(str::to_string),
        text: texts.get(index).and_then(|text| text.as_str()).unwrap_or_default().to_string(),
    };
    row.list("steps").enumerate().map(step).collect()
}

/// The strip of a chain in a list: steps next to each other with the same fate are one cell.
pub(crate) fn small_strip(steps: &[Step], label: &str) -> Markup {
    let cells = steps.chunk_by(|one, next| class(one) == class(next));
    let cells: Vec<_> = cells.map(|run| (tokens_of(run) as f64, class(&run[0]))).collect();
    svg::strip(label, &cells, 14)
}

fn tokens_of<'a>(steps: impl IntoIterator<Item = &'a Step>) -> u64 {
    steps.into_iter().map(|step| step.tokens).sum()
}

/// Dropped steps in a row, in words.
fn folded_steps(run: &[Step]) -> String {
    format!("… {}, {} {}", several(run.len() as u64, "step"), several(tokens_of(run), "token"), outcome(&run[0]))
}

/// The class of a step on pages: kept, dropped by stage 1, or by another stage.
fn class(step: &Step) -> &'static str {
    step.dropped.as_deref().map_or("k", stages::class)
}

fn outcome(step: &Step) -> String {
    step.dropped.as_deref().map_or("kept".to_string(), |name| format!("dropped by {}", stage(name)))
}

fn fate(step: &Step) -> String {
    let score = step.score.map_or(String::new(), |score| format!(", score {score:.2}"));
    let why = if step.dropped.as_deref() == Some("anchor") { ": the direct thought does not need it" } else { "" };
    format!("{}{why}{score}", outcome(step))
}
