//! Where a response states its answer.

use std::borrow::Cow;

use crate::tags;

/// `\boxed` and `\fbox`, around what they share.
const BOX: &str = "box";
const BOXES: [(&str, &str); 2] = [("\\", "ed"), ("\\f", "")];
/// So many of the last bytes of a response are searched.
const SEARCHED: usize = 65_536;
/// What stands between two answers of a list is no longer than this.
const BETWEEN: usize = 60;

/// The final answer of a response: what stands in its last box behind the chain of thought, else behind its last "answer is"
/// or "answer:", else behind its last `####`. Neighbouring boxes with "and", "or" or a comma between them are a list. None
/// where nothing is stated, and where the chain is cut off.
pub fn answer(response: &str) -> Option<Cow<'_, str>> {
    let behind = tags::behind_chain(response)?;
    let behind = &behind[behind.ceil_char_boundary(behind.len().saturating_sub(SEARCHED))..];
    boxed(behind).or_else(|| phrase(behind).map(Cow::Borrowed)).or_else(|| marked(behind).map(Cow::Borrowed))
}

/// The content of a box and its place: from the command to the end of the argument.
struct Boxed<'a> {
    from: usize,
    to: usize,
    content: &'a str,
}

fn boxed(text: &str) -> Option<Cow<'_, str>> {
    let mut last = boxes_before(text, text.len())?;
    let mut list = vec![last.content];
    while let Some(before) = boxes_before(text, last.from) {
        if before.to > last.from || !joins(&text[before.to..last.from]) {
            break;
        }
        list.push(before.content);
        last = before;
    }
    if list.len() == 1 {
        return Some(Cow::Borrowed(list[0]));
    }
    list.reverse();
    Some(Cow::Owned(list.join(", ")))
}

/// The last box that begins before `end` and holds something.
fn boxes_before(text: &str, mut end: usize) -> Option<Boxed<'_>> {
    loop {
        let found = text[..end].rfind(BOX)?;
        let Some((from, behind)) = BOXES.iter().find_map(|(before, after)| {
            let is_one = text[..found].ends_with(before) && text[found + BOX.len()..].starts_with(after);
            is_one.then(|| (found - before.len(), found + BOX.len() + after.len()))
        }) else {
            end = found;
            continue;
        };
        match argument(&text[behind..]) {
            // A box that is not closed was cut off, with the answer in it.
            None => return None,
            Some((content, length)) if !content.trim().is_empty() => {
                return Some(Boxed { from, to: behind + length, content: content.trim() });
            }
            Some(_) => end = from,
        }
    }
}

/// The argument of a command, and how long it is with its braces.
fn argument(text: &str) -> Option<(&str, usize)> {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    if !rest.starts_with('{') {
        // A word: `\boxed 5`.
        let length = rest.find(|character: char| character.is_whitespace() || "$,;\\".contains(character));
        let length = length.unwrap_or(rest.len());
        return Some((rest[..length].trim_end_matches('.'), start + length));
    }
    let (mut depth, mut escaped) = (0_usize, false);
    for (place, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((&rest[1..place], start + place + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether what stands between two answers makes a list of them.
fn joins(between: &str) -> bool {
    const MARKUP: [&str; 9] = ["\\text", "\\qquad", "\\quad", "\\(", "\\)", "\\[", "\\]", "\\,", "\\ "];
    const WORDS: [&str; 2] = ["and", "or"];
    if between.len() > BETWEEN {
        return false;
    }
    let (mut rest, mut has_comma, mut has_word) = (between, false, false);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "${}*".contains(c));
        if let Some(behind) = MARKUP.iter().find_map(|command| rest.strip_prefix(command)) {
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix([',', ';'])
            && !has_comma
            && !has_word
        {
            (rest, has_comma) = (behind, true);
        } else if let Some(behind) = WORDS.iter().find_map(|word| rest.strip_prefix(word))
            && !has_word
        {
            (rest, has_word) = (behind, true);
        } else {
            return rest.is_empty() && (has_comma || has_word);
        }
    }
}

/// What stands behind the last "answer is" or "answer:".
fn phrase(text: &str) -> Option<&str> {
    let found = [" is", ":", "**:", " is:"].iter().filter_map(|behind| last_of(text, behind)).max()?;
    let rest = text[found..].trim_start_matches(|c: char| c.is_whitespace() || "*:".contains(c));
    let stated = first_formulas(rest).unwrap_or_else(|| sentence(rest));
    let stated = stated.trim().trim_end_matches(['*', '.']).trim();
    (!stated.is_empty()).then_some(stated)
}

/// Behind the last "answer" with this behind it.
fn last_of(text: &str, behind: &str) -> Option<usize> {
    const WORD: &str = "nswer";
    let mut end = text.len();
    loop {
        let from = text[..end].rfind(WORD)?;
        let begins = text[..from].ends_with(['a', 'A']);
        if begins && text[from + WORD.len()..].starts_with(behind) {
            return Some(from + WORD.len() + behind.len());
        }
        end = from;
    }
}

/// The formulas that a text begins with, as long as they are a list.
fn first_formulas(text: &str) -> Option<&str> {
    let mut end = formula(text)?;
    loop {
        let near = &text[end..text.floor_char_boundary(end + BETWEEN + 2)];
        let Some(next) = ["$", "\\(", "\\["].iter().filter_map(|opening| near.find(opening)).min() else { break };
        if !joins(&text[end..end + next]) {
            break;
        }
        end += next + formula(&text[end + next..])?;
    }
    Some(&text[..end])
}

/// The length of the formula that a text begins with, with its marks.
fn formula(text: &str) -> Option<usize> {
    const MARKS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];
    let (opening, closing) = MARKS.iter().find(|(opening, _)| text.starts_with(opening))?;
    let from = opening.len();
    Some(from + text[from..].find(closing)? + closing.len())
}

/// Up to the end of the line, or a full stop that ends a sentence.
fn sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let end = [". ", ".** ", ".* "].iter().filter_map(|stop| line.find(stop)).min().unwrap_or(line.len());
    &line[..end]
}

/// What stands behind the last `####` of a line.
fn marked(text: &str) -> Option<&str> {
    const MARK: &str = "####";
    let from = text.rfind(MARK)? + MARK.len();
    let stated = text[from..].lines().next().unwrap_or_default().trim();
    (!stated.is_empty()).then_some(stated)
}
