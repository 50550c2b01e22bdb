//! Arguments that several functions take.

use crate::declaration::{Arg, Argument};

pub(super) const STEPS: Argument =
    Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step.");

pub(super) const SCORES: Argument = Argument::new(
    "scores",
    Arg::FloatList,
    "A number for each step. The step with the lowest number is removed first.",
);

pub(super) const MAX_TOKENS: Argument = Argument::optional(
    "max_tokens",
    Arg::Int,
    "The maximum number of tokens of the remaining steps. The default is the setting `asap.refine.max_tokens`.",
);

pub(super) const QUESTION: Argument = Argument::new(
    "question",
    Arg::Asked,
    "The question that the chain answers: a text, or a conversation with its system prompt, such as `cot_prompt` returns. asap inserts the question into `asap.scorer.prompt`.",
);

pub(super) const READ_STEPS: Argument = Argument::new(
    "steps",
    Arg::TextList,
    "The steps of a chain of thought. The model reads the steps joined by a blank line, and a NULL step as an empty step.",
);

pub(super) const STATED_ANSWER: Argument =
    Argument::new("answer", Arg::Text, "The answer, or a response that states it as `cot_answer` finds it.");
