//! The tags that reasoning models put around their chain of thought.

use super::steps::strip;

/// The tags that begin a chain of thought wherever they stand.
const OPENING: [&str; 2] = ["<think>", "<|begin_of_thought|>"];
const CLOSING: [&str; 2] = ["</think>", "<|end_of_thought|>"];
/// Tags that are words of prose and code too: they count only where a generation begins with them.
const FIRST: [(&str, &str); 4] = [
    ("<Thought>", "</Thought>"),
    ("<thought>", "</thought>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
];
/// Tags around the whole of what follows.
const SOLUTION: [(&str, &str); 4] = [
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<Output>", "</Output>"),
    ("<output>", "</output>"),
    ("<answer>", "</answer>"),
];
/// Tokens that end a turn, which some loggers leave at the end of a generation.
const END_OF_TURN: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "<|eot_id|>", "<end_of_turn>", "</s>"];

/// Every tag with which a generation may begin.
pub fn openings() -> impl Iterator<Item = &'static str> {
    OPENING.into_iter().chain(FIRST.map(|(opening, _)| opening))
}

/// The chain of thought of a generation: from the first opening tag to the first closing tag after it, stripped.
/// A missing opening tag is accepted, because chat templates put it into the prompt; without a closing tag: None.
pub fn think(generation: &str) -> Option<&str> {
    let (from, to, _) = span(generation)?;
    Some(strip(&generation[from..to]))
}

/// What follows the chain's closing tag, stripped and without the tags of a solution or the token that ends a turn;
/// without a closing tag: None.
pub fn response(generation: &str) -> Option<&str> {
    let (_, _, after) = span(generation)?;
    let mut rest = strip(&generation[after..]);
    if let Some(before) = END_OF_TURN.iter().find_map(|token| rest.strip_suffix(token)) {
        rest = strip(before);
    }
    let unwrapped = SOLUTION.iter().find_map(|(opening, closing)| rest.strip_prefix(opening)?.strip_suffix(closing));
    if let Some(solution) = unwrapped {
        return Some(strip(solution));
    }
    // One of these is left where a generation was cut.
    let (opening, closing) = SOLUTION[0];
    rest = rest.strip_prefix(opening).unwrap_or(rest);
    rest = rest.strip_suffix(closing).unwrap_or(rest);
    Some(strip(rest))
}

/// What a generation says behind its chain of thought; all of it if it has none. None if its chain is cut off: an opening
/// tag without a closing one.
pub fn behind_chain(generation: &str) -> Option<&str> {
    if let Some(response) = response(generation) {
        return Some(response);
    }
    let start = generation.trim_start();
    let is_cut_off = first_of(generation, &OPENING).is_some() || FIRST.iter().any(|(tag, _)| start.starts_with(tag));
    (!is_cut_off).then_some(generation)
}

/// A chain and its answer as one generation.
pub fn wrap(cot: &str, answer: &str) -> String {
    format!("{}\n{}", OPENING[0], continuation(cot, answer))
}

/// A chain and its answer as they follow a prompt that ends in the opening tag.
pub fn continuation(cot: &str, answer: &str) -> String {
    format!("{cot}\n{}\n{answer}", CLOSING[0])
}

/// Byte positions: the chain's start, its end, and the end of the closing tag.
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
        // The only opening tag stands after the chain: it belongs to the response.
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
        assert_eq!(response("<think>\n a \n</think>\nb\n"), Some("b"));
        let open_thoughts =
            "<|begin_of_thought|>\n\na\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\nb\n<|end_of_solution|>";
        assert_eq!(think(open_thoughts), Some("a"));
        assert_eq!(response(open_thoughts), Some("b"));
    }

    #[test]
    fn tags_that_are_words_too_count_where_a_generation_begins() {
        for (tag, solution) in [("Thought", "Output"), ("thinking", "answer"), ("reasoning", "output")] {
            let generation = format!("\n<{tag}>\na</think>b\n</{tag}>\n\n<{solution}>\nc\n</{solution}>");
            assert_eq!((think(&generation), response(&generation)), (Some("a</think>b"), Some("c")));
        }
        assert_eq!(think("in <thinking> tags</thinking>b"), None);
        assert_eq!(think("<thinking>cut off</think>"), None);
        assert_eq!(response("a</think>say <answer>4</answer>"), Some("say <answer>4</answer>"));
    }

    #[test]
    fn the_token_that_ends_a_turn_is_no_part_of_an_answer() {
        for token in END_OF_TURN {
            assert_eq!(response(&format!("<think>a</think>b {token}\n")), Some("b"));
        }
    }

    #[test]
    fn what_is_wrapped_comes_back() {
        let generation = wrap("a\n\nb", "c");
        assert_eq!((think(&generation), response(&generation)), (Some("a\n\nb"), Some("c")));
    }

    #[test]
    fn a_chain_that_is_cut_off_has_nothing_behind_it() {
        assert_eq!(behind_chain("<think>a</think>b"), Some("b"));
        assert_eq!(behind_chain("a</think>b"), Some("b"));
        assert_eq!(behind_chain("b"), Some("b"));
        for cut_off in ["<think>a", "x <|begin_of_thought|>", "\n<thinking>a"] {
            assert_eq!(behind_chain(cut_off), None);
        }
        assert_eq!(behind_chain("in <thinking> tags"), Some("in <thinking> tags"));
    }

    #[test]
    fn a_missing_opening_tag_is_accepted_and_a_missing_closing_one_is_not() {
        assert_eq!(think("a</think>b"), Some("a"));
        assert_eq!(think("<think>a"), None);
        assert_eq!(response("<think>a"), None);
        assert_eq!(think(""), None);
    }
}
