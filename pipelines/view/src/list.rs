//! Lists of chains: a row per chain, with its strip.

use maud::{Markup, html};

use super::chain::{Step, small_strip};
use super::place::{BY_PLACE, InputRow};
use crate::output::{count, percent};
use crate::terminal::visible;

/// Characters of a question in a list.
pub(crate) const QUESTION: usize = 240;

/// A column of a list.
pub(crate) struct Column {
    /// What an address calls it.
    pub name: &'static str,
    pub head: &'static str,
    /// By what it sorts; empty for the place in the input.
    by: &'static str,
    /// Whether it is there only with a second output.
    pub is_of_other: bool,
}

const fn column(name: &'static str, head: &'static str, by: &'static str) -> Column {
    Column { name, head, by, is_of_other: false }
}

const KEPT: &str = "pruned_tokens / CAST(greatest(original_tokens, 1) AS DOUBLE)";
const DIFFERENCE: &str = "coalesce(abs(pruned_tokens - other_tokens), -1)";

/// The columns; the strip of bars sorts by the number of steps.
pub(crate) const COLUMNS: [Column; 8] = [
    column("chain", "chain", ""),
    column("before", "tokens before", "original_tokens"),
    column("after", "tokens after", "pruned_tokens"),
    column("kept", "kept", KEPT),
    Column { is_of_other: true, ..column("other", "other output", "coalesce(other_tokens, -1)") },
    Column { is_of_other: true, ..column("difference", "difference", DIFFERENCE) },
    column("steps", "steps", "cardinality(steps)"),
    column("question", "question", "question"),
];

impl Column {
    /// An order by this column, then by place.
    pub(crate) fn order(&self, is_largest_first: bool) -> Vec<(&'static str, bool)> {
        match self.by {
            "" => BY_PLACE.map(|(by, _)| (by, is_largest_first)).to_vec(),
            by => [&[(by, is_largest_first)], &BY_PLACE[..]].concat(),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        !matches!(self.name, "chain" | "question")
    }
}

/// A chain in a list.
pub(crate) struct Entry {
    pub place: InputRow,
    pub link: String,
    pub original: u64,
    pub pruned: u64,
    /// The tokens that the other output kept of it.
    pub other: Option<u64>,
    pub steps: Vec<Step>,
    pub question: String,
}

/// The table of a list. `head` gives the content of a head, and how the column is sorted.
pub(crate) fn table(
    label: &str,
    entries: &[Entry],
    has_other: bool,
    head: &dyn Fn(&Column) -> (Markup, Option<&'static str>),
) -> Markup {
    let columns: Vec<_> = COLUMNS.iter().filter(|column| has_other || !column.is_of_other).collect();
    html! {
        div.scroll role="region" aria-label=(label) tabindex="0" {
            table.list {
                thead {
                    tr {
                        @for column in &columns {
                            @let (head, sorted) = head(column);
                            th.n[column.is_number() && column.name != "steps"] scope="col" aria-sort=[sorted] { (head) }
                        }
                    }
                }
                tbody { @for entry in entries { tr { @for column in &columns { (entry.cell(column)) } } } }
            }
        }
    }
}

impl Entry {
    fn cell(&self, column: &Column) -> Markup {
        let number = |text: String| html! { td.n data-head=(column.head) { (text) } };
        match column.name {
            "chain" => html! { td { a href=(self.link) { (visible(&self.place.to_string())) } } },
            "before" => number(count(self.original)),
            "after" => number(count(self.pruned)),
            "kept" => number(self.kept()),
            "other" => number(self.other.map_or("–".to_string(), count)),
            "difference" => number(self.other.map_or("–".to_string(), |other| {
                let sign = if self.pruned > other { "+" } else { "" };
                format!("{sign}{}", self.pruned.cast_signed() - other.cast_signed())
            })),
            "steps" => {
                let label = format!("{} steps, {} of the tokens kept", count(self.steps.len() as u64), self.kept());
                html! { td.bars { (small_strip(&self.steps, &label)) } }
            }
            _ => html! { td.line dir="auto" { (visible(&self.question)) } },
        }
    }

    fn kept(&self) -> String {
        percent(self.pruned as f64, self.original as f64)
    }
}
