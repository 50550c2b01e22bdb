//! The tags that reasoning models put around their chain of thought.

use std::borrow::Cow;

use super::steps::{SEPARATOR, strip};

const OPENING: [&str; 2] = ["<think>", "<|begin_of_thought|>"];
const CLOSING: [&str; 2] = ["</think>", "<|end_of_thought|>"];
/// Tags that also occur in prose and code. They count only at the start of a generation.
const FIRST: [(&str, &str); 4] = [
    ("<Thought>", "</Thought>"),
    ("<thought>", "</thought>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
];
/// Tags around the whole solution. The first `NO_WORDS` of them are not HTML words.
const SOLUTION: [(&str, &str); 4] = [
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<Output>", "</Output>"),
    ("<output>", "</output>"),
    ("<answer>", "</answer>"),
];
const NO_WORDS: usize = 2;
const SPECIAL: [&str; 2] = [SOLUTION[0].0, SOLUTION[0].1];
/// End-of-turn tokens, which some loggers leave at the end of a generation.
const END_OF_TURN: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "<|eot_id|>", "<end_of_turn>", "</s>"];

pub fn openings() -> impl Iterator<Item = &'static str> {
    OPENING.into_iter().chain(FIRST.map(|(opening, _)| opening))
}

/// Returns the tags that no answer may contain: the end of its chain would be ambiguous.
pub fn of_chains() -> impl Iterator<Item = &'static str> {
    OPENING.into_iter().chain(CLOSING)
}

/// Returns opening and closing tags that no answer may contain if its generation begins with them. They are also words.
pub fn of_chains_that_begin() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIRST.into_iter()
}

/// Returns the chain of thought of a generation: from the first opening tag to the first closing tag after it,
/// stripped. A missing opening tag is accepted, because chat templates put it into the prompt. None without a closing
/// tag.
pub fn think(generation: &str) -> Option<&str> {
    let (from, to, _) = span(generation)?;
    Some(strip(&generation[from..to]))
}

/// Returns the text after the chain's closing tag, stripped and without solution tags and the end-of-turn token. None
/// without a closing tag.
pub fn response(generation: &str) -> Option<Cow<'_, str>> {
    let solution = after_chain(generation)?;
    // A solution may have text before and after it.
    if !SPECIAL.iter().any(|tag| solution.contains(tag)) {
        return Some(Cow::Borrowed(solution));
    }
    let parts = solution.split(SPECIAL[0]).flat_map(|part| part.split(SPECIAL[1])).map(strip);
    Some(Cow::Owned(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(SEPARATOR)))
}

/// Like [`response`], but keeps solution tags that have text before or after them.
pub fn after_chain(generation: &str) -> Option<&str> {
    let (_, _, after) = span(generation)?;
    let rest = strip(&generation[after..]);
    let rest = END_OF_TURN.iter().find_map(|token| rest.strip_suffix(token)).map_or(rest, strip);
    let unwrapped = SOLUTION.iter().enumerate().find_map(|(place, (opening, closing))| {
        match (rest.strip_prefix(opening), rest.strip_suffix(closing)) {
            (Some(inner), Some(_)) => inner.strip_suffix(closing),
            // One of the two is missing where a generation was cut. A closing tag may be HTML whose opening tag has
            // attributes.
            (Some(inner), None) => (!inner.contains(closing)).then_some(inner),
            (None, Some(inner)) => (place < NO_WORDS && !inner.contains(opening)).then_some(inner),
            (None, None) => None,
        }
    });
    Some(unwrapped.map_or(rest, strip))
}

/// Returns the text after the chain of thought, or the whole generation if it has no chain. None if the chain is cut
/// off: an opening tag without a closing one.
pub fn response_or_all(generation: &str) -> Option<&str> {
    if let Some(after) = after_chain(generation) {
        return Some(after);
    }
    let start = generation.trim_start();
    let is_cut_off = first_of(generation, &OPENING).is_some() || FIRST.iter().any(|(tag, _)| start.starts_with(tag));
    (!is_cut_off).then_some(generation)
}

/// The text between closing tag and answer of most reasoning models, such as DeepSeek-R1 and Qwen3.
pub const BEFORE_ANSWER: &str = "\n\n";

pub fn wrap(cot: &str, answer: &str) -> String {
    format!("{}\n{}", OPENING[0], continuation(cot, BEFORE_ANSWER, answer))
}

/// Formats a chain and its answer, with `before_answer` after the closing tag, to follow a prompt that ends in the
/// opening tag.
pub fn continuation(cot: &str, before_answer: &str, answer: &str) -> String {
    format!("{cot}\n{}{before_answer}{answer}", CLOSING[0])
}

/// Returns the chain's start, its end, and the end of the closing tag, in bytes.
fn span(generation: &str) -> Option<(usize, usize, usize)> {
    let start = generation.len() - generation.trim_start().len();
    let first = FIRST.iter().find(|(opening, _)| generation[start..].starts_with(opening));
    if let Some((opening, closing)) = first {
        let from = start + opening.len();
        let to = from + generation[from..].find(closing)?;
        return Some((from, to, to + closing.len()));
    }
    let from = first_of(generation, &OPENING).map_or(0, |(_, end)| end);
    match first_of(&generation[from..], &CLOSING) {
        Some((start, end)) => Some((from, from + start, from + end)),
        // The only opening tag is after the chain: it belongs to the response.
        None => first_of(generation, &CLOSING).map(|(start, end)| (0, start, end)),
    }
}

fn first_of(text: &str, tags: &[&str]) -> Option<(usize, usize)> {
    tags.iter().filter_map(|tag| text.find(tag).map(|start| (start, start + tag.len()))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_tags() {
        assert_eq!(think("<think>\n a \n</think>\nb"), Some("a"));
        assert_eq!(response("<think>\n a \n</think>\nb\n").as_deref(), Some("b"));
        let open_thoughts =
            "<|begin_of_thought|>\n\na\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\nb\n<|end_of_solution|>";
        assert_eq!(think(open_thoughts), Some("a"));
        assert_eq!(response(open_thoughts).as_deref(), Some("b"));
    }

    #[test]
    fn tags_that_are_words_too_count_where_a_generation_begins() {
        for (tag, solution) in [("Thought", "Output"), ("thinking", "answer"), ("reasoning", "output")] {
            let generation = format!("\n<{tag}>\na</think>b\n</{tag}>\n\n<{solution}>\nc\n</{solution}>");
            assert_eq!((think(&generation), response(&generation).as_deref()), (Some("a</think>b"), Some("c")));
        }
        assert_eq!(think("in <thinking> tags</thinking>b"), None);
        assert_eq!(think("<thinking>cut off</think>"), None);
        assert_eq!(response("a</think>say <answer>4</answer>").as_deref(), Some("say <answer>4</answer>"));
    }

    #[test]
    fn the_token_that_ends_a_turn_is_no_part_of_an_answer() {
        for token in END_OF_TURN {
            assert_eq!(response(&format!("<think>a</think>b {token}\n")).as_deref(), Some("b"));
        }
    }

    #[test]
    fn an_answer_has_no_tags_of_a_solution() {
        for (generation, expected) in [
            ("<think>a</think><|begin_of_solution|>b<|end_of_solution|>\n\nSo b.", "b\n\nSo b."),
            ("<think>a</think>b\n<|end_of_solution|>", "b"),
            ("<think>a</think><|begin_of_solution|>b", "b"),
            ("<think>a</think>\n<Output>\nb", "b"),
            ("<think>a</think>\n<output>b<|im_end|>", "b"),
            ("<think>a</think>b\n</Output>", "b"),
            // Another tag of the answer's own.
            ("<think>a</think><answer>4</answer> is it", "<answer>4</answer> is it"),
            ("<think>a</think>use the <output> element", "use the <output> element"),
        ] {
            assert_eq!(response(generation).as_deref(), Some(expected), "{generation}");
        }
    }

    #[test]
    fn what_is_wrapped_comes_back() {
        let generation = wrap("a\n\nb", "c");
        assert_eq!(generation, "<think>\na\n\nb\n</think>\n\nc");
        assert_eq!((think(&generation), response(&generation).as_deref()), (Some("a\n\nb"), Some("c")));
    }

    #[test]
    fn a_chain_that_is_cut_off_has_nothing_after_it() {
        assert_eq!(response_or_all("<think>a</think>b"), Some("b"));
        assert_eq!(response_or_all("a</think>b"), Some("b"));
        assert_eq!(response_or_all("b"), Some("b"));
        for cut_off in ["<think>a", "x <|begin_of_thought|>", "\n<thinking>a"] {
            assert_eq!(response_or_all(cut_off), None);
        }
        assert_eq!(response_or_all("in <thinking> tags"), Some("in <thinking> tags"));
    }

    #[test]
    fn a_missing_opening_tag_is_accepted_and_a_missing_closing_one_is_not() {
        assert_eq!(think("a</think>b"), Some("a"));
        assert_eq!(think("<think>a"), None);
        assert_eq!(response("<think>a"), None);
        assert_eq!(think(""), None);
    }
}
