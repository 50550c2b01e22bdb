//! The tokens of a training example.

use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_lm::example::{Encoded, Example, ExampleTemplate, Long};
use asap_lm::{LmError, Tokenizer};

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::struct_output;

pub(super) const COT_EXAMPLE: RowFunction<(Arc<Tokenizer>, Arc<ExampleTemplate>), Example> = RowFunction {
    name: "cot_example",
    about: "The tokens to train on, for the tokenizer and chat template of asap.scorer.model, in a struct of input_ids, attention_mask and labels. The prompt is the system prompt, if the question has one, and the question as the user's turn. The labels are -100 on the prompt, and equal input_ids on the response. The response is the chain in think tags, the text that the template writes after the closing tag (a blank line if it defines none), the answer, and the token that ends the turn. If the template writes the opening think tag, this tag belongs to the prompt. A NULL answer is left out. A NULL chain gives NULL, and so does an example of more than max_length tokens, or a row that the chat template does not print: `cot_no_score` gives the reason.",
    arguments: &[
        argument!(question: Asked, "The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns."),
        argument!(cot: Text, "The chain of thought."),
        argument!(answer: Text, "The text that follows the chain."),
        argument!(max_length?: Int, "The maximum number of tokens of an example. Without this argument, there is no limit."),
    ],
    example: "select cot_example('2 + 2?', '2 and 2 is 4', '4')['labels'][1];\n-- -100",
    row: |(tokenizer, template), row| {
        let (asked, texts) = (row.asked(0)?, [row.text(1)?, row.text(2).unwrap_or_default()]);
        let max_length = match row.is_given(3) {
            true => usize::try_from(row.int(3)?).map_err(|_| NoValue::Null)?,
            false => usize::MAX,
        };
        if template.drops_first_system(asked) {
            tracing::warn!(
                "the chat template of {} does not print a system prompt: examples of rows that have one do not hold it",
                Setting("asap.scorer.model")
            );
        }
        match template.encode(tokenizer, asked, texts, max_length, Long::Drop) {
            Ok(Encoded::Whole(example) | Encoded::Cut(example)) => Ok(example),
            // A question that the template rejects fails only its row.
            Ok(Encoded::TooLong(_)) | Err(LmError::Prompt(_)) => Err(NoValue::Null),
            Err(error) => Err(error.into()),
        }
    },
};

struct_output!(example: Example =>
    "input_ids": Some(example.input_ids().collect::<Vec<i32>>()),
    "attention_mask": Some(vec![1_i32; example.ids.len()]),
    "labels": Some(example.labels().collect::<Vec<i32>>()),
);
