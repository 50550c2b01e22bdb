//! Faults of traces: loops, mixed scripts, cut-off generations, hollow chains, near-duplicate and known questions.
//!
//! All but scripts read a text as *pieces*: a run of letters, a run of digits, one ideograph, or one other character. White
//! space and case do not count, so that a text that was wrapped anew has the same pieces.

use std::collections::HashMap;

use unicode_script::{Script, UnicodeScript};

pub mod contamination;
pub mod duplicates;

/// Pieces of a cycle, the least times that it occurs in a loop, and the least periods of a loop without other text.
const CYCLE: usize = 16;
const TIMES: u32 = 16;
const PERIODS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Single,
    Space,
}

fn kind(char: char) -> Kind {
    match char {
        '0'..='9' => Kind::Digit,
        'a'..='z' | 'A'..='Z' => Kind::Letter,
        _ if char.is_whitespace() => Kind::Space,
        _ if char.is_ascii() || is_ideograph(char) || !char.is_alphanumeric() => Kind::Single,
        _ => Kind::Letter,
    }
}

/// Whether a character of an East Asian script is a word of its own.
fn is_ideograph(char: char) -> bool {
    matches!(char, '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// The pieces of a text, each with its place in bytes.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.find(|(_, char)| kind(*char) != Kind::Space)?;
        let (of, mut end) = (kind(first), start + first.len_utf8());
        while let Some((at, char)) = rest.next_if(|(_, char)| of != Kind::Single && kind(*char) == of) {
            end = at + char.len_utf8();
        }
        Some((start, &text[start..end]))
    })
}

fn hash(piece: &str) -> u64 {
    let lower = piece.chars().flat_map(char::to_lowercase);
    mixed(lower.fold(0xcbf2_9ce4_8422_2325, |hash, char| (hash ^ u64::from(char)).wrapping_mul(0x0100_0000_01b3)))
}

/// Spreads each bit over all others (the finalizer of MurmurHash3).
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

/// The hashes of all sequences of `n` pieces.
fn grams(pieces: &[u64], n: usize) -> impl Iterator<Item = u64> {
    pieces.windows(n).map(|gram| {
        mixed(gram.iter().fold(0, |hash: u64, piece| (hash.rotate_left(5) ^ piece).wrapping_mul(0x517c_c1b7_2722_0a95)))
    })
}

/// The share of a text's pieces that are in loops. A loop is 16 pieces that occur at least 16 times, or a sequence of any
/// length that follows itself at least twice, in at least 48 pieces.
pub fn repetition(text: &str) -> f64 {
    let pieces: Vec<u64> = pieces(text).map(|(_, piece)| hash(piece)).collect();
    let grams: Vec<u64> = grams(&pieces, CYCLE).collect();
    let mut seen: HashMap<u64, (u32, usize)> = HashMap::with_capacity(grams.len());
    // How many pieces after its last occurrence each gram occurs; 0 at its first.
    let mut gaps = Vec::with_capacity(grams.len());
    for (place, gram) in grams.iter().enumerate() {
        let (times, last) = seen.entry(*gram).or_insert((0, place));
        gaps.push(place - *last);
        (*times, *last) = (*times + 1, place);
    }
    let mut is_looped = vec![false; pieces.len()];
    let mut mark = |from: usize, to: usize| is_looped[from..to].fill(true);
    let mut start = 0;
    for run in gaps.chunk_by(|a, b| a == b) {
        let (gap, end) = (run[0], start + run.len() + CYCLE - 1);
        let pieces = end + gap - start;
        if gap > 0 && pieces >= (PERIODS * gap).max(PERIODS * CYCLE) {
            mark(start - gap, end);
        }
        start += run.len();
    }
    let mut marked = 0;
    for (place, _) in grams.iter().enumerate().filter(|(_, gram)| seen[gram].0 >= TIMES) {
        mark(marked.max(place), place + CYCLE);
        marked = place + CYCLE;
    }
    let looped = is_looped.iter().filter(|is_looped| **is_looped).count();
    looped as f64 / pieces.len().max(1) as f64
}

/// The shares of a text's words by script, the largest first. Each ideograph is a word. Single letters such as x and
/// LaTeX commands do not count as words. Kana count as Han, because Japanese uses both. Latin is left out next to more
/// words of another script: texts in all scripts write formulas, names and code in Latin.
pub fn scripts(text: &str) -> Vec<(&'static str, f64)> {
    let mut words: HashMap<Script, u64> = HashMap::new();
    let mut before = '\0';
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        let of = script(first);
        let (mut letters, opener) = (1, before);
        before = first;
        let Some(of) = of else { continue };
        while let Some(next) = rest.next_if(|next| !is_ideograph(first) && script(*next) == Some(of)) {
            (letters, before) = (letters + 1, next);
        }
        if is_ideograph(first) || (letters > 1 && opener != '\\') {
            *words.entry(of).or_default() += 1;
        }
    }
    let mut words: Vec<(Script, u64)> = words.into_iter().collect();
    words.sort_unstable_by_key(|(script, words)| (std::cmp::Reverse(*words), script.full_name()));
    let is_main = |place: usize| place == 0;
    let mut place = 0..;
    words.retain(|(script, _)| place.next().is_some_and(is_main) || *script != Script::Latin);
    let all = words.iter().map(|(_, words)| words).sum::<u64>() as f64;
    words.into_iter().map(|(script, words)| (script.full_name(), words as f64 / all)).collect()
}

fn script(char: char) -> Option<Script> {
    if char.is_ascii() {
        return char.is_ascii_alphabetic().then_some(Script::Latin);
    }
    match char.script() {
        _ if !char.is_alphabetic() => None,
        Script::Common | Script::Inherited | Script::Unknown => None,
        Script::Hiragana | Script::Katakana => Some(Script::Han),
        script => Some(script),
    }
}

/// Whether a pruned chain has no digit and no formula, although its original has one.
pub fn is_hollow(original: &str, pruned: &str) -> bool {
    let has_any = |text: &str| {
        let is_sign = |char: char| char.is_numeric() || matches!(char, '=' | '$' | '<' | '>');
        text.contains(is_sign) || text.contains("\\(") || text.contains("\\[")
    };
    has_any(original) && !has_any(pruned)
}

/// How a generation ended: whole, at a limit, by a filter or a refusal, or by a fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Finished,
    Limit,
    Withheld,
    Fault,
}

/// The values by which APIs and servers say why a generation ended, in lower case: how it ended, the values with spaces
/// between them, and who writes them.
pub fn finish_reasons() -> impl Iterator<Item = (End, &'static str, &'static str)> {
    let ends =
        [("finished", End::Finished), ("cut off", End::Limit), ("withheld", End::Withheld), ("failed", End::Fault)];
    include_str!("finish_reasons.tsv").lines().filter_map(move |line| {
        let (end, line) = line.split_once('\t')?;
        let (values, written_by) = line.split_once('\t')?;
        Some((ends.iter().find(|(name, _)| *name == end)?.1, values, written_by))
    })
}

/// How a generation with this finish reason ended. None if the reason is not known.
pub fn end(finish_reason: &str) -> Option<End> {
    let reason = finish_reason.trim().to_lowercase();
    let known = finish_reasons().find(|(_, values, _)| values.split(' ').any(|value| value == reason));
    known.map(|(end, ..)| end)
}

/// Whether a generation with this finish reason was cut off. None if the reason is not known.
pub fn is_cut_off(finish_reason: &str) -> Option<bool> {
    end(finish_reason).map(|end| end != End::Finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_depend_on_spaces_between_words() {
        let found: Vec<&str> = pieces("So x1=20,\n时间 été").map(|(_, piece)| piece).collect();
        assert_eq!(found, ["So", "x", "1", "=", "20", ",", "时", "间", "été"]);
    }

    #[test]
    fn loops_are_found_in_every_script_and_lists_are_none() {
        let wait = "Wait, let me check that again, because the answer is not the one that I expected. ";
        assert_eq!(repetition(&wait.repeat(5)), 1.0);
        assert!(repetition(&"让我再检查一遍这个答案是否正确吗。".repeat(4)) > 0.99);
        // Other text between the repetitions.
        let mixed: String = (0..20).map(|n| format!("{wait}Case {n}. ")).collect();
        assert!(repetition(&mixed) > 0.7, "{}", repetition(&mixed));
        let list: String = (0..200).map(|n| format!("f({n}) = {} and f({}) = {}. ", n * n, n + 1, n * n + 2)).collect();
        assert_eq!((repetition(&list), repetition(&wait.repeat(2)), repetition("")), (0.0, 0.0, 0.0));
    }
}
