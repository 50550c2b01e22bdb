//! Answers to questions with choices: the letter of a choice, the letter with its text, several letters.

use super::{Verdict, compared, words};

/// A letter with the text of its choice, such as `B. 12`.
struct Lettered<'a> {
    letter: char,
    content: &'a str,
    /// Whether the text is of this choice alone.
    is_sure: bool,
    /// `A) 5` may be a part of an enumeration.
    is_enumerated: bool,
}

/// Compares answers of which one names choices by their letters. None if neither does.
pub(crate) fn compare(gold: &str, found: &str) -> Option<Verdict> {
    let verdict = |is_equal| Some(if is_equal { Verdict::Equal } else { Verdict::Ambiguous });
    match (lone(gold), lone(found), lettered(gold), lettered(found)) {
        (Some(gold_letter), Some(letter), ..) if gold_letter != letter => {
            let alike = gold_letter.eq_ignore_ascii_case(&letter) && gold_letter.is_ascii_uppercase();
            if alike { verdict(gold.contains('(')) } else { None }
        }
        (Some(gold_letter), Some(letter), ..) => verdict(gold_letter == letter),
        (Some(letter), _, _, Some(with)) | (_, Some(letter), Some(with), _) if letter == with.letter => {
            verdict(with.is_sure)
        }
        (None, None, Some(gold), Some(with)) => {
            let is_equal = gold.letter == with.letter
                && (gold.content == with.content || compared(gold.content, with.content) == Verdict::Equal);
            if is_equal { Some(Verdict::Equal) } else { Some(Verdict::Different) }
        }
        (None, _, None, Some(with)) => alone(&with, gold),
        (_, None, Some(with), None) => alone(&with, found),
        _ => {
            let ((expected, is_list), (stated, of_list)) = (letters(gold)?, letters(found)?);
            let is_either = [gold, found].iter().any(|text| text.contains("or"));
            (expected == stated && (is_list || of_list)).then_some(()).and_then(|()| verdict(!is_either))
        }
    }
}

/// Compares the text of a choice with an answer that does not name the letter.
fn alone(with: &Lettered<'_>, other: &str) -> Option<Verdict> {
    let is_equal = compared(other, with.content) == Verdict::Equal;
    let verdict = if with.is_sure && !with.is_enumerated { Verdict::Equal } else { Verdict::Ambiguous };
    is_equal.then_some(verdict)
}

fn bare(text: &str) -> String {
    let mut plain = text.to_string();
    for markup in ["\\textbf{", "\\text{", "\\mathbf{", "\\mathrm{", "\\textrm{", "\\ ", "\\,"] {
        plain = plain.replace(markup, " ");
    }
    plain.replace(['$', '*', '{', '}', '(', ')'], " ")
}

fn named(text: &str) -> &str {
    let text = text.trim();
    let name = ["Option ", "option ", "Choice ", "choice ", "选项"].iter().find_map(|name| text.strip_prefix(name));
    name.unwrap_or(text).trim()
}

/// Returns the letter that is the whole answer.
fn lone(text: &str) -> Option<char> {
    if text.len() > 40 {
        return None;
    }
    let plain = bare(text);
    let mut letters = named(&plain).trim_end_matches(['.', '。', ':']).chars();
    letters.next().filter(|letter| matches!(letter.to_ascii_uppercase(), 'A'..='J') && letters.next().is_none())
}

/// Whether a text begins with the letter of a choice and the choice's text.
pub(crate) fn is_lettered(text: &str) -> bool {
    lettered(text).is_some()
}

fn lettered(text: &str) -> Option<Lettered<'_>> {
    let text = named(text.trim_start_matches(['$', ' ']));
    let inner = ["\\text{", "\\textbf{", "\\mathbf{", "\\mathrm{"].iter().find_map(|of| text.strip_prefix(of));
    let is_bracketed = inner.is_none() && text.starts_with('(');
    let start = if is_bracketed { &text[1..] } else { inner.unwrap_or(text) };
    let mut characters = start.chars();
    let letter = characters.next().filter(|letter| matches!(letter, 'A'..='J' | 'a'..='e'))?;
    let mark = characters.next().filter(|mark| ".):、．：".contains(*mark) && (!is_bracketed || *mark == ')'))?;
    let rest = characters.as_str().strip_prefix('}').unwrap_or(characters.as_str());
    let content = rest.trim_start_matches("\\ ").trim_start_matches([' ', '~', '$', '}']).trim_end_matches('$').trim();
    let is_closed = content.matches('{').count() >= content.matches('}').count();
    let content = if is_closed { content } else { content.trim_end_matches('}') };
    let spaced = rest.starts_with([' ', '~', '\\', '$']) || !mark.is_ascii();
    // `(A) + 5` may be a sum.
    let is_text = content.starts_with(|c: char| c.is_alphanumeric() || (c == '-' && !is_bracketed))
        || ["\\frac", "\\sqrt", "\\text", "\\$"].iter().any(|command| content.starts_with(command));
    let is_enumerated = mark == ')' && !is_bracketed;
    (spaced && is_text).then(|| Lettered { letter, content, is_sure: is_settled(content, letter), is_enumerated })
}

/// Whether a choice's text names no other choice and does not reject this one.
fn is_settled(content: &str, letter: char) -> bool {
    let plain = bare(content);
    let mut parts = plain.split_whitespace().peekable();
    let first = parts.peek().map_or("", |word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let rejects = ["is", "isn't", "or", "and", "not", "are", "but", "if"].contains(&first);
    let mut names_other = false;
    while let Some(part) = parts.next() {
        let word = part.trim_matches(|c: char| !c.is_alphanumeric());
        let is_article = word == "A" && parts.peek().is_some_and(|next| next.starts_with(|c: char| c.is_lowercase()));
        names_other |= matches!(word.as_bytes(), [b'A'..=b'J']) && !word.starts_with(letter) && !is_article;
    }
    !rejects && !names_other && !(words::deny(&plain) && plain.contains("wrong") || plain.contains("incorrect"))
}

/// Returns the letters of several choices in order, and whether they are a list: `A, B, D` or `ABD`.
fn letters(text: &str) -> Option<(Vec<u8>, bool)> {
    const LETTERS: std::ops::RangeInclusive<u8> = b'A'..=b'F';
    if text.len() > 100 {
        return None;
    }
    let plain = bare(text).replace("and", ",").replace("or", ",").replace(['&', ';', '、', '，', '和'], ",");
    let parts: Vec<&str> = plain.split(',').map(|part| named(part).trim_end_matches(['.', '。'])).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut letters = parts.concat().into_bytes();
    let is_list = parts.len() > 1;
    let are_choices = letters.len() > 1 && letters.iter().all(|letter| LETTERS.contains(letter));
    if !are_choices || is_list && letters.len() != parts.len() || !is_list && !letters.is_sorted_by(|a, b| a < b) {
        return None;
    }
    letters.sort_unstable();
    Some((letters, is_list))
}
