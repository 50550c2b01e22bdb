//! The tags that reasoning models put around their chain of thought.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem;

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
    let tags = PAIRS.iter().flat_map(|(opening, closing)| [name_of(opening).unwrap_or(opening), closing]);
    AhoCorasick::new(tags.chain(FIRST.iter().map(|(_, closing)| *closing))).ok()
});
/// The most characters of an opening tag with attributes.
const TAG_CHARACTERS: usize = 200;
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

/// A generation in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    pub chain: Cow<'a, str>,
    pub answer: Cow<'a, str>,
    /// Text before the opening tag, without special tokens and the name of the speaker.
    pub before: &'a str,
    /// Whether the answer has another tag of a chain, so that the end of the chain is ambiguous. A quoted tag does not count.
    pub thinks_again: bool,
}

/// Returns the chain and the answer of a generation, as [`think`] and [`response`] do. None without a closing tag.
pub fn parts(generation: &str) -> Option<Parts<'_>> {
    let (from, to, after) = span(generation)?;
    let (chain, answer) = (chain_of(&generation[from..to]), answer_of(solution_of(&generation[after..])));
    let thinks_again = thinks_again(generation, &answer);
    Some(Parts { chain, answer, before: said_before(&generation[..from]), thinks_again })
}

/// What a text up to the end of an opening tag says before this tag.
fn said_before(opened: &str) -> &str {
    const SPEAKERS: [&str; 3] = ["assistant", "model", "gpt"];
    let start = opened.trim_start();
    if PAIRS.iter().chain(&*FIRST).any(|(opening, _)| opening_at(start, opening) == Some(start.len())) {
        return "";
    }
    let ends =
        |(opening, _): &Pair| openings_in(opened, opening).find(|(_, end)| *end == opened.len()).map(|(at, _)| at);
    let Some(at) = PAIRS.iter().chain(&*FIRST).filter_map(ends).min() else { return "" };
    let mut said = strip(&opened[..at]);
    loop {
        let token = [("<|", "|>"), ("<｜", "｜>"), ("<", ">"), ("[", "]")].iter().find_map(|(left, right)| {
            let (name, rest) = said.strip_prefix(left)?.split_once(right)?;
            (!name.contains(char::is_whitespace)).then_some(rest)
        });
        let speaker = || SPEAKERS.iter().find_map(|name| said.strip_prefix(name));
        match token.or_else(speaker) {
            Some(rest) => said = strip(rest),
            None => return said,
        }
    }
}

/// Returns a chain in a place of its own without the tags around it. One that begins with a tag may be a whole generation.
/// Any other chain stays unchanged, even if it mentions tags.
pub fn bare_chain(held: &str) -> &str {
    if !may_have_tags_around(held) {
        return held;
    }
    let mut bare = held;
    while let Some(rest) = after_opening(bare.trim_start(), &PAIRS) {
        bare = rest.trim_start();
    }
    let end = bare.trim_end();
    for (_, closing) in PAIRS.iter() {
        if let Some(before) = end.strip_suffix(closing)
            && before.trim_end_matches([' ', '\t']).ends_with('\n')
        {
            bare = before.trim_end();
        }
    }
    bare
}

/// Returns the answer next to a chain: without its own copy of this chain, closing tags before it, and what may stand around
/// the answer of a generation. None if it begins with another chain.
pub fn answer_beside<'a>(chain: &str, held: &'a str) -> Option<Cow<'a, str>> {
    let begins = begins_with_chain(held);
    if begins || has_tag(held) {
        let own = parts(held).filter(|own| [strip(chain), strip(bare_chain(chain)), ""].contains(&&*own.chain));
        let is_orphan = || own.as_ref().is_some_and(|own| own.chain.is_empty());
        if let Some(own) = own.as_ref().filter(|_| begins || !is_orphan() || begins_with_closing(held)) {
            return Some(own.answer.clone());
        }
        if begins {
            return None;
        }
    }
    if !may_have_tags_around(held) && !held.contains("<|") && !held.contains("<｜") {
        return Some(Cow::Borrowed(held));
    }
    let bare = answer_of(solution_of(held));
    Some(if *bare == *held.trim_matches([' ', '\n', '\r', '\t']) { Cow::Borrowed(held) } else { bare })
}

/// Whether a text begins with the opening tag of a chain.
pub fn begins_with_chain(text: &str) -> bool {
    let start = text.trim_start();
    start.starts_with(may_begin_tag)
        && (after_opening(start, &PAIRS).is_some() || after_opening(start, &FIRST).is_some())
}

/// Whether an opening tag may begin with a letter.
fn may_begin_tag(letter: char) -> bool {
    "<[◁H#".contains(letter)
}

fn begins_with_closing(text: &str) -> bool {
    let start = text.trim_start();
    PAIRS.iter().chain(&*FIRST).any(|(_, closing)| start.starts_with(closing))
}

/// Whether tags may stand around a text: most texts neither begin nor end with one of their characters.
fn may_have_tags_around(text: &str) -> bool {
    let (start, end) = (text.trim_start(), text.trim_end());
    start.starts_with(may_begin_tag) || end.ends_with(|last| ">]▷[".contains(last))
}

fn thinks_again(generation: &str, answer: &str) -> bool {
    let has = |tag: &str| unquoted(answer, tag).next().is_some();
    let start = generation.trim_start();
    has_tag(answer) && PAIRS.iter().any(|(opening, closing)| openings_in(answer, opening).any(|(at, end)| !is_quoted(answer, at, end)) || has(closing))
        || after_opening(answer, &FIRST).is_some()
        // Tags that are also words count only as the generation's own pair.
        || FIRST.iter().any(|pair| {
            after_opening(start, std::slice::from_ref(pair)).is_some() && (has(pair.0) || has(pair.1))
        })
}

/// Returns an unknown tag that looks like the opening tag of a chain, so that a note can name it: the tag begins a
/// line, and its closing tag follows or its name means a thought. For generations without a known chain.
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
    Some(chain_of(&generation[from..to]))
}

fn chain_of(between: &str) -> Cow<'_, str> {
    let mut chain = strip(between);
    if !chain.ends_with(NEXT_MESSAGE) {
        // A template and its model may both write the opening tag.
        while let Some(rest) = after_opening(chain, &PAIRS) {
            chain = strip(rest);
        }
        return Cow::Borrowed(chain);
    }
    let message = |message| {
        let message = strip(message);
        strip(message.strip_suffix("<|end|>").unwrap_or(message)).trim_start_matches(ANALYSIS)
    };
    let messages = chain.split(NEXT_MESSAGE).map(|held| strip(message(held)));
    // Messages of the other channel, commentary, call tools or speak to the user.
    let is_analysis = |message: &&str| !message.is_empty() && !message.starts_with("<|channel|>");
    Cow::Owned(messages.filter(is_analysis).collect::<Vec<_>>().join(SEPARATOR))
}

/// Returns the text after the chain's closing tag, stripped and without solution tags and the end-of-turn token. None
/// without a closing tag.
pub fn response(generation: &str) -> Option<Cow<'_, str>> {
    Some(answer_of(after_chain(generation)?))
}

fn answer_of(solution: &str) -> Cow<'_, str> {
    // A solution may have text before and after it.
    if !solution.contains('<') || !SPECIAL.iter().any(|tag| solution.contains(tag)) {
        return Cow::Borrowed(solution);
    }
    let parts = solution.split(SPECIAL[0]).flat_map(|part| part.split(SPECIAL[1])).map(strip);
    Cow::Owned(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(SEPARATOR))
}

/// Like [`response`], but keeps solution tags that have text before or after them.
pub fn after_chain(generation: &str) -> Option<&str> {
    let (_, _, after) = span(generation)?;
    Some(solution_of(&generation[after..]))
}

/// A text without closing tags of chains before it, end-of-turn tokens and solution tags around it.
fn solution_of(after: &str) -> &str {
    let mut rest = strip(after);
    if !rest.contains('<') && !may_have_tags_around(rest) {
        return rest;
    }
    let of_words = FIRST.iter().filter(|(_, closing)| closing.starts_with("</"));
    let closings = PAIRS.iter().chain(of_words).map(|(_, closing)| *closing);
    let closing = |text: &'_ str| closings.clone().find_map(|closing| text.strip_prefix(closing).map(str::len));
    while let Some(left) = closing(rest) {
        rest = strip(&rest[rest.len() - left..]);
    }
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
            // A generation that was cut off has only one of the two tags. A closing tag may be HTML whose opening tag
            // has attributes.
            (Some(inner), None) => (!inner.contains(closing)).then_some(inner),
            (None, Some(inner)) => (!HTML.contains(closing) && !inner.contains(opening)).then_some(inner),
            (None, None) => None,
        }
    });
    unwrapped.map_or(rest, strip)
}

/// Returns the text after the chain of thought, or the whole generation if it has no chain. None if the chain is cut
/// off: an opening tag without a closing one.
pub fn response_or_all(generation: &str) -> Option<&str> {
    if let Some(after) = after_chain(generation) {
        return Some(after);
    }
    let start = generation.trim_start();
    let opens = |opening: &'static str| openings_in(generation, opening).next().is_some();
    let is_cut_off = has_tag(generation) && PAIRS.iter().any(|(opening, _)| opens(opening))
        || after_opening(start, &FIRST).is_some();
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
    let closed = |from: usize, closing: &str| {
        let to = from + unquoted(&generation[from..], closing).next()?;
        Some((from, to, to + closing.len()))
    };
    let opened = |(opening, closing): &Pair| Some((start + opening_at(&generation[start..], opening)?, *closing));
    let mut first = FIRST.iter().filter_map(opened).peekable();
    if first.peek().is_some() {
        return first.find_map(|(from, closing)| closed(from, closing));
    }
    // Most generations begin with their tag, and no other tag can come first.
    let begins = PAIRS.iter().filter_map(opened);
    let mut begins = begins.filter(|(from, _)| may_open(&generation[..start], &generation[*from..]));
    if let Some(span) = begins.find_map(|(from, closing)| closed(from, closing)) {
        return Some(span);
    }
    if !has_tag(generation) {
        return None;
    }
    // The first opening tag that its own closing tag follows.
    let (mut found, mut before) = (None, generation);
    for (opening, closing) in PAIRS.iter() {
        let mut found_at = openings_in(before, opening);
        let may_open = |(at, from): &(usize, usize)| may_open(&before[..*at], &generation[*from..]);
        let Some((start, from)) = found_at.find(may_open) else { continue };
        if let Some(span) = closed(from, closing) {
            (found, before) = (Some(span), &generation[..start]);
        }
    }
    if found.is_some() {
        return found;
    }
    let from = PAIRS.iter().find_map(opened).map_or(0, |(from, _)| from);
    let rest = &generation[from..];
    let first = |(_, closing): &Pair| unquoted(rest, closing).next().map(|at| (at, at + closing.len()));
    let closing = PAIRS.iter().filter_map(first).min_by_key(|(at, _)| *at);
    let closing = closing.or_else(|| FIRST.iter().find_map(|pair| alone(rest, pair)));
    closing.map(|(start, end)| (from, from + start, from + end))
}

/// The name of an XML tag with its bracket: such a tag may have attributes.
fn name_of(opening: &'static str) -> Option<&'static str> {
    let name = opening.strip_suffix('>')?;
    name.strip_prefix('<')?
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || ":_".contains(letter))
        .then_some(name)
}

/// The length of an opening tag at the start of a text, with its attributes.
fn opening_at(text: &str, opening: &'static str) -> Option<usize> {
    if text.starts_with(opening) {
        return Some(opening.len());
    }
    if text.as_bytes().get(..2) != opening.as_bytes().get(..2) {
        return None;
    }
    let attributes = text.strip_prefix(name_of(opening)?)?.strip_prefix([' ', '\t'])?;
    let (held, _) = attributes.split_once('>')?;
    let is_tag =
        held.len() <= TAG_CHARACTERS && !held.contains(['<', '\n']) && (held.trim().is_empty() || held.contains('='));
    is_tag.then(|| text.len() - attributes.len() + held.len() + 1)
}

/// Where an opening tag begins and ends in a text.
fn openings_in<'a>(text: &'a str, opening: &'static str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let found = places_of(text, name_of(opening).unwrap_or(opening));
    found.filter_map(move |at| Some((at, at + opening_at(&text[at..], opening)?)))
}

/// The text after an opening tag with which a text begins.
fn after_opening<'a>(text: &'a str, pairs: &[Pair]) -> Option<&'a str> {
    pairs.iter().find_map(|(opening, _)| text.get(opening_at(text, opening)?..))
}

/// Where a tag is in a text, but for places that quote it: `</think>` in backticks or quotation marks ends no chain.
fn unquoted<'a>(text: &'a str, tag: &'a str) -> impl Iterator<Item = usize> + 'a {
    places_of(text, tag).filter(move |at| !is_quoted(text, *at, at + tag.len()))
}

/// Where a tag is in a text. Chains are long, and this search is faster than that of the standard library.
fn places_of<'a>(text: &'a str, tag: &'a str) -> impl Iterator<Item = usize> + 'a {
    memmem::find_iter(text.as_bytes(), tag.as_bytes())
}

fn is_quoted(text: &str, from: usize, to: usize) -> bool {
    const MARKS: [(char, char); 8] =
        [('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('„', '“'), ('«', '»'), ('「', '」')];
    let (before, after) = (&text[..from], text[to..].trim_start_matches('\\'));
    let is_between = |(left, right): &(char, char)| before.ends_with(*left) && after.starts_with(*right);
    // Code within a line, such as `<think>…</think>`.
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_in_code =
        || line.matches('`').count() % 2 == 1 && after.split('\n').next().unwrap_or_default().contains('`');
    MARKS.iter().any(is_between) || is_in_code()
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
    let mut found = unquoted(generation, closing);
    let (start, end) = found.next().map(|start| (start, start + closing.len()))?;
    let is_alone = found.next().is_none() && closing.starts_with("</") && !generation.contains(opening);
    (is_alone && generation[..start].trim_end_matches([' ', '\t']).ends_with('\n')).then_some((start, end))
}
