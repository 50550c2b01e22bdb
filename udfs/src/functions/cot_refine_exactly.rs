use std::borrow::Cow;
use std::sync::Arc;

use asap_kernels::budget::by_score;
use asap_lm::{Tokenizer, prune_exactly};
use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::common::Result;

use super::by_row::RowFunction;
use super::cot_refine::MAX_TOKENS;
use super::needs::Budget;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::{Numbers, Output, structs};

pub(crate) struct CotRefineExactly;

/// The steps with the cut one shortened, the indices of the kept ones, and that of the cut one.
pub(crate) struct Refined<'a> {
    steps: Vec<Cow<'a, str>>,
    kept: Vec<usize>,
    cut: Option<usize>,
}

impl RowFunction for CotRefineExactly {
    const DECLARATION: Declaration = Declaration {
        name: "cot_refine_exactly",
        about: "The steps that `cot_refine` keeps, plus as many tokens as fit in `max_tokens` from the step that `cot_refine` removes last. Use this function to compare methods at the same length, because methods that keep whole steps differ in length. The result is a struct of `steps`, `kept` and `cut`. `steps` holds all steps, with the cut step shortened. `kept` holds the numbers (from 1) of the remaining steps, the cut step included. `cut` is the number of the cut step, or NULL if no step is cut. The cut step keeps its first tokens, except in two cases. The cut step keeps its last tokens if all other remaining steps come after it, or if no other step remains and it is the last of several steps. The result may have one or two tokens less than `max_tokens`. Lists of different lengths give NULL.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
            Argument::new(
                "scores",
                Arg::FloatList,
                "A number for each step. The step with the lowest number is removed first.",
            ),
            MAX_TOKENS,
        ],
        example: "select cot_refine_exactly(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 1, 0], 6)['kept'];\n-- [1, 2]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Refined<'a>;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Refined<'a>> {
        let (steps, scores) = (row.texts(0)?, row.floats(1)?);
        let max_tokens = if row.is_given(2) { row.int(2)? } else { default.max_tokens };
        if steps.len() != scores.len() {
            return Err(NoValue::Null);
        }
        // A negative maximum keeps nothing.
        let max_tokens = usize::try_from(max_tokens).unwrap_or(0);
        let pruned = prune_exactly(tokenizer, &steps, by_score(&scores), max_tokens)?;
        let mut steps: Vec<Cow<str>> = steps.into_iter().map(Cow::Borrowed).collect();
        if let Some((step, piece)) = pruned.cut {
            steps[step] = Cow::Borrowed(piece);
        }
        Ok(Refined { steps, kept: pruned.kept, cut: pruned.cut.map(|(step, _)| step) })
    }
}

impl Output for Refined<'_> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let valid: NullBuffer = rows.iter().map(Option::is_some).collect();
        let cut = rows.iter().map(|row| row.as_ref().and_then(|row| row.cut).map(|step| step as i64 + 1));
        let cut: ArrayRef = Arc::new(Int64Array::from_iter(cut));
        let (steps, kept) = rows.into_iter().map(|row| row.map(|row| (row.steps, Numbers(row.kept))).unzip()).unzip();
        structs(vec![("steps", Output::array(steps)?), ("kept", Output::array(kept)?), ("cut", cut)], Some(valid))
    }
}
