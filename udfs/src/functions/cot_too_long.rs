use std::borrow::Cow;
use std::sync::Arc;

use asap_lm::{QuestionAndSteps, Scorer};

use super::by_row::RowFunction;
use super::by_score::{STEPS, WHAT_IS_ASKED};
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotTooLong;

impl RowFunction for CotTooLong {
    const DECLARATION: Declaration = Declaration {
        name: "cot_too_long",
        about: "The reason, in words, why the scoring model (`asap.scorer.model`) cannot read a chain, or a chain and its answer; NULL if the text fits. The reason names the length of the text in tokens, the prompt included, and the model's window.",
        arguments: &[
            WHAT_IS_ASKED,
            STEPS,
            Argument::optional(
                "answer",
                Arg::Text,
                "The answer, for functions that read the answer after `</think>`. Without this argument, only the chain must fit.",
            ),
        ],
        example: "select cot_too_long('2 + 2?', ['2 + 2 is 4.']);\n-- NULL",
    };
    type Needs = Arc<Scorer>;
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(scorer: &mut Arc<Scorer>, row: Args<'a>) -> Cell<Cow<'a, str>> {
        let chain = QuestionAndSteps { question: row.asked(0)?, steps: row.texts(1)? };
        let answer = if row.is_given(2) { Some(row.text(2)?) } else { None };
        scorer.too_long(&chain, answer)?.map(Cow::Owned).ok_or(NoValue::Null)
    }
}
