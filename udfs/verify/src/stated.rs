//! Finds the first step of a chain that states an answer.

use std::borrow::Cow;

use super::{extract, same};

/// A statement is compared if it is at most this many bytes longer than the answer.
const LONGER: usize = 100;
/// The number of statements compared per step, from its end. It limits the cost of a step.
const COMPARED: usize = 32;

/// Returns the first of `steps` that states the answer: in a box, after "answer is", as a formula or its right side, or
/// after the last `=` or "is" of a sentence. `gold` is an answer, or a response that states one.
///
/// ```
/// assert_eq!(asap_verify::first_stating("4", &["Let me add.", "2 + 2 = 4.", "Is it? Yes."]), Some(1));
/// ```
pub fn first_stating(gold: &str, steps: &[&str]) -> Option<usize> {
    let gold = extract::answer(gold).unwrap_or(Cow::Borrowed(gold));
    let gold = gold.trim();
    let is_gold = |stated: &Cow<str>| stated.len() <= gold.len() + LONGER && same(gold, stated.trim());
    steps.iter().position(|step| {
        let mut stated = statements(step);
        stated.drain(..stated.len().saturating_sub(COMPARED));
        stated.iter().any(is_gold)
    })
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
    stated.extend(extract::answer(step));
    stated.retain(|stated| !stated.trim().is_empty());
    stated
}

fn after_last<'a>(text: &'a str, relation: &str) -> &'a str {
    text.rfind(relation).map_or("", |place| &text[place + relation.len()..])
}

fn formulas(text: &str) -> impl Iterator<Item = &str> {
    const MARKS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];
    let mut rest = text;
    std::iter::from_fn(move || {
        let next = |(opening, closing): &(&str, &'static str)| Some((rest.find(opening)?, opening.len(), *closing));
        // `$$` wins over `$` at the same position.
        let (from, length, closing) =
            MARKS.iter().filter_map(next).min_by_key(|(from, length, _)| (*from, 2 - *length))?;
        let inner = &rest[from + length..];
        let end = inner.find(closing)?;
        rest = &inner[end + closing.len()..];
        Some(inner[..end].trim().trim_end_matches(['.', ',', ' ']))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_step_that_states_the_answer_is_found() {
        let first = |gold, steps: &[&str]| first_stating(gold, steps);
        assert_eq!(first("12", &["12 boys and 3 girls.", "So 3 * 4 = 12.", "The answer is 12."]), Some(1));
        assert_eq!(
            first("It is \\boxed{\\frac{1}{2}}.", &["Half of it", "so x = 0.5, right?", "\\boxed{1/2}"]),
            Some(1)
        );
        assert_eq!(first("3", &["We have $x + 1 = 4$.", "Thus \\(x = 3\\).", "Check: 3 + 1 = 4."]), Some(1));
        assert_eq!(first("Tuesday", &["Monday is first.", "So the day is **Tuesday**."]), Some(1));
        assert_eq!(first("\\sqrt{2}", &["$$\\sqrt{2}$$"]), Some(0));
        assert_eq!(first("7", &["It is 17.", "x = 70", "No = 7 apples = 8", ""]), None);
        assert_eq!(first("7", &[]), None);
        assert_eq!(first("", &["x = "]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(gold in "[0-9$=\\\\(is ){}.é]{0,40}", steps in proptest::collection::vec("[0-9$=\\\\(is ){}.\\n*é]{0,80}", 0..6)) {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            prop_assert!(first_stating(&gold, &steps).is_none_or(|step| step < steps.len()));
        }
    }
}
