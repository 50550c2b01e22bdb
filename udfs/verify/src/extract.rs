//! Finds the answer in a response.

use std::borrow::Cow;

use super::boxes::{BETWEEN, Unfinished, boxed, joins};
use asap_kernels::code_fences::Blocks;
use asap_kernels::tags;

const SEARCHED: usize = 65_536;

/// Returns the final answer of a response: the content of its last box after the chain of thought, else the text after
/// its last "answer is" or "answer:", else after its last `####`. Adjacent boxes with "and", "or" or a comma between
/// them are a list. None if no answer is stated, if the chain or the box is cut off, and if the box contains only part
/// of a formula.
///
/// ```
/// assert_eq!(asap_verify::answer("2 + 2 is 4. The answer is 4.").as_deref(), Some("4"));
/// assert_eq!(asap_verify::answer("I do not know."), None);
/// ```
pub fn answer(response: &str) -> Option<Cow<'_, str>> {
    let after = tags::response_or_all(response)?;
    if is_cut_off(after) {
        return None;
    }
    let after = &after[after.ceil_char_boundary(after.len().saturating_sub(SEARCHED))..];
    match boxed(after) {
        Err(Unfinished) => None,
        Ok(Some(stated)) => Some(stated),
        Ok(None) => phrase(after).or_else(|| marked(after).map(Cow::Borrowed)),
    }
}

/// Returns the answer of a text as far as it can be compared: what the text states ([`answer`]), or else the text itself
/// if it is a single line. None for a program, which only its tests can judge: a text with a fenced block of code and
/// no box, or several lines that state no answer.
///
/// ```
/// assert_eq!(asap_verify::comparable("So it is \\boxed{4}.").as_deref(), Some("4"));
/// assert_eq!(asap_verify::comparable("4").as_deref(), Some("4"));
/// assert_eq!(asap_verify::comparable("```python\nprint(4)\n```"), None);
/// ```
pub fn comparable(text: &str) -> Option<Cow<'_, str>> {
    let mut blocks = Blocks::default();
    let is_fenced = text.lines().any(|line| blocks.read(line).is_some());
    if is_fenced && !text.contains("\\boxed") {
        return None;
    }
    answer(text).or_else(|| {
        let line = text.trim();
        (!line.contains('\n')).then_some(Cow::Borrowed(line))
    })
}

/// Whether a chain of thought begins and does not end, by any tag of any model, at any position.
fn is_cut_off(text: &str) -> bool {
    const NAMES: [&str; 5] = ["think", "thinking", "thought", "reasoning", "seed:think"];
    const BRACKETS: [(char, char); 3] = [('<', '>'), ('[', ']'), ('◁', '▷')];
    let last = text.rmatch_indices(BRACKETS.map(|(opening, _)| opening)).find_map(|(place, opening)| {
        let rest = &text[place + opening.len()..];
        let closes = rest.starts_with('/');
        let rest = &rest[usize::from(closes)..];
        let named = NAMES.iter().any(|name| {
            let (of, after) = (rest.get(..name.len()), rest.get(name.len()..));
            of.is_some_and(|of| of.eq_ignore_ascii_case(name))
                && BRACKETS
                    .iter()
                    .any(|(from, to)| opening.starts_with(*from) && after.is_some_and(|after| after.starts_with(*to)))
        });
        named.then_some(closes)
    });
    last == Some(false)
}

/// Returns the text after the last "answer is" or "answer:" that states one: its formulas if they end the sentence,
/// else the rest of the sentence. None if the text calls the answer wrong.
fn phrase(text: &str) -> Option<Cow<'_, str>> {
    let mut end = text.len();
    loop {
        let found = [" is", ":", "**:", " is:"].iter().filter_map(|after| last_of(text, end, after)).max();
        let (from, after) = found?;
        let rest = without_adverbs(&text[after..]);
        match first_word(rest) {
            word if WRONG.contains(&word) => return None,
            // "The answer is correct" refers to an earlier statement.
            word if RIGHT.contains(&word) => end = from,
            _ => return stated(rest),
        }
    }
}

const RIGHT: [&str; 8] = ["correct", "right", "valid", "consistent", "reasonable", "verified", "confirmed", "clear"];
const WRONG: [&str; 4] = ["wrong", "incorrect", "invalid", "inconsistent"];
const ADVERBS: &str = "indeed definitely certainly clearly simply therefore thus hence actually obviously then surely \
    really";

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len())]
}

fn without_adverbs(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "*:".contains(c));
        let word = first_word(rest);
        if !ADVERBS.split_whitespace().any(|adverb| adverb == word) {
            return rest;
        }
        rest = rest[word.len()..].trim_start_matches(',');
    }
}

fn stated(rest: &str) -> Option<Cow<'_, str>> {
    let formulas = first_formulas(rest).unwrap_or(0);
    let stated = match ends_sentence(&rest[formulas..]) && formulas > 0 {
        true => &rest[..formulas],
        false => &rest[..formulas + sentence(&rest[formulas..]).len()],
    };
    let stated = stated.trim().trim_end_matches(['*', '.']).trim();
    let stated = if stated.contains("$**") { Cow::Owned(stated.replace("$**", "$")) } else { Cow::Borrowed(stated) };
    (!stated.is_empty()).then_some(stated)
}

/// Whether the answer ends here: with the line, the sentence, or a reason.
fn ends_sentence(text: &str) -> bool {
    const REASONS: [&str; 2] = ["since", "because"];
    let rest = text.trim_start_matches(['*', ' ']);
    let after = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    let word = after.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    rest.is_empty()
        || rest.starts_with(['\n', '\r'])
        || ["</", "<|"].iter().any(|tag| rest.starts_with(tag))
        || rest.strip_prefix('.').is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.'))
        || REASONS.contains(&word)
}

/// Finds the last "answer" before `end` that is followed by `after`. Returns its start and its end.
fn last_of(text: &str, end: usize, after: &str) -> Option<(usize, usize)> {
    const WORD: &str = "nswer";
    let mut end = end;
    loop {
        let from = text[..end].rfind(WORD)?;
        let begins = text[..from].ends_with(['a', 'A']);
        if begins && text[from + WORD.len()..].starts_with(after) {
            return Some((from, from + WORD.len() + after.len()));
        }
        end = from;
    }
}

fn first_formulas(text: &str) -> Option<usize> {
    let mut end = formula(text)?;
    loop {
        let near = &text[end..text.floor_char_boundary(end + BETWEEN + 2)];
        let Some(next) = ["$", "\\(", "\\["].iter().filter_map(|opening| near.find(opening)).min() else { break };
        if !joins(&text[end..end + next]) {
            break;
        }
        end += next + formula(&text[end + next..])?;
    }
    Some(end)
}

fn formula(text: &str) -> Option<usize> {
    const MARKS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];
    let (opening, closing) = MARKS.iter().find(|(opening, _)| text.starts_with(opening))?;
    let from = opening.len();
    // `\$` is money.
    let (end, _) = text[from..].match_indices(closing).find(|(place, _)| !text[..from + place].ends_with('\\'))?;
    Some(from + end + closing.len())
}

fn sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let end = [". ", ".** ", ".* "].iter().filter_map(|stop| line.find(stop)).min().unwrap_or(line.len());
    &line[..end]
}

fn marked(text: &str) -> Option<&str> {
    const MARK: &str = "####";
    let from = text.rfind(MARK)? + MARK.len();
    let stated = text[from..].lines().next().unwrap_or_default().trim();
    (!stated.is_empty()).then_some(stated)
}
