use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use super::cot_random::{RATIO, STEPS};
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;
use crate::output::Numbers;

pub(crate) struct CotTruncate;

impl RowFunction for CotTruncate {
    const DECLARATION: Declaration = Declaration {
        name: "cot_truncate",
        about: "The numbers (from 1) of the steps of the longest prefix of a chain that has at most the share `ratio` of its tokens. The prefix is a baseline that a score must beat. The steps of the prefix, joined by a blank line, have at most `ratio` of the tokens of all steps joined, rounded down. For a budget in tokens, pass `CAST(budget AS DOUBLE) / tokens` as the ratio. The limit is then exactly `budget` tokens.",
        arguments: &[STEPS, RATIO],
        example: "select cot_truncate(['Hm.', '2 + 2 is 4.', 'Done.'], 0.5);\n-- [1]",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = Numbers;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<Numbers> {
        let (steps, ratio) = (row.texts(0)?, row.ratio(1)?);
        let joined = Joined::new(tokenizer, &steps)?;
        let max_tokens = budget::share(ratio, joined.tokens());
        Ok(Numbers(joined.prune((0..steps.len()).rev(), max_tokens)?))
    }
}
