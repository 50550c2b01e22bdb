//! The tokens of a training example.

use std::ops::Range;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_lm::example::{Encoded, Example, ExampleTemplate, Long, Response};
use asap_lm::{LmError, Tokenizer};
use datafusion::common::{Result, exec_err};

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::output::struct_output;
use crate::settings::Settings;

/// Characters of a question in a message.
const SHOWN: usize = 60;

type Reading = ((Arc<Tokenizer>, Arc<ExampleTemplate>), Settings);

pub(super) const COT_EXAMPLE: RowFunction<Reading, Example> = RowFunction {
    name: "cot_example",
    about: "The tokens to train on, for the tokenizer and chat template of asap.scorer.model, in a struct of input_ids, attention_mask and labels. The prompt is the system prompt, if the question has one, and the question as the user's turn. The labels are -100 on the prompt, and equal input_ids on the response. The response is the chain in think tags, the text that the template writes after the closing tag (a blank line if it defines none), the answer, and the token that ends the turn. If the template writes the opening think tag, this tag belongs to the prompt. With `kept`, only the kept steps of the chain are learned, and the labels of its other steps are -100: a token belongs to the last step of which it covers a character, and a token that covers only a blank line to the step after it. The tags, the answer and the end are learned. Numbers in `kept` that do not ascend, or that no step has, fail the query. A NULL answer is left out. A NULL chain or `kept` gives NULL, and so does an example of more than max_length tokens, or a row that the chat template does not print: `cot_no_score` gives the reason. A conversation with several exchanges or tools may have several examples, and gives NULL: use `asap feed`.",
    arguments: &[
        argument!(question: Asked, "The question: a text, or a conversation with its system prompt, such as `cot_prompt` returns."),
        argument!(cot: Text, "The chain of thought."),
        argument!(answer: Text, "The text that follows the chain."),
        argument!(max_length?: Int, "The maximum number of tokens of an example. NULL, or without this argument: there is no limit."),
        argument!(kept?: IntList, "The numbers of the steps of the chain to learn, from 1 and ascending, such as `cot_kept` returns for an output. The steps are those of `cot_steps`. Without this argument, the whole chain is learned."),
    ],
    example: "select cot_example('2 + 2?', '2 and 2 is 4', '4')['labels'][1];\n-- -100",
    row: |((tokenizer, template), settings), row| {
        let (asked, cot, answer) = (row.asked(0)?, row.text(1)?, row.text(2).unwrap_or_default());
        let max_length = match row.is_null(3) {
            true => usize::MAX,
            false => usize::try_from(row.int(3)?).map_err(|_| NoValue::Null)?,
        };
        let steps = match row.is_given(4) {
            true => Some(learned_steps(asked.question, settings.chain_steps.spans(cot), &row.ints(4)?)?),
            false => None,
        };
        if template.drops_first_system(asked) {
            tracing::warn!(
                "the chat template of {} does not print a system prompt: examples of rows that have one do not hold it",
                Setting("asap.scorer.model")
            );
        }
        match template.encode(tokenizer, asked, &Response { cot, answer, steps }, max_length, Long::Drop) {
            Ok(Encoded::Whole(example) | Encoded::Cut(example)) => Ok(example),
            // A question that the template rejects fails only its row.
            Ok(Encoded::TooLong(_)) | Err(LmError::Prompt(_)) => Err(NoValue::Null),
            Err(error) => Err(error.into()),
        }
    },
};

/// The steps with whether their number is in `kept`.
fn learned_steps(question: &str, spans: Vec<Range<usize>>, kept: &[Option<i64>]) -> Result<Vec<(Range<usize>, bool)>> {
    let mut steps: Vec<_> = spans.into_iter().map(|span| (span, false)).collect();
    let mut first = 0;
    for number in kept {
        let place =
            number.and_then(|number| usize::try_from(number).ok()?.checked_sub(1)).filter(|place| *place >= first);
        let Some((_, is_learned)) = place.and_then(|place| steps.get_mut(place)) else {
            let shown: String = question.chars().take(SHOWN).collect();
            return exec_err!(
                "argument kept of cot_example must have ascending numbers of the chain's {} steps, found {} in the row with \
                 the question {shown:?}",
                steps.len(),
                number.map_or("NULL".to_string(), |number| number.to_string())
            );
        };
        *is_learned = true;
        first = place.map_or(first, |place| place + 1);
    }
    Ok(steps)
}

struct_output!(example: Example =>
    "input_ids": Some(example.input_ids().collect::<Vec<i32>>()),
    "attention_mask": Some(vec![1_i32; example.ids.len()]),
    "labels": Some(example.labels().collect::<Vec<i32>>()),
);
