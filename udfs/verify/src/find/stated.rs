//! Finds the sentences that state an answer.

use std::borrow::Cow;
use std::ops::Range;

use crate::equal;
use crate::find::extract;
use crate::read::words;

/// A statement is compared if it is at most this many bytes longer than the answer.
const LONGER: usize = 100;
/// The number of statements compared per step, from its end. It limits the cost of a step.
const COMPARED: usize = 32;

/// Returns the steps without the sentences that state the answer: in a box, after "answer is", as a formula or its right
/// side, or after the last `=` or "is". `gold` is an answer, or a response that states one. A step keeps its place, even
/// if nothing of it is left. A sentence ends with its line, or at a period, `?` or `!` before a space; a formula is not
/// cut.
///
/// ```
/// assert_eq!(asap_verify::unstated("4", &["Let me add. 2 + 2 = 4.", "It is 4."]), ["Let me add.", ""]);
/// ```
pub fn unstated<'a>(gold: &str, steps: &[&'a str]) -> Vec<Cow<'a, str>> {
    let gold = extract::answer(gold).unwrap_or(Cow::Borrowed(gold));
    let without = |step: &&'a str| {
        let sentences = sentences(step);
        let left: Vec<&str> = sentences.iter().copied().filter(|sentence| !states(sentence, gold.trim())).collect();
        match left.len() == sentences.len() {
            true => Cow::Borrowed(*step),
            false => Cow::Owned(left.concat().trim_end().to_string()),
        }
    };
    steps.iter().map(without).collect()
}

fn states(text: &str, gold: &str) -> bool {
    let mut stated = statements(text);
    stated.drain(..stated.len().saturating_sub(COMPARED));
    stated.iter().any(|stated| stated.len() <= gold.len() + LONGER && equal(gold, stated.trim()))
}

/// Cuts a text into its sentences, each with the white space after it.
fn sentences(text: &str) -> Vec<&str> {
    let mut formulas = formula_spans(text).into_iter().peekable();
    let (mut found, mut start) = (Vec::new(), 0);
    let mut letters = text.char_indices().peekable();
    while let Some((place, letter)) = letters.next() {
        while formulas.next_if(|formula| formula.end <= place).is_some() {}
        let is_in_formula = formulas.peek().is_some_and(|formula| formula.contains(&place));
        let is_end = letter == '\n' || ".!?".contains(letter) && letters.peek().is_some_and(|(_, next)| *next == ' ');
        if is_end && !is_in_formula {
            while letters.next_if(|(_, next)| next.is_whitespace()).is_some() {}
            let end = letters.peek().map_or(text.len(), |(place, _)| *place);
            found.push(&text[start..end]);
            start = end;
        }
    }
    found.push(&text[start..]);
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn statements(step: &str) -> Vec<Cow<'_, str>> {
    let mut stated: Vec<Cow<str>> =
        formulas(step).flat_map(|formula| [formula, after_last(formula, "=")]).map(Cow::Borrowed).collect();
    let sentences = step.lines().flat_map(|line| line.split(". "));
    let concluded = sentences.flat_map(|sentence| {
        let sentence = sentence.trim_end_matches(['.', '!', '?', ',', ';', ' ', '*']);
        // In "x = 5, right" the answer ends at the comma, in "x = 5, 7" it does not.
        ["=", " is "]
            .map(|relation| after_last(sentence, relation))
            .map(|end| [end, end.split(", ").next().unwrap_or(end)])
    });
    let concluded = concluded.flatten().map(|stated| stated.trim_matches(['*', ' ', '$']));
    stated.extend(concluded.map(Cow::Borrowed));
    stated.extend(extract::said(step));
    stated.retain(|stated| !stated.trim().is_empty());
    stated
}

fn after_last<'a>(text: &'a str, relation: &str) -> &'a str {
    text.rfind(relation).map_or("", |place| &text[place + relation.len()..])
}

fn formulas(text: &str) -> impl Iterator<Item = &str> {
    let inner = |span: Range<usize>| {
        let formula = &text[span];
        let marks = if formula.starts_with('$') && !formula.starts_with("$$") { 1 } else { 2 };
        formula[marks..formula.len() - marks].trim().trim_end_matches(['.', ',', ' '])
    };
    formula_spans(text).into_iter().map(inner)
}

/// The formulas of a text, with their marks.
fn formula_spans(text: &str) -> Vec<Range<usize>> {
    let (mut spans, mut at) = (Vec::new(), 0);
    loop {
        let rest = &text[at..];
        let next = |(opening, closing): &(&str, &'static str)| Some((rest.find(opening)?, opening.len(), *closing));
        // `$$` wins over `$` at the same position.
        let first = words::MARKS.iter().filter_map(next).min_by_key(|(from, length, _)| (*from, 2 - *length));
        let Some((from, length, closing)) = first else { return spans };
        let Some(end) = rest[from + length..].find(closing) else { return spans };
        let end = from + length + end + closing.len();
        spans.push(at + from..at + end);
        at += end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        gold: String,
        steps: Vec<String>,
        unstated: Vec<String>,
    }

    #[test]
    fn sentences_that_state_the_answer_go() {
        for line in include_str!("../../tests/steps.jsonl").lines() {
            let Case { gold, steps, unstated: expected } = serde_json::from_str(line).unwrap();
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            assert_eq!(unstated(&gold, &steps), expected, "{line}");
        }
        assert_eq!(sentences("é. b? c.d\n\n e"), ["é. ", "b? ", "c.d\n\n ", "e"]);
    }

    proptest! {
        #[test]
        fn sentences_are_the_whole_text(text in "[ab.?! \n$é\\(\\)\\[\\]]{0,60}") {
            prop_assert_eq!(sentences(&text).concat(), text);
        }

        #[test]
        fn any_text_is_read(gold in "[0-9$=\\\\(is ){}.é]{0,40}", steps in proptest::collection::vec("[0-9$=\\\\(is ){}.\\n*é]{0,80}", 0..6)) {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            prop_assert_eq!(unstated(&gold, &steps).len(), steps.len());
        }
    }
}
