//! Markdown emphasis.

use std::borrow::Cow;

/// Removes pairs of `*` and `_` that emphasise a part of the text. A sign between two letters or digits, such as in
/// `2**3` and `a_1`, stays.
pub(crate) fn unemphasised(text: &str) -> Cow<'_, str> {
    let is_mark = |c: char| c == '*' || c == '_';
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut removed: Vec<(usize, usize)> = Vec::new();
    let mut place = 0;
    while let Some(from) = text[place..].find(['*', '_', '\n']).map(|found| place + found) {
        let rest = &text[from..];
        if let Some(line) = rest.strip_prefix('\n') {
            // Emphasis ends with its paragraph.
            if line.trim_start_matches(' ').starts_with('\n') {
                open.clear();
            }
            place = from + 1;
            continue;
        }
        let run = &rest[..rest.find(|c| !is_mark(c) || !rest.starts_with(c)).unwrap_or(rest.len())];
        let to = from + run.len();
        let (before, after) = (text[..from].chars().next_back(), text[to..].chars().next());
        let borders = |c: Option<char>, signs: &str| {
            c.is_none_or(|c| c.is_whitespace() || is_mark(c) || !c.is_ascii() || signs.contains(c))
        };
        let touches = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace() && c != '{');
        let recent = open.len().saturating_sub(16);
        let opened = open[recent..].iter().rposition(|(_, mark)| *mark == run).map(|of| recent + of);
        if let Some(of) = opened.filter(|_| touches(before) && borders(after, ".,;:!?)\"'")) {
            removed.extend([(open[of].0, run.len()), (from, run.len())]);
            open.truncate(of);
        } else if run.len() <= 3 && borders(before, "([\"'") && touches(after) {
            open.push((from, run));
        }
        place = to;
    }
    if removed.is_empty() {
        return Cow::Borrowed(text);
    }
    removed.sort_unstable();
    let (mut plain, mut from) = (String::with_capacity(text.len()), 0);
    for (place, length) in removed {
        plain.push_str(&text[from..place]);
        from = place + length;
    }
    plain.push_str(&text[from..]);
    Cow::Owned(plain)
}
