//! Answers to questions with choices: the letter of a choice, the letter with its text, several letters.

use crate::{Verdict, compared};

/// Compares answers of which one names choices by their letters. None if neither does.
pub(crate) fn compare(gold: &str, found: &str) -> Option<Verdict> {
    if ![gold, found].iter().any(|text| text.bytes().any(|byte| matches!(byte, b'A'..=b'J'))) {
        return None;
    }
    let verdict = |is_sure: bool| if is_sure { Verdict::Equal } else { Verdict::Ambiguous };
    // `A) 5` may be a part of an enumeration.
    let alone = |with: &str, letter: char, text: &str, other: &str| {
        let is_sure = with.as_bytes().get(1) != Some(&b')') && letter != 'I' && is_settled(text, letter);
        (compared(other, text) == Verdict::Equal).then(|| verdict(is_sure))
    };
    match (lone(gold), lone(found), lettered(gold), lettered(found)) {
        (Some(expected), Some(letter), ..) if expected == letter => Some(Verdict::Equal),
        // `b` may be a variable, but not if `(B)` is expected.
        (Some(expected), Some(letter), ..) if expected == letter.to_ascii_uppercase() => {
            Some(verdict(gold.contains('(')))
        }
        (Some(letter), _, _, Some((of, text))) | (_, Some(letter), Some((of, text)), _) if letter == of => {
            Some(verdict(is_settled(text, letter)))
        }
        (_, _, Some((expected, text)), Some((letter, of))) => {
            Some(if expected == letter { compared(text, of) } else { Verdict::Different })
        }
        (None, _, None, Some((letter, text))) => alone(found, letter, text, gold),
        (_, None, Some((letter, text)), None) => alone(gold, letter, text, found),
        _ => {
            let ((expected, is_list), (stated, of_list)) = (letters(gold)?, letters(found)?);
            let is_either = [gold, found].iter().any(|text| text.contains("or"));
            (expected == stated && (is_list || of_list)).then(|| verdict(!is_either))
        }
    }
}

fn bare(text: &str) -> String {
    let mut plain = text.to_string();
    for markup in ["\\textbf{", "\\text{", "\\mathbf{", "\\mathrm{", "\\textrm{", "\\ ", "\\,", "\\;"] {
        plain = plain.replace(markup, " ");
    }
    plain.replace(['$', '*', '{', '}', '(', ')', '\\'], " ")
}

fn named(text: &str) -> &str {
    let text = text.trim();
    const NAMES: &str = "Option |option |the letter |letter |Options |options |Choice |choice |Choices |choices |Both |both |选项|选择|选|a letra |la letra |letra |la opción |opción |la ";
    NAMES.split('|').find_map(|name| text.strip_prefix(name)).unwrap_or(text).trim()
}

/// Removes quotes and brackets around a text: `[A]`, `'A'`.
fn unquoted(text: &str) -> &str {
    const PAIRS: [&str; 10] = ["[]", "<>", "''", "\"\"", "``", "‘’", "“”", "«»", "【】", "「」"];
    let inner = PAIRS.iter().find_map(|pair| {
        let mut marks = pair.chars();
        text.trim().strip_prefix(marks.next()?)?.strip_suffix(marks.next()?)
    });
    inner.map_or(text, unquoted)
}

/// Returns the letter that is the whole answer.
pub(crate) fn lone(text: &str) -> Option<char> {
    let is_other = text.len() > 40 || text.bytes().any(|byte| byte.is_ascii_digit());
    let plain = if is_other { return None } else { bare(unquoted(text)) };
    let plain = unquoted(named(&plain));
    let mut letters = named(plain).trim_end_matches(['.', '。', ':']).chars();
    letters.next().filter(|letter| matches!(letter.to_ascii_uppercase(), 'A'..='J') && letters.next().is_none())
}

/// Returns the letter of a choice and its text: B and 12 of `B. 12`.
pub(crate) fn lettered(text: &str) -> Option<(char, &str)> {
    let text = named(text.trim_start_matches('$'));
    let inner = ["\\text{", "\\textbf{", "\\mathbf{", "\\mathrm{"].iter().find_map(|of| text.strip_prefix(of));
    let inner = inner.unwrap_or(text);
    let opened = inner.strip_prefix('(');
    let mut rest = opened.unwrap_or(inner).chars();
    let letter = rest.next().filter(|letter| matches!(letter, 'A'..='J'))?;
    let mark = rest.next().filter(|mark| ".):、．：".contains(*mark) && (opened.is_none() || *mark == ')'))?;
    let rest = rest.as_str().trim_start_matches('}');
    let is_spaced = rest.starts_with([' ', '~', '\\', '$']) || !mark.is_ascii();
    let text = rest.trim_start_matches("\\ ").trim_start_matches([' ', '~', '$', '}']).trim_end_matches('$').trim();
    let is_closed = text.matches('{').count() >= text.matches('}').count();
    let text = if is_closed { text } else { text.trim_end_matches('}') };
    // `(A) + 5` may be a sum.
    let is_text = text.starts_with(|c: char| c.is_alphanumeric() || (c == '-' && opened.is_none()))
        || mark == '.' && text.starts_with(['(', '\\'])
        || ["\\frac", "\\sqrt", "\\text", "\\$"].iter().any(|command| text.starts_with(command));
    let is_list = mark == '、' && text.chars().all(|c| matches!(c, 'A'..='J' | '、' | ' '));
    let is_nested = is_list || matches!(text.as_bytes(), [b'A'..=b'Z', b'.' | b')' | b':', ..]);
    (is_spaced && is_text && !is_nested).then_some((letter, text))
}

/// Whether a choice's text names no other choice and does not reject this one.
pub(crate) fn is_settled(text: &str, letter: char) -> bool {
    const REJECTING: [&str; 9] = ["is", "isn't", "or", "and", "not", "are", "but", "if", "no"];
    let plain = bare(text);
    let words: Vec<&str> =
        plain.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
    let is_article = |place: usize| {
        words[place] == "A" && words.get(place + 1).is_some_and(|next| next.starts_with(char::is_lowercase))
    };
    // "I and II" names no choices.
    let is_other = |(place, word): (usize, &&str)| {
        let is_numeral = *word == "I" && letter < 'G';
        matches!(word.as_bytes(), [b'A'..=b'J']) && !word.starts_with(letter) && !is_article(place) && !is_numeral
    };
    !words.first().is_some_and(|first| REJECTING.contains(first))
        && !words.iter().any(|word| ["wrong", "incorrect"].contains(word))
        && !words.iter().enumerate().any(is_other)
}

/// Whether a text is a list of choices: `A and B`.
pub(crate) fn are_several(text: &str) -> bool {
    letters(text).is_some_and(|(_, is_list)| is_list)
}

/// Returns the letters of several choices in order, and whether they are a list: `A, B, D` or `ABD`.
fn letters(text: &str) -> Option<(Vec<u8>, bool)> {
    let plain = if text.len() > 100 { return None } else { bare(text) };
    let plain = plain.replace("and", ",").replace("or", ",").replace(['&', ';', '、', '，', '和'], ",");
    let parts = named(&plain).split(',').map(|part| named(part).trim_end_matches(['.', '。']));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let letters = match parts.as_slice() {
        [spaced] if spaced.split(' ').all(|letter| letter.len() == 1) => spaced.replace(' ', ""),
        parts => parts.concat(),
    };
    let (mut letters, is_list) = (letters.into_bytes(), parts.len() > 1);
    // Letters such as G and H name other things: boy and girl, heads and tails.
    let are_choices = letters.len() > 1 && letters.iter().all(|letter| (b'A'..=b'F').contains(letter));
    if !are_choices || is_list && letters.len() != parts.len() || !is_list && !letters.is_sorted_by(|a, b| a < b) {
        return None;
    }
    letters.sort_unstable();
    Some((letters, is_list || parts[0].contains(' ') || named(&plain) != plain.trim()))
}
