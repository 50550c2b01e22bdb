//! Finds the answer in a response.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Match};

use crate::equal;
use crate::find::boxes::{BETWEEN, Boxes, Unfinished, boxed, joins};
use crate::find::markdown::unemphasised;
use crate::find::{alone, choices, clauses};
use crate::read::characters::unescaped;
use crate::read::words;
use crate::read::words::{MARKS, SEEN};
use asap_kernels::code_fences::Blocks;
use asap_kernels::tags;

const SEARCHED: usize = 65_536;
/// The maximum bytes of a heading before "answer".
const HEADING: usize = 40;

/// What a response states.
pub(crate) enum Stated<'a> {
    Boxes(Boxes<'a>),
    /// What follows a phrase, a heading or a mark.
    Text(String),
    /// A response that is nothing but its answer.
    Alone(String),
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
    match unescaped(response) {
        Cow::Borrowed(response) => text_of(stated(response, true)),
        Cow::Owned(response) => text_of(stated(&response, true)).map(|answer| Cow::Owned(answer.into_owned())),
    }
}

/// Returns the answer that a part of a response states, as [`answer`] does, but not the part itself.
pub(crate) fn said(part: &str) -> Option<Cow<'_, str>> {
    text_of(stated(part, false))
}

fn text_of(stated: Stated<'_>) -> Option<Cow<'_, str>> {
    match stated {
        Stated::Boxes(boxes) => boxes.answer(),
        Stated::Text(text) | Stated::Alone(text) => Some(Cow::Owned(text)),
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
            Ok(said) => said.unwrap_or(Stated::Nothing),
        },
    }
}

/// A statement with two readings.
struct Doubtful;

fn unboxed<'a>(text: &str, is_whole: bool) -> Result<Option<Stated<'a>>, Doubtful> {
    // `~5~` is struck out, and `~5` is about 5.
    let is_firm = |said: &&str| !said.starts_with('~');
    let written = |said: &str| alone::last_side(said).unwrap_or(said).to_string();
    if let Some(said) = phrase(text)?.or_else(|| marked(text).map(clauses::value)) {
        return Ok(Some(said).filter(is_firm).map(|said| Stated::Text(written(said))));
    }
    let said = alone::stated(text).filter(|_| is_whole).filter(is_firm);
    if said.is_none() && is_whole && text.trim().strip_prefix("- ").is_some_and(alone::is_value) {
        return Err(Doubtful);
    }
    Ok(said.map(|said| Stated::Alone(written(said))))
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

/// "The answer is" in several languages, without the first letter if it may be a capital. Those with a colon are also
/// headings.
const PHRASES: &str = include_str!("../read/words/answer_is.txt");
/// Finds the phrases without their colons in one pass.
static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(PHRASES.lines().map(|phrase| phrase.trim_end_matches(':'))).ok());

/// Returns the text after the last phrase or heading that states an answer: its formulas if they end the sentence, else
/// the rest of the sentence. None if the text calls the answer wrong.
fn phrase(text: &str) -> Result<Option<&str>, Doubtful> {
    let found = FINDER.iter().flat_map(|finder| finder.find_overlapping_iter(text));
    let place = |found: Match| place(text, found.range(), PHRASES.lines().nth(found.pattern().as_usize())?);
    let mut places: Vec<(usize, usize, bool)> = found.filter_map(place).collect();
    places.sort_unstable();
    for (from, after, is_loose) in places.into_iter().rev().take(32) {
        let rest = clauses::without_lead(&text[after..]);
        match first_word(rest) {
            word if WRONG.contains(&word) => return Ok(None),
            // "The answer is correct" refers to an earlier statement.
            word if RIGHT.contains(&word) => {}
            // "The wrong answer is", "suppose the answer is"
            _ if words::ends_with_clause(&text[..after], include_str!("../read/words/denials.txt")) => {}
            // "If it were so, the answer would be"
            _ if is_loose && (!sentence_of(rest).is_some_and(clauses::holds) || is_supposed(&text[..from])) => {}
            _ if is_item(rest) || is_corrected(rest) => return Err(Doubtful),
            _ if text[from..after].ends_with('\n') && continues(rest) => return Err(Doubtful),
            _ => return Ok(sentence_of(rest)),
        }
    }
    Ok(None)
}

/// Whether the sentence before an answer supposes something.
fn is_supposed(before: &str) -> bool {
    let sentence = before.rsplit(['.', '!', '?', '\n']).next().unwrap_or(before);
    words::says(
        sentence,
        "if\nunless\nhad\nwere\nsuppose\nassuming\nwhether\ndoes\ncould\nwould\nwithout\nperhaps\nmaybe",
    )
}

/// Returns where a phrase begins, and what follows it or the line that is nothing but a heading such as "Final answer".
/// `found` is the place of its words. The last value is set if only a value may follow: "the answer should be 5".
fn place(text: &str, found: Range<usize>, phrase: &str) -> Option<(usize, usize, bool)> {
    let rest = text[found.end..].trim_start_matches(' ');
    if ["nswer:", "NSWER:", "orrect option:", "orrect choice:"].contains(&phrase)
        && let after = rest.trim_start_matches([',', ' '])
        && let Some(length) = clauses::verb(after).filter(|_| !rest.starts_with("is ")).or_else(|| dash(rest))
    {
        return Some((found.start, text.len() - after.len() + length, true));
    }
    let is_heading = phrase.ends_with(':');
    // 回答 is a reply.
    let is_reply = phrase == "答:" && text[..found.start].ends_with(char::is_alphabetic);
    let is_phrase = !is_heading || rest.starts_with([':', '：', '】']);
    let below = heading(text, found.start, rest).filter(|_| is_heading);
    below.or(is_phrase.then_some(found.end)).filter(|_| !is_reply).map(|after| (found.start, after, false))
}

/// Returns the length of a dash or an arrow between "answer" and its value. `Answer - 5` may be negative.
fn dash(text: &str) -> Option<usize> {
    let sign = ["->", "=>", "- ", "– ", "— ", "→", "⇒", "="].into_iter().find(|sign| text.starts_with(sign))?;
    let is_sure = !["- ", "– "].contains(&sign) || choices::lone(text[sign.len()..].lines().next()?).is_some();
    is_sure.then_some(sign.len())
}

/// Returns where the text below a heading begins, if its word is at `from` and `rest` follows.
fn heading(text: &str, from: usize, rest: &str) -> Option<usize> {
    let rest = rest.trim_start_matches([' ', '#', ':', '：', '\r']).strip_prefix('\n')?;
    let near = &text[text.ceil_char_boundary(from.saturating_sub(HEADING))..from];
    let near = near.strip_suffix(|first: char| first.is_alphabetic() && first < '\u{2e80}').unwrap_or(near);
    let line = near.rsplit('\n').next().filter(|line| line.len() < HEADING)?.to_lowercase();
    let mut words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    // "3. Final answer" numbers a part of the text, and "3. Answer" a question.
    let is_number = |word: &str| line.contains("final") && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_heading =
        words.all(|word| include_str!("../read/words/heading.txt").lines().any(|of| of == word) || is_number(word));
    let below = rest.lines().next().unwrap_or_default();
    let is_underlined = below.len() > 1 && ['=', '-'].iter().any(|sign| below.trim_matches(*sign).is_empty());
    let rest = if is_underlined { rest[below.len()..].trim_start_matches('\r').strip_prefix('\n')? } else { rest };
    is_heading.then(|| text.len() - rest.len())
}

/// Whether an answer is an item of a list: "1. 3", "B. Paris or C. London".
fn is_item(rest: &str) -> bool {
    let mut lines = rest.lines();
    let Some((mark, item)) = lines.next().and_then(|line| line.split_once(". ")) else { return false };
    let letter = match mark.as_bytes() {
        [letter @ b'A'..=b'J'] => letter,
        mark => return mark.iter().all(u8::is_ascii_digit) && alone::is_value(item),
    };
    let text = format!(". {item} or {}", lines.next().unwrap_or_default());
    text.split_whitespace().collect::<Vec<_>>().windows(3).any(|words| {
        // "It rules out A and C." ends with a list.
        let is_list = words[..2].iter().any(|word| matches!(word.as_bytes(), [b'A'..=b'J'] | [b'A'..=b'J', b',']));
        let joins = words[1].ends_with([',', ';']) || ["or", "and"].contains(&words[1]);
        let mark = words[2].trim_start_matches('(').as_bytes();
        joins && !is_list && matches!(mark, [other @ b'A'..=b'J', b'.' | b')', ..] if other != letter)
    })
}

/// Whether a sentence near an answer begins with a correction.
fn is_corrected(rest: &str) -> bool {
    let mut sentences = rest[..rest.floor_char_boundary(SEEN)].split(['.', '!', '\n']).skip(1);
    sentences.any(|sentence| words::says(sentence, include_str!("../read/words/corrected.txt")))
}

/// Whether the lines after the value under a heading state another value, or doubt this one.
fn continues(rest: &str) -> bool {
    let following = rest[formula(rest).unwrap_or(0)..].split_once('\n').map_or("", |(_, following)| following);
    let lines = following.lines().filter(|line| !line.trim().is_empty()).take(3);
    rest.starts_with("- ")
        || lines.filter_map(alone::stated).any(|value| {
            let value = alone::last_side(value).unwrap_or(value);
            sentence_of(rest).is_none_or(|stated| !equal(stated, value))
        })
        || following.contains(['?', '？'])
        || words::says(following, include_str!("../read/words/corrections.txt"))
}

const RIGHT: [&str; 8] = ["correct", "right", "valid", "consistent", "reasonable", "verified", "confirmed", "clear"];
const WRONG: [&str; 4] = ["wrong", "incorrect", "invalid", "inconsistent"];

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len())]
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
    let is_end = |after: &str| ends_sentence(after) || ["!", "?"].contains(&after);
    if is_choice && line.get(letter..).is_some_and(is_end) {
        return Some(&line[..letter]);
    }
    let formulas = first_formulas(rest).unwrap_or(0);
    let stated = match ends_sentence(&rest[formulas..]) && formulas > 0 {
        true => &rest[..formulas],
        false => &rest[..formulas + sentence(&rest[formulas..]).len()],
    };
    let stated = stated.trim().trim_end_matches(['*', '.', '。', '．', ':']).trim();
    (!stated.is_empty()).then(|| clauses::value(stated))
}

/// Whether the answer ends here: with the line, the sentence, or a reason.
fn ends_sentence(text: &str) -> bool {
    const REASONS: [&str; 2] = ["since", "because"];
    let rest = text.trim_start_matches(['*', ' ']);
    let after = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    let word = after.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    rest.is_empty()
        || rest.starts_with(['\n', '\r'])
        || ["</", "<|", "です", "입니다", "이다", "번", "」", "。", "．"].iter().any(|tag| rest.starts_with(tag))
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
    const SHORTENED: [&str; 6] = ["i.e", "e.g", "a.m", "p.m", "approx", "vs"];
    let line = text.lines().next().unwrap_or_default();
    let is_end = |(place, _): &(usize, &str)| !SHORTENED.iter().any(|short| line[..*place].ends_with(short));
    let stop = |stop: &str| line.match_indices(stop).find(is_end).map(|(place, _)| place);
    let end = [". ", ".** ", ".* ", "。", "」"].iter().filter_map(|of| stop(of)).min().unwrap_or(line.len());
    &line[..end]
}

fn marked(text: &str) -> Option<&str> {
    const MARK: &str = "####";
    let from = text.rfind(MARK)? + MARK.len();
    let stated = text[from..].lines().next().unwrap_or_default().trim();
    (!stated.is_empty()).then_some(stated)
}
