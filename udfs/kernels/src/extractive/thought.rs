//! The direct thought: what is asked, what is given, and what must be reached.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::lexicon::Lexicon;
use super::words::{Form, Token, tokens};
use crate::code_fences::{Blocks, Turn};

const GOAL: &str = "goal: ";
const GIVEN: &str = "given: ";
const THROUGH: &str = "through: ";
const REACH: &str = "reach: ";

/// The most entries of a list.
const MOST_ENTRIES: usize = 24;
/// The most bytes of a quoted sentence.
const MOST_BYTES: usize = 240;

/// What a line of a thought says about its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// The question gives them.
    Known,
    /// The way leads through them.
    Through,
    /// They must be reached.
    Reach,
}

/// The direct thought in up to four lines: the sentence that asks (`goal:`), the values and names of the question
/// (`given:`), those that the answer adds on its way (`through:`), and what must be reached (`reach:`): the names in
/// the answer's fenced code, else its last sentence. A line without content is left out. None if the answer is blank.
pub fn write(question: &str, answer: &str) -> Option<String> {
    let mut lexicon = Lexicon::default();
    let asked = read(&mut lexicon, question);
    let answered = read(&mut lexicon, answer);
    let known: HashSet<u32> = asked.iter().map(|(id, _)| *id).collect();
    let code = fenced(answer);
    let in_code = |token: &Token| is_inside(&code, token.span.start);
    let end = sentences(answer).pop().unwrap_or(0..answer.len());
    let at_end: HashSet<u32> =
        answered.iter().filter(|(_, token)| end.contains(&token.span.start)).map(|(id, _)| *id).collect();

    let is_named = |token: &Token| matches!(token.form, Form::Value | Form::Name);
    let given = entries(question, &asked, |_, token| is_named(token), next_word).join(", ");
    let is_of_program = |id: u32, token: &Token| {
        let is_named = token.is_set || token.form == Form::Name;
        is_named && in_code(token) && !known.contains(&id) && lexicon.weight(id) > 0.0
    };
    let program = entries(answer, &answered, is_of_program, |_, token| token.span.end);
    let program = program.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let is_on_the_way =
        |id: u32, token: &Token| is_named(token) && !in_code(token) && !known.contains(&id) && !at_end.contains(&id);
    let through = entries(answer, &answered, is_on_the_way, |_, token| token.span.end).join(", ");
    let reach = if program.is_empty() { end_of_line(answer[end].trim()) } else { program };
    if reach.is_empty() {
        return None;
    }
    let goal = start_of_line(goal(question, &answered, &mut lexicon));
    let lines = [(GOAL, goal), (GIVEN, given), (THROUGH, through), (REACH, reach)];
    let written = lines.iter().filter(|(_, text)| !text.is_empty()).map(|(label, text)| format!("{label}{text}"));
    Some(written.collect::<Vec<_>>().join("\n"))
}

/// The lines of a thought with what they say. A thought from elsewhere is read too: its last line is what must be
/// reached, the lines before it are the way.
pub fn lines(thought: &str) -> impl Iterator<Item = (Says, &str)> {
    let mut rest = thought.lines().filter(|line| !line.trim().is_empty()).peekable();
    std::iter::from_fn(move || {
        let line = rest.next()?;
        let labelled = [(GOAL, Says::Known), (GIVEN, Says::Known), (THROUGH, Says::Through), (REACH, Says::Reach)];
        let found = labelled.into_iter().find_map(|(label, part)| Some((part, line.strip_prefix(label)?)));
        let unlabelled = if rest.peek().is_none() { Says::Reach } else { Says::Through };
        Some(found.unwrap_or((unlabelled, line)))
    })
}

fn read(lexicon: &mut Lexicon, text: &str) -> Vec<(u32, Token)> {
    tokens(text).map(|token| (lexicon.intern(text, &token), token)).collect()
}

/// The distinct words that are wanted, in order and each up to where `end` says; of too many, the most frequent ones.
fn entries(
    text: &str,
    words: &[(u32, Token)],
    wanted: impl Fn(u32, &Token) -> bool,
    end: impl Fn(&str, &Token) -> usize,
) -> Vec<String> {
    let mut places = HashMap::new();
    let mut found: Vec<(usize, Range<usize>)> = Vec::new();
    for (id, token) in words.iter().filter(|(id, token)| wanted(*id, token)) {
        let place = *places.entry(*id).or_insert(found.len());
        if place == found.len() {
            found.push((0, token.span.start..end(text, token)));
        }
        found[place].0 += 1;
    }
    if found.len() > MOST_ENTRIES {
        found.sort_by_key(|(count, span)| (Reverse(*count), span.start));
        found.truncate(MOST_ENTRIES);
        found.sort_by_key(|(_, span)| span.start);
    }
    found.into_iter().map(|(_, span)| text[span].to_string()).collect()
}

/// The end of the word that follows a value directly, as in `6 boys`, else the value's own end.
fn next_word(text: &str, token: &Token) -> usize {
    let end = token.span.end;
    let after = &text[end..];
    let names_it = |next: &Token| {
        let close = matches!(&after[..next.span.start], " " | "-");
        token.form == Form::Value && next.form == Form::Word && next.span.len() > 2 && close
    };
    tokens(after).next().filter(names_it).map_or(end, |next| end + next.span.end)
}

/// The last sentence outside code that ends as a question, else the one that shares the most words with the answer.
fn goal<'a>(question: &'a str, answered: &[(u32, Token)], lexicon: &mut Lexicon) -> &'a str {
    let code = fenced(question);
    let spans = sentences(question).into_iter().filter(|span| !is_inside(&code, span.start));
    let sentences: Vec<&str> = spans.map(|span| question[span].trim()).collect();
    if let Some(asks) = sentences.iter().rfind(|sentence| sentence.ends_with(['?', '？', '؟'])) {
        return asks;
    }
    let answered: HashSet<u32> = answered.iter().map(|(id, _)| *id).collect();
    let mut best = ("", 0.0);
    for sentence in sentences {
        let mut words: Vec<u32> = read(lexicon, sentence).into_iter().map(|(id, _)| id).collect();
        // In one order, because sums of other orders differ in their last bits, and so in who wins a tie.
        words.sort_unstable();
        words.dedup();
        let shared: f64 = words.iter().filter(|id| answered.contains(id)).map(|id| lexicon.weight(*id)).sum();
        if shared >= best.1 {
            best = (sentence, shared);
        }
    }
    best.0
}

/// Where code stands in a text: in its fenced blocks, the last of which may be open.
fn fenced(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut blocks, mut open) = (Blocks::default(), None);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        match blocks.read(line) {
            Some(Turn::Opens(_)) => open = open.or(Some(at)),
            Some(Turn::Closes) => found.extend(open.take().map(|from| from..at)),
            None => {}
        }
    }
    found.extend(open.map(|from| from..text.len()));
    found
}

/// Whether a place stands in one of ascending spans.
fn is_inside(spans: &[Range<usize>], place: usize) -> bool {
    let next = spans.partition_point(|span| span.end <= place);
    spans.get(next).is_some_and(|span| span.start <= place)
}

/// The sentences that hold a word: cut at line ends, after `.`, `!` and `?` before white space, and after the forms
/// of them that need none.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut scalars = text.char_indices().peekable();
    while let Some((at, scalar)) = scalars.next() {
        let before_space = scalars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = match scalar {
            '\n' | '。' | '！' | '？' | '।' => true,
            '.' | '!' | '?' | '؟' => before_space,
            _ => false,
        };
        if ends {
            let end = at + scalar.len_utf8();
            found.push(start..end);
            start = end;
        }
    }
    found.push(start..text.len());
    found.retain(|span| tokens(&text[span.clone()]).next().is_some());
    found
}

/// A sentence on one line, without its end if it is long.
fn start_of_line(sentence: &str) -> String {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= MOST_BYTES { line } else { format!("{} …", &line[..line.floor_char_boundary(MOST_BYTES)]) }
}

/// A sentence on one line, without its start if it is long: what it comes to stands at its end.
fn end_of_line(sentence: &str) -> String {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= MOST_BYTES {
        line
    } else {
        format!("… {}", &line[line.ceil_char_boundary(line.len() - MOST_BYTES)..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_says_what_is_asked_given_and_reached() {
        let question = "A club has 6 boys and 8 girls.  We send 6 people. In how many ways can I pick them? Thanks.";
        let answer = "There are 14 of them, so C(14, 6).\n\n\\[ \\frac{2,162,160}{720} = 3003 \\]\n\nSo the number is\n\\[\n\\boxed{3003}\n\\]";
        assert_eq!(
            write(question, answer).unwrap(),
            "goal: In how many ways can I pick them?\ngiven: 6 boys, 8 girls\nthrough: 14, 2,162,160, 720\nreach: \\boxed{3003}"
        );
        assert_eq!(write("", "42").unwrap(), "reach: 42");
        assert_eq!(write("What is it?", "∞").unwrap(), "goal: What is it?\nreach: ∞");
        assert_eq!(write("What is it?", " \n"), None);
    }

    #[test]
    fn code_is_reached_by_its_names() {
        let question = "Write `row_sum`.\n```python\nx = load_rows()\n```\nDo not test.";
        let answer = "Here:\n```python\ndef row_sum(x):\n    total = fast_sum(x, axis_0)\n    return total\n```\nIt uses fast_sum.";
        assert_eq!(
            write(question, answer).unwrap(),
            "goal: Write `row_sum`.\ngiven: row_sum, load_rows\nreach: `total`, `fast_sum`, `axis_0`"
        );
    }

    #[test]
    fn long_sentences_and_lists_are_cut() {
        let long = (0..300).map(|i| format!("{i}é")).collect::<Vec<_>>().join(" ");
        let thought = write(&long, &format!("{long}\n{long}")).unwrap();
        for line in thought.lines() {
            assert!(line.len() < 300, "{line}");
        }
        assert!(thought.starts_with("goal: 0é 1é") && thought.ends_with("299é"), "{thought}");
    }

    #[test]
    fn a_thought_from_elsewhere_is_read_by_lines() {
        let read: Vec<_> = lines("Multiply first.\n\nThen it is 96.").collect();
        assert_eq!(read, [(Says::Through, "Multiply first."), (Says::Reach, "Then it is 96.")]);
        let read: Vec<_> = lines("given: 6 boys\nreach: 3003").collect();
        assert_eq!(read, [(Says::Known, "6 boys"), (Says::Reach, "3003")]);
    }
}
