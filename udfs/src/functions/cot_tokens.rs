use std::sync::Arc;

use asap_lm::Tokenizer;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotTokens;

impl RowFunction for CotTokens {
    const DECLARATION: Declaration = Declaration {
        name: "cot_tokens",
        about: "The length of a text in tokens of the scoring model (`asap.scorer.model`), without special tokens.",
        arguments: &[Argument::new("text", Arg::Text, "Any text.")],
        example: "select cot_tokens('2 + 2 is 4');\n-- 7",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = i64;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<i64> {
        Ok(tokenizer.length(row.text(0)?)? as i64)
    }
}
