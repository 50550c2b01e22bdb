//! The turns of a conversation, with the steps of each thought.

use asap_kernels::tags;
use maud::{Markup, html};
use serde::Serialize;

use super::source::QueryRow;
use super::text::{beginning, indented};
use crate::terminal::{one_line, visible};

/// The roles of calls of tools and of their results begin with these words. Pages fold them.
const CALL: &str = "call of";
const RESULT: &str = "result";
/// Characters of a folded text that its fold shows.
const FOLD: usize = 160;

/// A turn of a conversation.
#[derive(Debug, Serialize)]
pub(crate) struct Turn {
    pub role: String,
    /// The number of steps of its thought before pruning.
    pub steps: usize,
    /// What it says, calls or returns, each with its role.
    pub said: Vec<(String, String)>,
}

/// The turns of a row. Empty for a row that is no conversation, and if its steps are not those of the turns.
pub(crate) fn turns(row: QueryRow<'_>, steps: usize) -> Vec<Turn> {
    let turn = |turn: QueryRow<'_>| {
        let calls = turn.list("calls").map(|call| (call.text("name"), call.text("arguments")));
        let said = said(turn, turn.text("text").to_string(), calls);
        Turn { role: turn.text("role").to_string(), steps: turn.count("original_steps") as usize, said }
    };
    let turns: Vec<_> = row.list("turns").map(turn).collect();
    if turns.iter().map(|turn| turn.steps).sum::<usize>() == steps { turns } else { vec![] }
}

/// What a message of an example says, calls or returns, each with its role.
pub(crate) fn of_message(message: QueryRow<'_>) -> Vec<(String, String)> {
    let (thought, text) = (message.text("reasoning_content"), message.text("content"));
    let content = if thought.is_empty() { text.to_string() } else { tags::wrap(thought, text) };
    let called = message.list("tool_calls").filter_map(|call| call.get("function").as_object()).map(QueryRow::of);
    let mut said = said(message, content, called.map(|called| (called.text("name"), called.text("arguments"))));
    if said.is_empty() {
        said.push((message.text("role").to_string(), String::new()));
    }
    said
}

/// What a turn with this text says, calls or returns. `role` and `name` are columns of it.
fn said<'a>(
    turn: QueryRow<'_>,
    text: String,
    calls: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<(String, String)> {
    let role = match (turn.text("role"), turn.text("name")) {
        ("tool", "") => RESULT.to_string(),
        ("tool", name) => format!("{RESULT} of {name}"),
        (role, _) => role.to_string(),
    };
    let text = (!text.is_empty() || role.starts_with(RESULT)).then_some((role, text));
    text.into_iter().chain(calls.map(|(name, arguments)| (format!("{CALL} {name}"), arguments.to_string()))).collect()
}

/// Whether pages fold what has this role.
pub(crate) fn is_folded(role: &str) -> bool {
    role.starts_with(CALL) || role.starts_with(RESULT)
}

impl Turn {
    /// The turn as a part of a page. `steps` are those of its thought, and `shown` shows a text.
    pub(crate) fn html(&self, number: usize, steps: Markup, shown: &dyn Fn(&str) -> Markup) -> Markup {
        html! {
            p.role.turn { "Turn " (number) ", " (visible(&self.role)) }
            (steps)
            @for (role, text) in &self.said {
                @if text.trim().contains('\n') || text.chars().count() > FOLD {
                    details { summary { (visible(&self.fold(role, text))) } (shown(text)) }
                } @else if *role == self.role { (shown(text)) } @else { p.call { (visible(&self.fold(role, text))) } }
            }
        }
    }

    /// The turn on a terminal: a line for itself, then its steps, then a line for each other text.
    pub(crate) fn terminal(&self, number: usize, steps: Vec<String>) -> Vec<String> {
        let mut lines = vec![format!("turn {number}, {}\n", one_line(&self.role))];
        lines.extend(steps);
        for (role, text) in &self.said {
            let is_long = text.trim().contains('\n') || text.chars().count() > FOLD;
            lines.push(match is_long {
                true if *role == self.role => format!("{}\n", indented(text, "  ")),
                true => format!("  {}:\n{}\n", one_line(role), indented(text, "    ")),
                false => format!("  {}\n", one_line(&self.fold(role, text))),
            });
        }
        lines
    }

    /// A text in one line. The role of the turn is above it.
    fn fold(&self, role: &str, text: &str) -> String {
        match beginning(text, FOLD) {
            text if role == self.role => text,
            text => format!("{role}: {text}"),
        }
    }
}
