//! Arguments that several functions take.

use crate::declaration::{Argument, argument};

pub(super) const STEPS: Argument =
    argument!(steps: TextList, "The steps of a chain of thought. A NULL step is an empty step.");

pub(super) const SCORES: Argument =
    argument!(scores: FloatList, "A number for each step. The step with the lowest number is removed first.");

pub(super) const MAX_TOKENS: Argument = argument!(max_tokens?: Int, "The maximum number of tokens of the remaining steps. The default is the setting `asap.refine.max_tokens`, or 4096 if it is not set.");

pub(super) const QUESTION: Argument = argument!(question: Asked, "The question that the chain answers: a text, or a conversation with its system prompt, such as `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`. A question and a chain longer than the model's window give NULL.");

pub(super) const READ_STEPS: Argument = argument!(steps: TextList, "The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as an empty step. A step without a token, or without one before it, has no score.");

pub(super) const STATED_ANSWER: Argument =
    argument!(answer: Text, "The answer, or a response that states it as `cot_answer` finds it.");
