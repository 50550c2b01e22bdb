use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;
use rayon::prelude::*;

use crate::args::{self, Arg, Lists};
use crate::kernels::budget;
use crate::lm::{Joined, Models, Tokenizer};
use crate::settings::Settings;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "Algorithm 2: which steps (from 1, ascending) are left when the step of the lowest score is removed, one after the other, until the rest, joined by a blank line, has at most `max_tokens` tokens of the scoring model. Of equal scores the earlier step goes first; a NULL or NaN score counts as 0. A chain that fits keeps all steps; the result may be empty. Lists of different lengths give NULL.",
    syntax_example = "cot_refine(steps, scores [, max_tokens])",
    sql_example = "select cot_refine(['Hm.', '2 + 2 is 4.', 'Done.'], [0.1, 3.2, 1.4], 12);\n-- [2, 3]",
    argument(name = "steps", description = "The steps of a chain of thought."),
    argument(name = "scores", description = "A number for each step; the lowest goes first."),
    argument(
        name = "max_tokens",
        description = "How many tokens the rest may have. The default is the setting `asap.refine.max_tokens`."
    )
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotRefine {
    signature: Signature,
    models: Models,
}

impl CotRefine {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

impl ScalarUDFImpl for CotRefine {
    fn name(&self) -> &str {
        "cot_refine"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let expected = [("steps", Arg::TextList), ("scores", Arg::FloatList), ("max_tokens", Arg::Int)];
        args::coerce(self.name(), &expected, 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let (steps, scores) = (Lists::new(&arrays[0]), Lists::new(&arrays[1]));
        let default_max_tokens = Settings::of(&args.config_options)?.refine_max_tokens;
        let tokenizer = self.models.tokenizer(&args.config_options)?;
        let rows = (0..args.number_rows).into_par_iter().map(|row| {
            let max_tokens = match arrays.get(2) {
                Some(given) => args::int_at(args::ints(given), row),
                None => Some(default_max_tokens),
            };
            match (steps.texts(row), scores.floats(row), max_tokens) {
                (Some(steps), Some(scores), Some(max_tokens)) => refine(&tokenizer, &steps, &scores, max_tokens),
                _ => Ok(None),
            }
        });
        Ok(ColumnarValue::Array(args::one_based_lists(rows.collect::<Result<Vec<_>>>()?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}

fn refine(
    tokenizer: &Tokenizer,
    steps: &[&str],
    scores: &[Option<f64>],
    max_tokens: i64,
) -> Result<Option<Vec<usize>>> {
    if steps.len() != scores.len() {
        return Ok(None);
    }
    let Ok(max_tokens) = usize::try_from(max_tokens) else {
        // Fewer than no tokens: nothing can stay.
        return Ok(Some(vec![]));
    };
    Ok(Some(Joined::new(tokenizer, steps)?.prune(budget::by_score(scores), max_tokens)?))
}
