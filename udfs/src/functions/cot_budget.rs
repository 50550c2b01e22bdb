use asap_kernels::budget;

use super::by_row::RowFunction;
use super::needs::Budget;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotBudget;

impl RowFunction for CotBudget {
    const DECLARATION: Declaration = Declaration {
        name: "cot_budget",
        about: "The largest number of tokens that a pruned chain may have. If `tokens` is given and `asap.refine.ratio` is below 1, the budget is the smaller of two numbers: `asap.refine.max_tokens`, and `tokens` times `asap.refine.ratio`, rounded down. Otherwise, the budget is `asap.refine.max_tokens`.",
        arguments: &[Argument::optional("tokens", Arg::Int, "The length of the original chain in tokens.")],
        example: "select cot_budget(cot_tokens('Hm. 2 + 2 is 4.'));\n-- 4096",
    };
    type Needs = Budget;
    type Output<'a> = i64;

    fn row<'a>(Budget { max_tokens, ratio }: &mut Budget, row: Args<'a>) -> Cell<i64> {
        if !row.is_given(0) || *ratio == 1.0 {
            return Ok(*max_tokens);
        }
        let tokens = usize::try_from(row.int(0)?).unwrap_or(0);
        let share = i64::try_from(budget::share(*ratio, tokens)).unwrap_or(i64::MAX);
        Ok(share.min(*max_tokens))
    }
}
