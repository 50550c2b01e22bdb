//! Code fences in what people and language models write.

use crate::kernels::steps::strip;

/// What an answer without a fenced block, or with one that names no language, is taken to be.
const PLAIN: &str = "text";
/// The least characters of a fence.
const LEAST: usize = 3;

/// A line that opens or closes a fenced block.
struct Fence<'a> {
    mark: char,
    length: usize,
    /// What follows the marks; only an opening fence has any.
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        // Backticks behind the marks make it code within a line.
        let is_fence = length >= LEAST && !(mark == '`' && info.contains('`'));
        is_fence.then(|| Self { mark, length, info: info.trim() })
    }

    /// Whether this line has the marks to close the block that `opening` opened, or to open one within it.
    fn is_like(&self, opening: &Fence<'_>) -> bool {
        self.mark == opening.mark && self.length >= opening.length
    }
}

/// The first word behind the marks of the last fenced block, `text` if there is none.
pub fn language(answer: &str) -> &str {
    let mut open: Option<Fence<'_>> = None;
    let mut language = PLAIN;
    for fence in answer.lines().filter_map(Fence::of) {
        match &open {
            Some(opening) if fence.is_like(opening) && fence.info.is_empty() => open = None,
            Some(_) => {}
            None => {
                language = fence.info.split_whitespace().next().unwrap_or(PLAIN);
                open = Some(fence);
            }
        }
    }
    language
}

/// An answer without the fences around all of it; any other answer as it is. Blocks within stay: one that names its
/// language opens, a bare fence closes what was opened last.
pub fn unfenced(answer: &str) -> &str {
    let Some((first, rest)) = strip(answer).split_once('\n') else { return answer };
    let Some(opening) = Fence::of(first) else { return answer };
    let (mut depth, mut at) = (1, 0);
    for line in rest.split_inclusive('\n') {
        if let Some(fence) = Fence::of(line).filter(|fence| fence.is_like(&opening)) {
            depth = if fence.info.is_empty() { depth - 1 } else { depth + 1 };
            if depth == 0 {
                return if at + line.len() == rest.len() { &rest[..at] } else { answer };
            }
        }
        at += line.len();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_around_the_whole_answer_are_taken_off() {
        assert_eq!(unfenced("```\n  a\n\nb\n```"), "  a\n\nb\n");
        assert_eq!(unfenced("\n```markdown\na\n```\n\n"), "a\n");
        assert_eq!(unfenced("~~~~\r\na\r\n~~~~"), "a\r\n");
        assert_eq!(unfenced("```\na\n\n```python\nx\n```\n\nb\n```"), "a\n\n```python\nx\n```\n\nb\n");
        assert_eq!(unfenced("````\n```\nx\n```\n````"), "```\nx\n```\n");
        assert_eq!(unfenced("```\n```"), "");
    }

    #[test]
    fn other_fences_stay() {
        for answer in [
            "a",
            "",
            "```",
            "```python\nx = 1\n```\n\nso\n\n```python\ny = 2\n```",
            "```python\nx = 1\n```\nis it",
            "so:\n```\nx\n```",
            "```\nnever closed",
            "```\nx\n~~~",
            "``\nx\n``",
            "```a`b\nx\n```",
        ] {
            assert_eq!(unfenced(answer), answer);
        }
    }

    #[test]
    fn the_language_is_that_of_the_last_block() {
        assert_eq!(language("```python\nx\n```\nor\n```cpp run\ny\n```\nok"), "cpp");
        assert_eq!(language("~~~rust\n```python\n~~~"), "rust");
        assert_eq!(language("```\nx\n```"), "text");
        assert_eq!(language("42"), "text");
        assert_eq!(language("```python\nnever closed"), "python");
    }
}
