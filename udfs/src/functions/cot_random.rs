use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;
use rayon::prelude::*;

use crate::args::{self, Arg, Lists};
use crate::kernels::budget;
use crate::lm::{Joined, Models};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "A random subset of steps (from 1, ascending), the baseline that a score must beat: steps are removed in a random order until the rest, joined by a blank line, has at most `ratio` of the tokens of all steps joined, rounded down. It depends on `seed` and the steps alone, and a smaller ratio gives a subset of a larger one's. `budget / tokens` as a ratio is never rounded below `budget`.",
    syntax_example = "cot_random(steps, ratio, seed)",
    sql_example = "select cot_random(['Hm.', '2 + 2 is 4.', 'Done.'], 0.7, 7);\n-- [2]",
    argument(name = "steps", description = "The steps of a chain of thought."),
    argument(
        name = "ratio",
        description = "The part of the tokens that may stay, from 0 to 1; a row where it is not gives NULL."
    ),
    argument(name = "seed", description = "A whole number; another seed draws another subset.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotRandom {
    signature: Signature,
    models: Models,
}

impl CotRandom {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

impl ScalarUDFImpl for CotRandom {
    fn name(&self) -> &str {
        "cot_random"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let expected = [("steps", Arg::TextList), ("ratio", Arg::Float), ("seed", Arg::Int)];
        args::coerce(self.name(), &expected, 3, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))))
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        args::refuse_literal_outside_0_to_1(self.name(), "ratio", &given, 1)?;
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let (steps, ratios, seeds) = (Lists::new(&arrays[0]), args::floats(&arrays[1]), args::ints(&arrays[2]));
        let tokenizer = self.models.tokenizer(&args.config_options)?;
        let rows = (0..args.number_rows).into_par_iter().map(|row| {
            match (steps.texts(row), args::from_0_to_1_at(ratios, row), args::int_at(seeds, row)) {
                (Some(steps), Some(ratio), Some(seed)) => {
                    let joined = Joined::new(&tokenizer, &steps)?;
                    let max_tokens = budget::share(ratio, joined.tokens());
                    Ok(Some(joined.prune(budget::at_random(&steps, seed), max_tokens)?))
                }
                _ => Ok(None),
            }
        });
        Ok(ColumnarValue::Array(args::one_based_lists(rows.collect::<Result<Vec<_>>>()?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
