//! The tags that reasoning models put around their chain of thought.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::steps::{SEPARATOR, strip};

type Pair = (&'static str, &'static str);

/// Opening and closing tags, with the models that write them, and where their tags are defined.
const TABLE: &str = include_str!("tags.tsv");
/// The tags around chains. They do not occur in prose, so they count anywhere in a generation.
static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| pairs("chain"));
/// Tags around chains that also occur in prose and code. They count only at the start of a generation.
static FIRST: LazyLock<Vec<Pair>> = LazyLock::new(|| pairs("beginning"));
/// Finds these tags in one pass. Most answers have none, and are not searched for each of them.
static TAGS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let tags = PAIRS.iter().flat_map(|(opening, closing)| [opening, closing]);
    AhoCorasick::new(tags.chain(FIRST.iter().map(|(_, closing)| closing))).ok()
});
/// Tags around the whole solution.
static SOLUTION: LazyLock<Vec<Pair>> = LazyLock::new(|| pairs("solution"));
/// The closing tags of solutions that are also HTML.
const HTML: [&str; 3] = ["</output>", "</answer>", "</response>"];
const THINK: Pair = ("<think>", "</think>");
/// Begins a message of harmony's analysis. There may be several; the final one ends it.
const ANALYSIS: &str = "<|channel|>analysis<|message|>";
const SPECIAL: [&str; 2] = ["<|begin_of_solution|>", "<|end_of_solution|>"];
/// End-of-turn tokens, which some loggers leave at the end of a generation.
const END_OF_TURN: &str = "<|im_end|> <|endoftext|> <｜end▁of▁sentence｜> <|eot_id|> <|eom_id|> <end_of_turn> </s> <|return|> <|end|> \
    <turn|> [unused10] <|end_message|> <|content_model_end_sampling|> <|END_OF_TURN_TOKEN|> <|eos|> <|user|> \
    [|endofturn|] <SPECIAL_12> <|end_of_text|> [e~[ <seed:eos> <|role_end|> <eos> <|EOT|> <｜hy_place▁holder▁no▁2｜>";
/// What harmony writes between two messages of the analysis, and before the final message: `<|end|>`, and this.
const NEXT_MESSAGE: &str = "<|start|>assistant";

fn pairs(kind: &str) -> Vec<Pair> {
    let tag = |written: &str| -> &'static str { written.replace("\\n", "\n").leak() };
    let pair = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [of, opening, closing, _] if of == kind => Some((tag(opening), tag(closing))),
        _ => None,
    };
    TABLE.lines().filter_map(pair).collect()
}

pub fn openings() -> impl Iterator<Item = &'static str> {
    PAIRS.iter().chain(&*FIRST).map(|(opening, _)| *opening)
}

/// Returns opening and closing tags that no answer may contain: the end of its chain would be ambiguous.
pub fn of_chains() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAIRS.iter().copied()
}

/// Returns opening and closing tags that no answer may contain if its generation begins with them. They are also words.
pub fn of_chains_that_begin() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIRST.iter().copied()
}

/// Returns a tag of a generation without a chain that may be the opening tag of one: it begins a line, and its closing
/// tag follows or its name is that of a thought.
pub fn unread(generation: &str) -> Option<&str> {
    const BRACKETS: [(&str, &str); 4] = [("<|", "|>"), ("<", ">"), ("[", "]"), ("◁", "▷")];
    generation.lines().map(str::trim_start).find_map(|line| {
        let (left, right) = BRACKETS.iter().find(|(left, _)| line.starts_with(left))?;
        let (name, _) = line[left.len()..].split_once(right)?;
        let is_letter = |character: char| character.is_alphanumeric() || "_-:.".contains(character);
        let is_thought = ["think", "thought", "reason"].iter().any(|word| name.to_ascii_lowercase().contains(word));
        let is_tag = name.starts_with(char::is_alphabetic)
            && name.chars().all(is_letter)
            && (is_thought || generation.contains(&format!("{left}/{name}{right}")));
        let tag = &line[..left.len() + name.len() + right.len()];
        // A tag of the table that no closing tag follows is read: its chain was cut off.
        (is_tag && PAIRS.iter().all(|(opening, _)| *opening != tag)).then_some(tag)
    })
}

/// Returns the chain of thought of a generation: from the first opening tag to the first closing tag after it,
/// stripped. A missing opening tag is accepted, because chat templates put it into the prompt. None without a closing
/// tag.
pub fn think(generation: &str) -> Option<Cow<'_, str>> {
    let (from, to, _) = span(generation)?;
    let mut chain = strip(&generation[from..to]);
    if !chain.ends_with(NEXT_MESSAGE) {
        // A template and its model may both write the opening tag.
        while let Some(rest) = PAIRS.iter().find_map(|(opening, _)| chain.strip_prefix(opening)) {
            chain = strip(rest);
        }
        return Some(Cow::Borrowed(chain));
    }
    let message = |message| {
        let message = strip(message);
        strip(message.strip_suffix("<|end|>").unwrap_or(message)).trim_start_matches(ANALYSIS)
    };
    let messages = chain.split(NEXT_MESSAGE).map(|held| strip(message(held)));
    // Messages of the other channel, commentary, call tools or speak to the user.
    let is_analysis = |message: &&str| !message.is_empty() && !message.starts_with("<|channel|>");
    Some(Cow::Owned(messages.filter(is_analysis).collect::<Vec<_>>().join(SEPARATOR)))
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
    let mut rest = strip(&generation[after..]);
    // The first special token ends the turn, and that of another turn follows it.
    let special = |text: &str| text.find("<|").into_iter().chain(text.find("<｜")).min();
    if let Some((said, token)) = special(rest).map(|at| rest.split_at(at))
        && let Some(next) = END_OF_TURN.split(' ').find_map(|end| token.strip_prefix(end))
        && special(next.trim_start()) == Some(0)
    {
        rest = strip(said);
    }
    while let Some(before) = END_OF_TURN.split(' ').find_map(|token| rest.strip_suffix(token)) {
        rest = strip(before);
    }
    let unwrapped = SOLUTION.iter().find_map(|(opening, closing)| {
        match (rest.strip_prefix(opening), rest.strip_suffix(closing)) {
            (Some(inner), Some(_)) => inner.strip_suffix(closing),
            // One of the two is missing where a generation was cut. A closing tag may be HTML whose opening tag has
            // attributes.
            (Some(inner), None) => (!inner.contains(closing)).then_some(inner),
            (None, Some(inner)) => (!HTML.contains(closing) && !inner.contains(opening)).then_some(inner),
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
    let is_cut_off = has_tag(generation) && first_of(generation, PAIRS.iter().map(|(opening, _)| *opening)).is_some()
        || FIRST.iter().any(|(tag, _)| start.starts_with(tag));
    (!is_cut_off).then_some(generation)
}

/// The text between closing tag and answer of most reasoning models, such as DeepSeek-R1 and Qwen3.
pub const BEFORE_ANSWER: &str = "\n\n";

pub fn wrap(cot: &str, answer: &str) -> String {
    format!("{}\n{}", THINK.0, continuation(cot, BEFORE_ANSWER, answer))
}

/// Formats a chain and its answer, with `before_answer` after the closing tag, to follow a prompt that ends in the
/// opening tag.
pub fn continuation(cot: &str, before_answer: &str, answer: &str) -> String {
    format!("{cot}\n{}{before_answer}{answer}", THINK.1)
}

/// Returns the chain's start, its end, and the end of the closing tag, in bytes.
fn span(generation: &str) -> Option<(usize, usize, usize)> {
    let start = generation.len() - generation.trim_start().len();
    let mut first = FIRST.iter().filter(|(opening, _)| generation[start..].starts_with(opening)).peekable();
    if first.peek().is_some() {
        return first.find_map(|(opening, closing)| {
            let from = start + opening.len();
            let to = from + generation[from..].find(closing)?;
            Some((from, to, to + closing.len()))
        });
    }
    if !has_tag(generation) {
        return None;
    }
    // The first opening tag that its own closing tag follows.
    let (mut found, mut before) = (None, generation);
    for (opening, closing) in PAIRS.iter() {
        let mut found_at = before.match_indices(opening).map(|(at, _)| (at, at + opening.len()));
        let may_open = |(at, from): &(usize, usize)| may_open(&before[..*at], &generation[*from..]);
        let Some((start, from)) = found_at.find(may_open) else { continue };
        if let Some(to) = generation[from..].find(closing).map(|to| from + to) {
            (found, before) = (Some((from, to, to + closing.len())), &generation[..start]);
        }
    }
    if found.is_some() {
        return found;
    }
    let opening = PAIRS.iter().find(|(opening, _)| generation[start..].starts_with(opening));
    let from = opening.map_or(0, |(opening, _)| start + opening.len());
    let closing = first_of(&generation[from..], PAIRS.iter().map(|(_, closing)| *closing));
    let closing = closing.or_else(|| FIRST.iter().find_map(|pair| alone(&generation[from..], pair)));
    closing.map(|(start, end)| (from, from + start, from + end))
}

/// Whether a text may have an opening tag of a chain, or a closing tag at all.
fn has_tag(text: &str) -> bool {
    TAGS.as_ref().is_none_or(|tags| tags.is_match(text))
}

/// Whether an opening tag between these texts opens a chain. Within a sentence, a chain only mentions the tag.
fn may_open(before: &str, after: &str) -> bool {
    let line = before.trim_end_matches([' ', '\t']);
    after.starts_with('\n') || line.is_empty() || line.ends_with(|last: char| "\n.!?:…。！？：>]".contains(last))
}

/// The only one of two tags that are also words: it begins a line, and its opening tag was in the prompt.
fn alone(generation: &str, (opening, closing): &Pair) -> Option<(usize, usize)> {
    let mut found = generation.match_indices(closing);
    let (start, end) = found.next().map(|(start, _)| (start, start + closing.len()))?;
    let is_alone = found.next().is_none() && closing.starts_with("</") && !generation.contains(opening);
    (is_alone && generation[..start].trim_end_matches([' ', '\t']).ends_with('\n')).then_some((start, end))
}

fn first_of(text: &str, tags: impl Iterator<Item = &'static str>) -> Option<(usize, usize)> {
    let (mut found, mut before) = (None, text);
    for tag in tags {
        if let Some(start) = before.find(tag) {
            (found, before) = (Some((start, start + tag.len())), &text[..start]);
        }
    }
    found
}
