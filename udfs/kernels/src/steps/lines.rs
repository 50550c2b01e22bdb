//! Splits a chain into steps at line breaks.

use crate::code_fences::{Blocks, Turn};

/// The delimiters of displayed formulas that take several lines.
const MATHS: [(&str, &str); 2] = [("$$", "$$"), ("\\[", "\\]")];
const ENVIRONMENT: (&str, &str) = ("\\begin{", "\\end{");

/// Returns the steps of a chain whose steps end at line breaks. A step keeps the line break at its end, and the blank lines after
/// it, so that the steps of a chain are the chain. A code fence, a displayed formula, a table and a list each belong to one
/// step. A fence or a formula that is left open is text.
pub fn steps(chain: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut reader = Reader { open_fence: open_fence(chain), ..Reader::default() };
    for line in chain.split_inclusive('\n') {
        // Blank lines belong to the step before them, and those before the first step to it.
        let begins = reader.begins_step(line, at, &chain[at + line.len()..]) && !line.trim().is_empty();
        if begins && !chain[start..at].trim().is_empty() {
            found.push(&chain[start..at]);
            start = at;
        }
        at += line.len();
    }
    if !chain[start..].trim().is_empty() {
        found.push(&chain[start..]);
    }
    found
}

/// Where the fence begins that no other closes.
fn open_fence(chain: &str) -> Option<usize> {
    let (mut blocks, mut opened, mut at) = (Blocks::default(), None, 0);
    for line in chain.split_inclusive('\n') {
        if let Some(Turn::Opens(_)) = blocks.read(line) {
            opened = Some(at);
        }
        at += line.len();
    }
    opened.filter(|_| blocks.is_open())
}

/// What a line is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Prose,
    Table,
    List,
}

#[derive(Default)]
struct Reader {
    blocks: Blocks,
    open_fence: Option<usize>,
    /// The closing delimiter of an open formula.
    formula: Option<String>,
    /// Closing delimiters that do not follow any more.
    missing: Vec<String>,
    before: Place,
}

impl Reader {
    /// Reads a line, at this place of the chain. Returns whether a step may begin with it.
    fn begins_step(&mut self, line: &str, at: usize, after: &str) -> bool {
        let was_open = self.blocks.is_open() || self.formula.is_some();
        if self.formula.is_none() && self.open_fence.is_none_or(|open| at < open) {
            let turn = self.blocks.read(line);
            if self.blocks.is_open() || turn == Some(Turn::Closes) {
                self.before = Place::Prose;
                return !was_open;
            }
        }
        let line = line.trim_end();
        self.read_formulas(line, after);
        let place = if was_open { Place::Prose } else { place_of(line, self.before) };
        let is_within = place != Place::Prose && place == self.before;
        self.before = place;
        !was_open && !is_within
    }

    /// Follows the formulas that a line opens and closes.
    fn read_formulas(&mut self, line: &str, after: &str) {
        let mut rest = line;
        loop {
            if let Some(closing) = &self.formula {
                let Some((_, closed)) = rest.split_once(closing.as_str()) else { return };
                (self.formula, rest) = (None, closed);
                continue;
            }
            let delimiters = MATHS
                .iter()
                .filter_map(|(opening, closing)| Some((rest.find(opening)?, opening.len(), closing.to_string())));
            let environment = rest.find(ENVIRONMENT.0).and_then(|at| {
                let (name, _) = rest[at + ENVIRONMENT.0.len()..].split_once('}')?;
                Some((at, ENVIRONMENT.0.len(), format!("{}{name}}}", ENVIRONMENT.1)))
            });
            let Some((at, length, closing)) = delimiters.chain(environment).min() else { return };
            rest = &rest[at + length..];
            if !self.missing.contains(&closing) {
                match rest.contains(&closing) || after.contains(&closing) {
                    true => self.formula = Some(closing),
                    false => self.missing.push(closing),
                }
            }
        }
    }
}

/// Whether a step and the next are parts of one list or table, so that their text would be one step.
pub(super) fn are_one(step: &str, next: &str) -> bool {
    let (mut reader, mut at) = (Reader { open_fence: open_fence(step), ..Reader::default() }, 0);
    for line in step.split_inclusive('\n') {
        at += line.len();
        reader.begins_step(line, at - line.len(), &step[at..]);
    }
    let first = next.lines().next().unwrap_or_default();
    reader.before != Place::Prose && place_of(first, reader.before) == reader.before
}

/// What a line outside of fences and formulas is part of, after a line of this place.
fn place_of(line: &str, before: Place) -> Place {
    let line = line.trim_end();
    match line.trim_start() {
        "" => Place::Prose,
        text if text.starts_with('|') => Place::Table,
        text if is_item(text) => Place::List,
        text if before == Place::List && text.len() < line.len() => Place::List,
        _ => Place::Prose,
    }
}

/// Whether a line is an item of a list.
fn is_item(text: &str) -> bool {
    let after_number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = after_number.len() < text.len() && text.len() - after_number.len() <= 3;
    ["- ", "* ", "+ ", "• "].iter().any(|mark| text.starts_with(mark))
        || is_numbered && [". ", ") "].iter().any(|mark| after_number.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::steps::{Separator, join, select};

    proptest! {
        #[test]
        fn all_steps_are_the_chain(chain in r"([ab\r\n \t|]|\n|- a|1\. |```|\$\$|\\\[|\\\]|\\begin\{x\}|\\end\{x\}){0,30}") {
            let found = steps(&chain);
            if found.is_empty() {
                prop_assert!(chain.trim().is_empty());
            } else {
                prop_assert_eq!(found.concat(), chain.as_str());
                prop_assert_eq!(join(found.iter().copied()), chain.as_str());
                prop_assert_eq!(select(&found, 0..found.len()), chain.as_str());
                prop_assert!(found.iter().all(|step| !step.trim().is_empty()));
            }
            // Steps that are left stay the same steps.
            let left: Vec<usize> = (0..found.len()).filter(|step| step % 3 != 1).collect();
            let selected = select(&found, left.iter().copied());
            let again: Vec<&str> = steps(&selected).into_iter().map(str::trim_end).collect();
            prop_assert_eq!(again, left.iter().map(|step| found[*step].trim_end()).collect::<Vec<_>>(), "{:?}", found);
            prop_assert_eq!(Separator::Line.steps(&chain), found);
        }
    }
}
