//! Code fences in the texts of people and language models.

use crate::white_space::strip;

/// The language of an answer without a fenced block, or whose block names no language.
const PLAIN: &str = "text";
const LEAST: usize = 3;

struct Fence<'a> {
    mark: char,
    length: usize,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        // Backticks after the marks make it inline code.
        let is_fence = length >= LEAST && !(mark == '`' && info.contains('`'));
        is_fence.then(|| Self { mark, length, info: info.trim() })
    }

    /// Whether this line can close a block opened with these marks, or open one inside it.
    fn is_like(&self, (mark, length): (char, usize)) -> bool {
        self.mark == mark && self.length >= length
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn<'a> {
    /// Opens a block; the text after its marks.
    Opens(&'a str),
    Closes,
}

/// Tracks the fenced blocks of a text, line by line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blocks {
    open: Option<(char, usize)>,
}

impl Blocks {
    /// Reads the next line. Inside a block, a fence that names a language opens another: the previous one was left
    /// open.
    pub fn read<'a>(&mut self, line: &'a str) -> Option<Turn<'a>> {
        let fence = Fence::of(line)?;
        match self.open {
            Some(opening) if !fence.is_like(opening) => None,
            Some(_) if fence.info.is_empty() => {
                self.open = None;
                Some(Turn::Closes)
            }
            _ => {
                self.open = Some((fence.mark, fence.length));
                Some(Turn::Opens(fence.info))
            }
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

/// Returns the first word after the marks of the last fenced block. Without such a word, returns [`PLAIN`].
pub fn language(answer: &str) -> &str {
    let mut blocks = Blocks::default();
    let opened = answer.lines().filter_map(|line| match blocks.read(line) {
        Some(Turn::Opens(info)) => Some(info),
        _ => None,
    });
    opened.last().map_or(PLAIN, |info| info.split_whitespace().next().unwrap_or(PLAIN))
}

/// Returns the program of an answer without its fences: its only fenced block. Returns the whole answer if it has no
/// closed block or several, or if it states a value in a box, since the block is then a part of the answer.
pub fn code(answer: &str) -> &str {
    let (mut blocks, mut start, mut at, mut found) = (Blocks::default(), 0, 0, None);
    for line in answer.split_inclusive('\n') {
        match blocks.read(line) {
            Some(Turn::Opens(_)) if start > 0 => return answer,
            Some(Turn::Opens(_)) => start = at + line.len(),
            Some(Turn::Closes) => found = Some(answer[start..at].trim_end_matches(['\r', '\n'])),
            None => {}
        }
        at += line.len();
    }
    found.filter(|_| !answer.contains("\\boxed")).unwrap_or(answer)
}

/// Removes the fences around a whole answer; returns any other answer unchanged. Inner blocks stay: a fence with a
/// language opens a block, a bare fence closes the last one.
pub fn unfenced(answer: &str) -> &str {
    let Some((first, rest)) = strip(answer).split_once('\n') else { return answer };
    let Some(opening) = Fence::of(first) else { return answer };
    let (mut depth, mut at) = (1, 0);
    for line in rest.split_inclusive('\n') {
        if let Some(fence) = Fence::of(line).filter(|fence| fence.is_like((opening.mark, opening.length))) {
            depth = if fence.info.is_empty() { depth - 1 } else { depth + 1 };
            if depth == 0 {
                return if at + line.len() == rest.len() { &rest[..at] } else { answer };
            }
        }
        at += line.len();
    }
    answer
}
