//! The parts of a generation: its chain of thought, and the response after it.

use asap_kernels::tags;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::{Argument, argument};
use crate::output::Text;

const GENERATION: Argument = argument!(generation: Text, "The text that the reasoning model wrote.");

pub(super) const COT_THINK: RowFunction<(), Text> = RowFunction {
    name: "cot_think",
    about: "The chain of thought of a generation: the text from the first opening tag to the first closing tag after it, without white space at both ends. The tags are those of published models, such as `<think>`, `<|begin_of_thought|>`, `[THINK]` and `◁think▷`, and the channels `analysis` and `final` of gpt-oss. At the start of the generation, `<Thought>`, `<thought>`, `<thinking>` and `<reasoning>` are opening tags too. Without an opening tag, the chain begins at the start of the generation. Without a closing tag, the result is NULL.",
    arguments: &[GENERATION],
    example: "select cot_think('<think>2 + 2 is 4</think>4');\n-- 2 + 2 is 4",
    row: |_, row| tags::think(row.text(0)?).ok_or(NoValue::Null),
};

pub(super) const COT_RESPONSE: RowFunction<(), Text> = RowFunction {
    name: "cot_response",
    about: "The text of a generation after its chain of thought. The text starts after the closing tag of the chain that `cot_think` finds, without white space at both ends. Tags around the whole text (`<|begin_of_solution|>`, `<Output>`, `<output>`, `<answer>`, `<response>` and their closing tags) are removed. A final end-of-turn token, such as `<|im_end|>`, is removed too. A missing closing tag gives NULL.",
    arguments: &[GENERATION],
    example: "select cot_response('<think>2 + 2 is 4</think>4');\n-- 4",
    row: |_, row| tags::response(row.text(0)?).ok_or(NoValue::Null),
};
