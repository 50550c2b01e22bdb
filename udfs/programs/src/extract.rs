//! Finds the program in a response.

use asap_kernels::code_fences::{Blocks, Turn};
use asap_kernels::tags;

use crate::Reason;
use crate::problem::{Problem, Tests, defines};

struct Block<'a> {
    language: &'a str,
    code: String,
    is_closed: bool,
}

/// Returns the program: the last code block after the chain that defines the entry point, else the last code block.
///
/// # Errors
/// [`Reason::NoAnswer`] if the chain is cut off, [`Reason::NoCode`] without a code block.
pub fn program(problem: &Problem, response: &str) -> Result<String, Reason> {
    let answer = tags::response_or_all(response).ok_or(Reason::NoAnswer)?;
    let mut blocks = blocks(answer);
    if blocks.iter().any(|block| block.may_be_python()) {
        blocks.retain(Block::may_be_python);
    }
    // One that the end of the response cuts off counts least.
    blocks.sort_by_key(|block| block.is_closed);
    let is_wanted = |block: &Block<'_>| match &problem.entry_point {
        Some(entry_point) => {
            let is_method = matches!(problem.tests, Tests::Method { .. });
            defines(&block.code, outermost(entry_point)) || (is_method && defines(&block.code, "Solution"))
        }
        None => block.is_python(),
    };
    let place = blocks.iter().rposition(is_wanted).or(blocks.len().checked_sub(1)).ok_or(Reason::NoCode)?;
    let block = blocks.swap_remove(place);
    match &problem.prompt {
        Some(prompt) if !is_wanted(&block) && block.is_body() => Ok(format!("{prompt}{}", block.code)),
        _ => Ok(block.code),
    }
}

/// The name that a program has to define for an entry point such as `Solution().twoSum`.
fn outermost(entry_point: &str) -> &str {
    entry_point.split(['(', '.']).next().unwrap_or(entry_point)
}

impl Block<'_> {
    fn is_python(&self) -> bool {
        let language = self.language.trim_start_matches('{').trim_start_matches('.').to_lowercase();
        language.starts_with("py")
    }

    fn may_be_python(&self) -> bool {
        self.language.is_empty() || self.is_python()
    }

    fn is_body(&self) -> bool {
        self.code.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with([' ', '\t']))
    }
}

fn blocks(answer: &str) -> Vec<Block<'_>> {
    let (mut found, mut blocks, mut indent) = (Vec::new(), Blocks::default(), 0);
    for line in answer.lines() {
        match blocks.read(line) {
            Some(Turn::Opens(language)) => {
                indent = line.len() - line.trim_start().len();
                found.push(Block { language, code: String::new(), is_closed: false });
            }
            Some(Turn::Closes) => found.iter_mut().for_each(|block| block.is_closed = true),
            None if blocks.is_open() => {
                // Blocks in lists are indented as a whole.
                let blank = line.bytes().take(indent).take_while(u8::is_ascii_whitespace).count();
                if let Some(block) = found.last_mut() {
                    block.code += &line[blank..];
                    block.code += "\n";
                }
            }
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(entry_point: Option<&str>) -> Problem {
        Problem {
            id: String::new(),
            question: String::new(),
            starter: None,
            contest_date: None,
            before: String::new(),
            prompt: Some("def add(a, b):\n".to_string()),
            entry_point: entry_point.map(str::to_string),
            reference: None,
            tests: Tests::Stdin { tests: Vec::new() },
            seconds: 1.0,
        }
    }

    #[test]
    fn the_last_definition_of_the_entry_point_counts() {
        let add = "```python\ndef add(a, b):\n    return a + b\n```\n";
        let expected = "def add(a, b):\n    return a + b\n";
        for answer in [
            add.to_string(),
            format!("```python\ndef add(a, b):\n    pass\n```\n{add}"),
            format!("{add}```python\nassert add(1, 2) == 3\nx = add == 3\n```\n"),
            format!("{add}```python\ndef added(a):\n    pass\n```\n"),
            // Cut off.
            format!("{add}or\n```python\ndef add(a, b):\n    ret"),
            format!("<think>\n```python\ndef add(a, b):\n    pass\n```\n</think>\n{add}"),
            // In a list.
            "1. It is\n\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n".to_string(),
        ] {
            assert_eq!(program(&problem(Some("add")), &answer).as_deref(), Ok(expected), "{answer}");
        }
    }

    #[test]
    fn without_a_definition_the_last_block_counts() {
        let found = |answer: &str| program(&problem(Some("add")), answer);
        assert_eq!(found("```\nx\n```\n```\ny\n```").as_deref(), Ok("y\n"));
        assert_eq!(found("```\n\n    return a + b\n```").as_deref(), Ok("def add(a, b):\n\n    return a + b\n"));
        assert_eq!(found("```python\nx\n```\n```sh\ny\n```").as_deref(), Ok("x\n"));
        assert_eq!(found("```c\nx\n```").as_deref(), Ok("x\n"));
        assert_eq!(found("def add(a, b): ..."), Err(Reason::NoCode));
        assert_eq!(found("<think>```\nx\n```"), Err(Reason::NoAnswer));
    }

    #[test]
    fn a_program_on_standard_input_is_the_last_block_of_python() {
        let found = |answer: &str| program(&problem(None), answer);
        assert_eq!(found("```Python3\nx\n```\nIt prints\n```\n6\n```").as_deref(), Ok("x\n"));
        assert_eq!(found("```\nx\n```\n```\ny\n```").as_deref(), Ok("y\n"));
    }

    #[test]
    fn a_class_is_the_entry_point_of_its_method() {
        let answer = "```python\nclass Solution:\n    pass\n```\n```python\nprint(Solution().add(1, 2))\n```";
        assert_eq!(program(&problem(Some("Solution().add")), answer).as_deref(), Ok("class Solution:\n    pass\n"));
    }
}
