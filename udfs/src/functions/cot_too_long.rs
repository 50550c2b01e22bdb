use std::sync::Arc;

use asap_lm::{QuestionAndSteps, Scorer};

use super::by_row::RowFunction;
use super::by_score::WHAT_IS_ASKED;
use crate::columns::NoValue;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotTooLong;

impl RowFunction for CotTooLong {
    const DECLARATION: Declaration = Declaration {
        name: "cot_too_long",
        about: "Why the scoring model (`asap.scorer.model`) cannot read a chain, or a chain and its answer: their tokens with the prompt and the window of the model, in words. NULL if they fit.",
        arguments: &[
            WHAT_IS_ASKED,
            Argument::new(
                "steps",
                Arg::TextList,
                "The steps of a chain of thought; the model reads them joined by a blank line, a NULL step as an empty one.",
            ),
            Argument::optional(
                "answer",
                Arg::Text,
                "The answer, for functions that read it behind `</think>`; where it is left out, the chain alone is to fit.",
            ),
        ],
        example: "select cot_too_long('2 + 2?', ['2 + 2 is 4.']);\n-- NULL",
    };
    type Needs = Arc<Scorer>;
    type Output<'a> = String;

    fn row<'a>(scorer: &mut Arc<Scorer>, row: Args<'a>) -> Cell<String> {
        let chain = QuestionAndSteps { question: row.asked(0)?, steps: row.texts(1)? };
        let answer = if row.is_given(2) { Some(row.text(2)?) } else { None };
        scorer.too_long(&chain, answer)?.ok_or(NoValue::Null)
    }
}
