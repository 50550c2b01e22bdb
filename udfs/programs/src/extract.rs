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
