//! The boxes of a response.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::find::choices;
use crate::read::words::{List, SEEN};
use crate::read::{units, words};
use crate::{Verdict, compared, equal, judged};

const BOX: &str = "box";
/// Commands for boxes: what is before and after `box`, and how many arguments are before the content. The first one has
/// lost its backslash.
const BOXES: [(&str, &str, usize); 6] =
    [("", "ed{", 0), ("\\", "ed", 0), ("\\f", "", 0), ("\\frame", "", 0), ("\\b", "", 0), ("\\fcolor", "", 2)];
/// The maximum number of boxes skipped because the text denies them.
const DENIED: usize = 8;
/// The maximum bytes between two answers of a list.
pub(crate) const BETWEEN: usize = 60;

/// The content of a box, and its range from the command to the end of the argument.
struct Boxed<'a> {
    from: usize,
    to: usize,
    content: &'a str,
}

/// A box that is cut off, or that contains only part of the answer.
pub(crate) struct Unfinished;

/// The last boxes of a response with nothing but separators between them.
pub(crate) struct Boxes<'a> {
    contents: Vec<&'a str>,
    /// Whether only white space separates some of them. Then the last box counts, unless a list is expected.
    is_spaced: bool,
}

impl<'a> Boxes<'a> {
    /// Returns the answer if nothing is known of the expected one.
    pub(crate) fn answer(&self) -> Option<Cow<'a, str>> {
        let last = *self.contents.last()?;
        let is_one = self.is_spaced || self.are_all(|content| equal(content, last));
        Some(if is_one { Cow::Borrowed(last) } else { Cow::Owned(self.contents.join(", ")) })
    }

    /// Whether all boxes hold what one holds; false if comparing each of them costs much.
    fn are_all(&self, holds: impl Fn(&&str) -> bool) -> bool {
        let different: BTreeSet<&str> = self.contents.iter().copied().collect();
        different.len() <= 4 && different.iter().all(holds)
    }

    pub(crate) fn compared(&self, gold: &str) -> Verdict {
        let Some(last) = self.contents.last() else { return Verdict::Missing };
        let is_equal = |content: &&str| judged(gold, content) == Verdict::Equal;
        let has_list = self.contents.iter().any(|content| content.contains(',') && !content.starts_with('('));
        if self.contents.len() == 1 || self.is_spaced && has_list {
            return judged(gold, last);
        }
        match compared(gold, &self.contents.join(", ")) {
            Verdict::Equal => Verdict::Equal,
            _ if self.are_all(is_equal) => Verdict::Equal,
            _ if self.is_spaced => judged(gold, last),
            _ if is_equal(last) => Verdict::Ambiguous,
            verdict => verdict,
        }
    }
}

/// Returns the last box, and the boxes before it that may be a list with it. None without a box.
pub(crate) fn boxed(text: &str) -> Result<Option<Boxes<'_>>, Unfinished> {
    let Some(last) = boxes_before(text, text.len())? else { return Ok(None) };
    let (mut contents, end, mut is_spaced) = (vec![last.content], last.to, false);
    let (mut first, mut start) = (last.from, last.from);
    while let Some(before) = boxes_before(text, first).unwrap_or(None) {
        let between = text.get(before.to..first).unwrap_or("x");
        let separates = between.contains(char::is_whitespace) || between.contains("quad");
        match joins(between) {
            Some(true) => {}
            Some(false) if separates && !between.contains('*') => is_spaced = true,
            _ => break,
        }
        contents.push(before.content);
        first = before.from;
        start = if is_spaced { start } else { first };
    }
    // The letter of a choice may be followed by its text.
    let is_choice = || choices::lone(contents[0]).is_some_and(|letter| letter.is_ascii_uppercase());
    let joined = if start < last.from { &contents[..] } else { &contents[..1] };
    if is_part(&text[..start], &text[end..], joined) && !(start == last.from && is_choice()) {
        return Err(Unfinished);
    }
    if is_spaced && is_part(&text[..first], &text[end..], &contents) {
        contents.truncate(1);
    }
    contents.reverse();
    Ok(Some(Boxes { contents, is_spaced }))
}

fn boxes_before(text: &str, mut end: usize) -> Result<Option<Boxed<'_>>, Unfinished> {
    // `\boxed{5}\%` is 5 percent.
    const SIGNS: [&str; 6] = ["\\%", "\\,\\%", "%", "^\\circ", "^{\\circ}", "°"];
    let mut denied = 0;
    loop {
        let Some(found) = text[..end].rfind(BOX) else { return Ok(None) };
        let Some((from, start)) = BOXES.iter().find_map(|kind| opened(text, found, kind)) else {
            end = found;
            continue;
        };
        end = from;
        let (content, length) = argument(&text[start..]).ok_or(Unfinished)?;
        if content.trim().is_empty() {
            continue;
        }
        if is_denied(&text[..from]) || is_called_wrong(&text[start + length..]) {
            denied += 1;
            if denied > DENIED {
                return Err(Unfinished);
            }
            continue;
        }
        let after = &text[start + length..];
        let signed = SIGNS.iter().find_map(|sign| after.trim_start_matches(' ').strip_prefix(sign));
        let to = text.len() - signed.unwrap_or(after).len();
        let content = if signed.is_some() { &text[start..to] } else { content };
        return Ok(Some(Boxed { from, to, content: content.trim() }));
    }
}

/// Returns where a box begins, and where its content does with its braces. `found` is the place of `box`.
fn opened(text: &str, found: usize, (before, after, arguments): &(&str, &str, usize)) -> Option<(usize, usize)> {
    let from = text[..found].strip_suffix(before)?.len();
    let mut rest = text[found + BOX.len()..].strip_prefix(after.trim_end_matches('{'))?;
    if after.ends_with('{')
        && (!rest.starts_with('{') || text[..from].ends_with(|c: char| c.is_alphanumeric() || c == '\\'))
    {
        return None;
    }
    while let Some((_, after)) = rest.strip_prefix('[').and_then(|option| option.split_once(']')) {
        rest = after;
    }
    for _ in 0..*arguments {
        rest = &rest[words::group(rest, true).filter(|_| rest.starts_with('{'))?.len() + 2..];
    }
    Some((from, text.len() - rest.len()))
}

static DENIALS: List = List::new(|| include_str!("../read/words/not_before.txt").lines().collect());

/// Whether the words before a box deny it: "it is not", "the answer can't be", "no es".
fn is_denied(before: &str) -> bool {
    let before = before.trim_end_matches(|c: char| c.is_whitespace() || "$*(\\[".contains(c));
    if ["why not", "Why not"].iter().any(|question| before.ends_with(question)) {
        return false;
    }
    before == "not" || DENIALS.iter().any(|denial| before.ends_with(denial))
}

/// `\boxed{5} is not the answer`, `\boxed{5} and \boxed{6} are both wrong`
fn is_called_wrong(after: &str) -> bool {
    let after = after.trim_start_matches(|c: char| c.is_whitespace() || "$*)]}\\".contains(c));
    let clause = after[..after.floor_char_boundary(BETWEEN)].split(['.', ';', '\n']).next().unwrap_or_default();
    clause.contains(char::is_alphabetic) && words::says(clause, include_str!("../read/words/not_after.txt"))
}

/// Whether a box is only part of the statement: `x = -\boxed{5}`, `10^{\boxed{3}}`, `\boxed{5}` million, `\boxed{5}` or
/// 6.
fn is_part(before: &str, after: &str, contents: &[&str]) -> bool {
    let before = &before[before.ceil_char_boundary(before.len().saturating_sub(SEEN))..];
    let after = &after[..after.floor_char_boundary(SEEN)];
    let line = after.lines().next().unwrap_or_default();
    let next = line.trim_start_matches(|c: char| c.is_whitespace() || "$*".contains(c));
    let next = ["\\)", "\\]"].iter().find_map(|closing| next.strip_prefix(closing)).unwrap_or(next);
    let word = next.trim_start().trim_start_matches("\\text{").trim_start();
    let word = word.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    units::multiplies(word)
        || goes_on(next, word)
        || is_cut(line, word)
        || continues(before, next, contents)
        || match formula(before, line) {
            Some((left, right)) => !ends_side(left) || !begins_side(right),
            None => is_part_of_prose(before, line),
        }
}

/// Whether a box is the beginning of a number or product: `\boxed{12},000`, `\boxed{12}k`.
fn is_cut(line: &str, word: &str) -> bool {
    let rest = line.trim_start_matches('$');
    let mut signs = "{,}|,\\!|,|.|\\,| |-|–|:".split('|');
    let digits = signs.find_map(|sign| rest.strip_prefix(sign)).unwrap_or(rest);
    let is_factor = word.len() == 1 && rest.starts_with(word) && (word == "K" || !units::is_known(word));
    is_factor || digits.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether boxes continue a list, a ratio or a term: `\boxed{2} + \boxed{9}`, `13 and \boxed{12}`, `x = 13 or x = \boxed{12}`, `(5, \boxed{12})`,
/// `5:\boxed{12}`, `1, \boxed{3}, \boxed{5}`.
fn continues(before: &str, after: &str, contents: &[&str]) -> bool {
    let line = before.rsplit('\n').next().unwrap_or(before);
    let plain = line.replace("\\(", "").replace("\\)", "").replace([' ', '$'], "");
    let is_digit = |c: char| c.is_ascii_digit();
    let after_number = |joint: &str| plain.strip_suffix(joint).is_some_and(|left| left.ends_with(is_digit));
    let are_alike = contents.len() > 1 && contents.iter().all(|content| *content == contents[0]);
    let is_tuple = |inner: &str| inner.chars().all(|c| is_digit(c) || c == ',') && (!inner.is_empty() || are_alike);
    let is_term = |sign: &str| {
        let left = plain.trim_end_matches(['(', '[', '\\']).strip_suffix(sign);
        left.is_some_and(|left| left.contains(BOX) && left.trim_end_matches([')', ']', '\\']).ends_with('}'))
    };
    r"+|-|−|×|*|/|:|>|<|≠|\ne|\neq|\times|\cdot".split('|').any(is_term)
        || ["and", "or", "andx=", "orx="].iter().any(|joint| after_number(joint))
        || line.ends_with(':') && after_number(":")
        || contents.len() > 1 && after_number(",")
        || after.starts_with(')') && plain.rsplit_once('(').is_some_and(|(_, inner)| is_tuple(inner))
}

fn goes_on(next: &str, word: &str) -> bool {
    let rest = match (next.strip_prefix(", "), word) {
        (Some(rest), _) => rest,
        (None, "or" | "and") => next.split_once(word).map_or("", |(_, rest)| rest),
        _ => return false,
    };
    let rest = rest.trim_start_matches(|c: char| c == ' ' || "}$-".contains(c));
    // "and 3 of them" counts something else.
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    rest.starts_with("a half") || after.len() < rest.trim_start().len() && !after.starts_with(char::is_alphabetic)
}

fn formula<'a>(before: &'a str, after: &'a str) -> Option<(&'a str, &'a str)> {
    let line = before.rsplit('\n').next().unwrap_or(before);
    let inner = [("\\(", "\\)"), ("\\[", "\\]")].iter().find_map(|(opening, closing)| {
        let from = line.rfind(opening)?;
        let inner = &line[from + opening.len()..];
        (!inner.contains(closing)).then(|| (inner, after.split(closing).next().unwrap_or(after)))
    });
    let in_dollars = || {
        let is_open = line.matches('$').count() % 2 == 1 || line.ends_with("$$");
        let right = after.find('$').filter(|_| is_open).map(|end| &after[..end])?;
        Some((line.rsplit('$').next().unwrap_or(line), right))
    };
    let is_prose = |left: &str| {
        left.split_whitespace().any(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic()))
    };
    inner.or_else(in_dollars).filter(|(left, _)| !is_prose(left))
}

fn ends_side(left: &str) -> bool {
    static ENDS: List = List::new(|| include_str!("../read/words/before_formula.txt").lines().collect());
    let left = left.trim_end();
    let opened = left.strip_suffix('{').map(|left| left.is_empty() || left.ends_with("bf") || left.ends_with("text"));
    left.is_empty()
        || opened == Some(true)
        || ENDS.iter().any(|end| left.ends_with(end))
        || (left.ends_with('}') && left.rfind("\\text").is_some_and(|from| !left[from..left.len() - 1].contains('}')))
}

fn begins_side(right: &str) -> bool {
    static BEGINNINGS: List = List::new(|| include_str!("../read/words/after_formula.txt").lines().collect());
    let spaces = ["\\,", "\\;", "\\ ", "~"];
    let right = spaces.iter().fold(right.trim_start(), |right, space| right.trim_start_matches(space).trim_start());
    let word = right.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    right.is_empty()
        || right.starts_with(',')
        || units::is_phrase(word)
        || BEGINNINGS.iter().any(|beginning| right.starts_with(beginning))
}

/// Whether a box outside of formulas is part of one. A sign followed by a space is a dash or a list marker.
fn is_part_of_prose(before: &str, after: &str) -> bool {
    static BEFORE: List = List::new(|| include_str!("../read/words/before_box.txt").lines().collect());
    static AFTER: List = List::new(|| include_str!("../read/words/after_box.txt").lines().collect());
    let near = before.trim_end();
    BEFORE.iter().any(|sign| near.ends_with(sign))
        || before.ends_with(|c: char| c.is_ascii_digit() || "+-/−±√½⅓⅔¼¾×÷".contains(c))
        || AFTER.iter().any(|sign| after.trim_start_matches([' ', '\t']).starts_with(sign))
}

fn argument(text: &str) -> Option<(&str, usize)> {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    if !rest.starts_with('{') {
        // A word: `\boxed 5`.
        let length = rest.find(|character: char| character.is_whitespace() || "$,;\\".contains(character));
        let length = length.unwrap_or(rest.len());
        return Some((rest[..length].trim_end_matches('.'), start + length));
    }
    words::group(rest, true).map(|content| (content, start + content.len() + 2))
}

/// Whether a comma, "and" or "or" joins two answers of a list. None if something else is between them.
pub(crate) fn joins(between: &str) -> Option<bool> {
    const MARKUP: &str = r"\text|\qquad|\quad|\(|\)|\[|\]|\,|\;|\ ";
    const WORDS: [&str; 4] = ["and", "or", "和", "与"];
    if between.len() > BETWEEN {
        return None;
    }
    let (mut rest, mut has_comma, mut has_word) = (between, false, false);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "${}*~".contains(c));
        if let Some(after) = MARKUP.split('|').find_map(|command| rest.strip_prefix(command)) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix([',', ';', '、', '，'])
            && !has_comma
            && !has_word
        {
            (rest, has_comma) = (after, true);
        } else if let Some(after) = WORDS.iter().find_map(|word| rest.strip_prefix(word))
            && !has_word
        {
            (rest, has_word) = (after, true);
        } else {
            return rest.is_empty().then_some(has_comma || has_word);
        }
    }
}
