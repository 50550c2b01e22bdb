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
    description = "The longest prefix of a chain (steps from 1) that, joined by a blank line, has at most `ratio` of the tokens of all steps joined, rounded down: the baseline that a score must beat. `budget / tokens` as a ratio is never rounded below `budget`.",
    syntax_example = "cot_truncate(steps, ratio)",
    sql_example = "select cot_truncate(['Hm.', '2 + 2 is 4.', 'Done.'], 0.5);\n-- [1]",
    argument(name = "steps", description = "The steps of a chain of thought."),
    argument(
        name = "ratio",
        description = "The part of the tokens that may stay, from 0 to 1; a row where it is not gives NULL."
    )
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotTruncate {
    signature: Signature,
    models: Models,
}

impl CotTruncate {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

impl ScalarUDFImpl for CotTruncate {
    fn name(&self) -> &str {
        "cot_truncate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("steps", Arg::TextList), ("ratio", Arg::Float)], 2, given)
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
        let (steps, ratios) = (Lists::new(&arrays[0]), args::floats(&arrays[1]));
        let tokenizer = self.models.tokenizer(&args.config_options)?;
        let rows = (0..args.number_rows).into_par_iter().map(|row| {
            match (steps.texts(row), args::from_0_to_1_at(ratios, row)) {
                (Some(steps), Some(ratio)) => {
                    let joined = Joined::new(&tokenizer, &steps)?;
                    let max_tokens = budget::share(ratio, joined.tokens());
                    Ok(Some(joined.prune((0..steps.len()).rev(), max_tokens)?))
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
