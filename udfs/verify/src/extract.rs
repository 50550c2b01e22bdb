//! Finds the answer in a response.

use std::borrow::Cow;

use super::alone;
use super::boxes::{BETWEEN, Boxes, Unfinished, boxed, joins};
use super::choices;
use super::markdown::unemphasised;
use asap_kernels::code_fences::Blocks;
use asap_kernels::tags;

const SEARCHED: usize = 65_536;
/// The marks of formulas.
pub(crate) const MARKS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];
/// The maximum bytes of a heading before "answer".
const HEADING: usize = 40;

/// What a response states.
pub(crate) enum Stated<'a> {
    Boxes(Boxes<'a>),
    Text(String),
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
        Stated::Text(text) => Some(Cow::Owned(text)),
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
        Ok(None) => match unboxed(&unemphasised(searched), is_whole) {
            Err(Doubtful) => Stated::Ambiguous,
            Ok(said) => said.map_or(Stated::Nothing, |said| Stated::Text(said.to_string())),
        },
    }
}

/// A statement with two readings.
struct Doubtful;

fn unboxed(text: &str, is_whole: bool) -> Result<Option<&str>, Doubtful> {
    let said = phrase(text)?.or_else(|| marked(text)).or_else(|| alone::stated(text).filter(|_| is_whole));
    // `~5~` is struck out, and `~5` is about 5.
    let said = said.filter(|said| !said.starts_with('~'));
    if said.is_none() && is_whole && text.trim().strip_prefix("- ").is_some_and(alone::is_value) {
        return Err(Doubtful);
    }
    Ok(said.map(|said| alone::last_side(said).unwrap_or(said)))
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
    const LONGEST: usize = "/seed:think▷".len();
    let last = text.rmatch_indices(BRACKETS.map(|(opening, _)| opening)).find_map(|(place, opening)| {
        let (_, closing) = BRACKETS.iter().find(|(of, _)| opening.starts_with(*of))?;
        let near = &text[place + opening.len()..];
        let (tag, _) = near[..near.floor_char_boundary(LONGEST)].split_once(*closing)?;
        let name = tag.strip_prefix('/').unwrap_or(tag);
        NAMES.iter().any(|of| name.eq_ignore_ascii_case(of)).then_some(tag.starts_with('/'))
    });
    last == Some(false)
}

/// "The answer is" in several languages, without the first letter if it may be a capital.
const PHRASES: &str = include_str!("words/answer_is.txt");

/// Returns the text after the last phrase or heading that states an answer: its formulas if they end the sentence, else
/// the rest of the sentence. None if the text calls the answer wrong.
fn phrase(text: &str) -> Result<Option<&str>, Doubtful> {
    let of = |phrase: &'static str| text.match_indices(phrase).map(|(from, phrase)| (from, from + phrase.len()));
    let phrases = PHRASES.lines().flat_map(of).filter(|(from, _)| !text[..*from].ends_with("inc"));
    let mut places: Vec<(usize, usize)> = phrases.chain(headings(text)).collect();
    places.sort_unstable();
    while let Some((from, after)) = places.pop() {
        let rest = without_adverbs(&text[after..]);
        match first_word(rest) {
            word if WRONG.contains(&word) => return Ok(None),
            // "The answer is correct" refers to an earlier statement.
            word if RIGHT.contains(&word) => {}
            _ if text[from..after].ends_with('\n') && continues(rest) => return Err(Doubtful),
            _ => return Ok(sentence_of(rest)),
        }
    }
    Ok(None)
}

/// Finds the lines that are nothing but a heading such as "Final answer".
fn headings(text: &str) -> impl Iterator<Item = (usize, usize)> {
    ["nswer", "NSWER"].into_iter().flat_map(|word| text.match_indices(word)).filter_map(|(from, word)| {
        let near = &text[text.ceil_char_boundary(from.saturating_sub(HEADING))..from];
        let line = near.rsplit('\n').next().filter(|line| line.len() < HEADING)?.to_lowercase();
        let mut words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        // "3. Final answer" numbers a part of the text, and "3. Answer" a question.
        let is_number = |word: &str| line.contains("final") && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_heading =
            words.all(|word| ["final", "the", "my", "our", "correct", "a"].contains(&word) || is_number(word));
        let rest = text[from + word.len()..].trim_start_matches([' ', '#', ':', '\r']).strip_prefix('\n')?;
        let below = rest.lines().next().unwrap_or_default();
        let is_underlined = below.len() > 1 && ['=', '-'].iter().any(|sign| below.trim_matches(*sign).is_empty());
        let rest = if is_underlined { rest[below.len()..].trim_start_matches('\r').strip_prefix('\n')? } else { rest };
        is_heading.then(|| (from, text.len() - rest.len()))
    })
}

/// Whether the lines after the value under a heading state another value, or doubt this one.
fn continues(rest: &str) -> bool {
    let following = rest[formula(rest).unwrap_or(0)..].split_once('\n').map_or("", |(_, following)| following);
    let mut lines = following.lines().filter(|line| !line.trim().is_empty()).take(3);
    rest.starts_with("- ") || lines.any(alone::is_value) || alone::is_doubtful(following)
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

fn sentence_of(rest: &str) -> Option<&str> {
    // In "B. It is right" the capital begins the next sentence.
    let line = rest.lines().next()?.trim();
    let is_text =
        !line.get(1..).is_some_and(|text| text.trim_start_matches(['.', ' ']).starts_with(char::is_uppercase));
    if is_text && choices::lettered(line).is_some() {
        return Some(line.trim_end_matches(['.', '。']));
    }
    let letter = if line.starts_with('(') { 3 } else { 1 };
    let is_choice =
        matches!(line.trim_start_matches('(').as_bytes(), [b'A'..=b'J', ..]) && line.is_char_boundary(letter);
    if is_choice && line.get(letter..).is_some_and(ends_sentence) {
        return Some(&line[..letter]);
    }
    let formulas = first_formulas(rest).unwrap_or(0);
    let stated = match ends_sentence(&rest[formulas..]) && formulas > 0 {
        true => &rest[..formulas],
        false => &rest[..formulas + sentence(&rest[formulas..]).len()],
    };
    let stated = stated.trim().trim_end_matches(['*', '.', '。']).trim();
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
        || ["</", "<|", "です", "입니다"].iter().any(|tag| rest.starts_with(tag))
        || rest.strip_prefix('.').is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '.'))
        || REASONS.contains(&word)
}

fn first_formulas(text: &str) -> Option<usize> {
    let mut end = formula(text)?;
    loop {
        let near = &text[end..text.floor_char_boundary(end + BETWEEN + 2)];
        let Some(next) = ["$", "\\(", "\\["].iter().filter_map(|opening| near.find(opening)).min() else { break };
        if joins(&text[end..end + next]) != Some(true) {
            break;
        }
        end += next + formula(&text[end + next..])?;
    }
    Some(end)
}

fn formula(text: &str) -> Option<usize> {
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
