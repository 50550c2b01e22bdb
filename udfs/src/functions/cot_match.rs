use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::kernels::gestalt::Gestalt;
use crate::kernels::matching::{Match, walk};
use crate::kernels::steps::{steps, strip};
use crate::settings::Settings;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "Algorithm 1: for each step of a coarse chain, in order, the step of the original chain that it matches (from 1) and their Gestalt similarity. A step matches the first one, behind the last match, that is at least `tau` similar; both are compared without white space around them. NULL if a step matches nothing, or if the coarse chain has no step.",
    syntax_example = "cot_match(cot, coarse [, tau])",
    sql_example = "select cot_match(E'Hm.\\n\\n2 + 2 is 4.\\n\\nDone.', E'2 + 2 = 4.\\n\\nDone.');\n-- [{step: 2, similarity: 0.8571428571428571}, {step: 3, similarity: 1.0}]",
    argument(name = "cot", description = "The original chain of thought."),
    argument(name = "coarse", description = "The chain that is said to be a part of it."),
    argument(
        name = "tau",
        description = "The least similarity of a match, from 0 to 1; a row where it is not gives NULL. The default is the setting `asap.match.threshold`."
    )
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotMatch {
    signature: Signature,
}

impl Default for CotMatch {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable) }
    }
}

impl ScalarUDFImpl for CotMatch {
    fn name(&self) -> &str {
        "cot_match"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("cot", Arg::Text), ("coarse", Arg::Text), ("tau", Arg::Float)], 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(match_field()))
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        args::refuse_literal_outside_0_to_1(self.name(), "tau", &given, 2)?;
        Ok(Arc::new(Field::new(self.name(), DataType::List(match_field()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let threshold = Settings::of(&args.config_options)?.match_threshold.0;
        let mut gestalt = Gestalt::new(false);
        let rows = (0..args.number_rows).map(|row| {
            let cot = args::text_at(args::texts(&arrays[0]), row)?;
            let coarse = args::text_at(args::texts(&arrays[1]), row)?;
            let threshold = match arrays.get(2) {
                Some(thresholds) => args::from_0_to_1_at(args::floats(thresholds), row)?,
                None => threshold,
            };
            matches(&mut gestalt, cot, coarse, threshold)
        });
        Ok(ColumnarValue::Array(match_lists(&rows.collect::<Vec<_>>())?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}

fn matches(gestalt: &mut Gestalt, cot: &str, coarse: &str, threshold: f64) -> Option<Vec<Match>> {
    let stripped = |chain| steps(chain).into_iter().map(strip).collect::<Vec<_>>();
    let coarse_steps = stripped(coarse);
    if coarse_steps.is_empty() {
        return None;
    }
    let walk = walk(gestalt, &stripped(cot), &coarse_steps, threshold);
    walk.failed.is_none().then_some(walk.matches)
}

fn match_fields() -> Fields {
    Fields::from(vec![Field::new("step", DataType::Int64, true), Field::new("similarity", DataType::Float64, true)])
}

fn match_field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(match_fields()), true))
}

fn match_lists(rows: &[Option<Vec<Match>>]) -> Result<ArrayRef> {
    let found = || rows.iter().flatten().flatten();
    let steps: Int64Array = found().map(|found| found.step as i64 + 1).collect::<Vec<_>>().into();
    let similarities: Float64Array = found().map(|found| found.similarity).collect::<Vec<_>>().into();
    let items = StructArray::try_new(match_fields(), vec![Arc::new(steps), Arc::new(similarities)], None)?;
    let lengths = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
    let valid = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(match_field(), lengths, Arc::new(items), Some(valid))?))
}
