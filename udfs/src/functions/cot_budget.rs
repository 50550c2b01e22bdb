use super::by_row::RowFunction;
use super::needs::MaxTokens;
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;

pub struct CotBudget;

impl RowFunction for CotBudget {
    const DECLARATION: Declaration = Declaration {
        name: "cot_budget",
        about: "The most tokens that a pruned chain may have: the setting `asap.refine.max_tokens`.",
        arguments: &[],
        example: "select cot_budget();\n-- 4096",
    };
    type Needs = MaxTokens;
    type Output<'a> = i64;

    fn row<'a>(max_tokens: &mut MaxTokens, _: Args<'a>) -> Cell<i64> {
        Ok(max_tokens.0)
    }
}
