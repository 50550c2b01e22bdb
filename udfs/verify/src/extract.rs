//! Finds the answer in a response.

use std::borrow::Cow;

use super::alone;
use super::boxes::{BETWEEN, Boxes, Unfinished, boxed, joins};
use super::choices;
use super::markdown::unemphasised;
use asap_kernels::code_fences::Blocks;
use asap_kernels::tags;

const SEARCHED: usize = 65_536;

/// What a response states.
pub(crate) enum Stated<'a> {
    Boxes(Boxes<'a>),
    Text(Cow<'a, str>),
    Ambiguous,
    Nothing,
}

/// Returns the final answer of a response: the content of its last box after the chain of thought, else the text after
/// its last "answer is", "answer:" or heading "Final answer", else after its last `####`, else the response itself if
/// it is nothing but a value or an equation. Adjacent boxes with "and", "or" or a comma between them are a list, unless
/// they have the same value. None if no answer is stated, if the chain or the box is cut off, and if the box contains
/// only part of a formula.
///
/// ```
/// assert_eq!(asap_verify::answer("2 + 2 is 4. The answer is 4.").as_deref(), Some("4"));
/// assert_eq!(asap_verify::answer("I do not know."), None);
/// ```
pub fn answer(response: &str) -> Option<Cow<'_, str>> {
    text_of(stated(response, true))
}

/// Returns the answer that a part of a response states, as [`answer`] does, but not the part itself.
pub(crate) fn said(part: &str) -> Option<Cow<'_, str>> {
    text_of(stated(part, false))
}

fn text_of(stated: Stated<'_>) -> Option<Cow<'_, str>> {
    match stated {
        Stated::Boxes(boxes) => boxes.answer(),
        Stated::Text(text) => Some(text),
        Stated::Ambiguous | Stated::Nothing => None,
    }
}

/// Finds the answer of a response. `is_whole` is set if the response may be nothing but its answer.
pub(crate) fn stated(response: &str, is_whole: bool) -> Stated<'_> {
    let Some(after) = tags::response_or_all(response).filter(|after| !is_cut_off(after)) else {
        return Stated::Nothing;
    };
    let searched = &after[after.ceil_char_boundary(after.len().saturating_sub(SEARCHED))..];
    match boxed(searched) {
        Err(Unfinished) => Stated::Nothing,
        Ok(Some(boxes)) => Stated::Boxes(boxes),
        Ok(None) => match unemphasised(searched) {
            Cow::Borrowed(text) => unboxed(text, is_whole),
            Cow::Owned(text) => match unboxed(&text, is_whole) {
                Stated::Text(stated) => Stated::Text(Cow::Owned(stated.into_owned())),
                Stated::Ambiguous => Stated::Ambiguous,
                _ => Stated::Nothing,
            },
        },
    }
}

fn unboxed(text: &str, is_whole: bool) -> Stated<'_> {
    let alone = || alone::stated(text).filter(|_| is_whole);
    match phrase(text) {
        Stated::Nothing => match marked(text).or_else(alone) {
            Some(stated) => Stated::Text(Cow::Borrowed(alone::last_side(stated).unwrap_or(stated))),
            None if is_whole && alone::is_listed(text.trim()) => Stated::Ambiguous,
            None => Stated::Nothing,
        },
        Stated::Text(Cow::Borrowed(stated)) => Stated::Text(Cow::Borrowed(alone::last_side(stated).unwrap_or(stated))),
        stated => stated,
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

/// "The answer is" in other languages, without the first letter if it may be a capital.
const PHRASES: [&str; 24] = [
    "答案是",
    "答案为",
    "答案為",
    "答案:",
    "答案：",
    "答えは",
    "答え:",
    "答え：",
    "정답은",
    "정답:",
    "답은",
    "답:",
    "espuesta es",
    "espuesta:",
    "esposta é",
    "esposta:",
    "isposta è",
    "isposta:",
    "éponse est",
    "éponse :",
    "éponse:",
    "ntwort ist",
    "ntwort:",
    "твет:",
];

/// Returns the text after the last "answer is" or "answer:" that states one: its formulas if they end the sentence,
/// else the rest of the sentence. Nothing if the text calls the answer wrong.
fn phrase(text: &str) -> Stated<'_> {
    let mut end = text.len();
    loop {
        let english = [" is", ":", "**:", " is:", "\n"].iter().filter_map(|after| last_of(text, end, after)).max();
        let translated = || {
            let ends = PHRASES.iter().filter_map(|phrase| Some((text[..end].rfind(phrase)?, phrase.len())));
            ends.max().map(|(from, length)| (from, from + length))
        };
        let Some((from, after)) = english.or_else(translated) else { return Stated::Nothing };
        let rest = without_adverbs(&text[after..]);
        match first_word(rest) {
            word if WRONG.contains(&word) => return Stated::Nothing,
            // "The answer is correct" refers to an earlier statement.
            word if RIGHT.contains(&word) => end = from,
            _ if text[from..after].contains('\n') && continues(rest) => return Stated::Ambiguous,
            _ => return sentence_of(rest).map_or(Stated::Nothing, Stated::Text),
        }
    }
}

/// Whether the lines after the value under a heading state another value, or doubt this one.
fn continues(rest: &str) -> bool {
    let end = formula(rest).unwrap_or(0);
    let following = rest[end..].split_once('\n').map_or("", |(_, following)| following);
    alone::is_listed(rest) || following.lines().any(alone::is_value) || alone::is_doubtful(following)
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

fn sentence_of(rest: &str) -> Option<Cow<'_, str>> {
    if let Some(stated) = lettered(rest).or_else(|| choice(rest)) {
        return Some(Cow::Borrowed(stated));
    }
    let formulas = first_formulas(rest).unwrap_or(0);
    let stated = match ends_sentence(&rest[formulas..]) && formulas > 0 {
        true => &rest[..formulas],
        false => &rest[..formulas + sentence(&rest[formulas..]).len()],
    };
    let stated = stated.trim().trim_end_matches(['*', '.', '。']).trim();
    let stated = if stated.contains("$**") { Cow::Owned(stated.replace("$**", "$")) } else { Cow::Borrowed(stated) };
    (!stated.is_empty()).then_some(stated)
}

/// Returns a line that is the letter of a choice with its text. A capital begins the next sentence: "B. It is right".
fn lettered(rest: &str) -> Option<&str> {
    let line = rest.lines().next()?.trim();
    let is_text =
        line.as_bytes().get(1) != Some(&b'.') || !line.get(2..)?.trim().starts_with(|c: char| c.is_uppercase());
    (is_text && choices::is_lettered(line)).then(|| line.trim_end_matches(['.', '。']))
}

/// Returns the letter of a choice that ends a sentence.
fn choice(rest: &str) -> Option<&str> {
    let is_bracketed = rest.starts_with('(');
    let from = usize::from(is_bracketed);
    let end = 1 + 2 * from;
    let is_letter = matches!(rest.as_bytes().get(from)?, b'A'..=b'J') && (!is_bracketed || rest[2..].starts_with(')'));
    (is_letter && rest.is_char_boundary(end) && ends_sentence(rest.get(end..)?)).then(|| &rest[..end])
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
    const WORDS: [&str; 3] = ["nswer", "option", "choice"];
    let mut end = end;
    loop {
        let (from, word) = WORDS.iter().filter_map(|word| Some((text[..end].rfind(word)?, word))).max()?;
        let before = text[..from].split_whitespace().next_back().unwrap_or_default();
        let begins = match *word {
            "nswer" => text[..from].ends_with(['a', 'A']),
            _ => ["correct", "Correct", "right", "best"].contains(&before),
        };
        let rest = &text[from + word.len()..];
        let line = rest.trim_start_matches(['*', '_', ' ', ':', '#']);
        if after == "\n" {
            if begins && is_heading(text, from) && line.starts_with(['\n', '\r']) {
                return Some((from, text.len() - line.trim_start().len()));
            }
        } else if begins && rest.starts_with(after) {
            return Some((from, from + word.len() + after.len()));
        }
        end = from;
    }
}

/// Whether the line of an "answer" has no other words before it.
fn is_heading(text: &str, from: usize) -> bool {
    let line = text[..from - 1].rsplit('\n').next().unwrap_or_default().to_lowercase();
    let mut words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.all(|word| ["final", "the", "my", "our", "correct"].contains(&word))
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
    let end = [". ", ".** ", ".* ", "。"].iter().filter_map(|stop| line.find(stop)).min().unwrap_or(line.len());
    &line[..end]
}

fn marked(text: &str) -> Option<&str> {
    const MARK: &str = "####";
    let from = text.rfind(MARK)? + MARK.len();
    let stated = text[from..].lines().next().unwrap_or_default().trim();
    (!stated.is_empty()).then_some(stated)
}
