use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Builder, Int64Array, Int64Builder, ListBuilder, StringArray, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::kernels::gestalt::Gestalt;
use crate::kernels::{matching, steps};
use crate::llm::extractive;
use crate::settings::{OnError, Provider, Settings};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The coarse pruning of a chain of thought by its direct thought, validated by Algorithm 1, in a struct of cot (the steps that are left, joined by a blank line), kept (their places in cot_steps(cot)), similarity (of each to the step that it is), attempts, status, error, tokens_in, tokens_out and cached. The status is 'ok', 'no_anchor' for a NULL thought, 'empty_chain' for a chain that is NULL or holds no step, or 'invalid' where Algorithm 1 refuses the pruning; then cot, kept and similarity are NULL and error says why. With asap.anchor.provider = 'extractive' no language model is asked: backward from the step that says the answer, whole steps are kept that bring a word, value or name which the thought or a kept later step uses; where that is less than a third of the chain, slightly needed steps fill it up. That is a stand-in which follows words, not sense; tokens are 0.",
    syntax_example = "cot_coarse(cot, thought)",
    sql_example = "select cot_coarse(E'Let me see.\\n\\n12 * 8 = 96.\\n\\nOr is it 12 + 8 = 20?\\n\\n3 * 96 = 288, so 288 rolls.', 'reach: 288 rolls')['kept'];\n-- [2, 4]",
    argument(name = "cot", description = "The chain of thought."),
    argument(name = "thought", description = "The direct thought, as cot_anchor gives it.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotCoarse {
    signature: Signature,
}

impl Default for CotCoarse {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Volatile) }
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn fields() -> Fields {
    Fields::from(vec![
        Field::new("cot", DataType::Utf8, true),
        Field::new("kept", list_of(DataType::Int64), true),
        Field::new("similarity", list_of(DataType::Float64), true),
        Field::new("attempts", DataType::Int64, true),
        Field::new("status", DataType::Utf8, true),
        Field::new("error", DataType::Utf8, true),
        Field::new("tokens_in", DataType::Int64, true),
        Field::new("tokens_out", DataType::Int64, true),
        Field::new("cached", DataType::Boolean, true),
    ])
}

/// A pruning that Algorithm 1 accepts.
struct Pruned {
    cot: String,
    /// Places in the original chain, from 1.
    kept: Vec<i64>,
    similarity: Vec<f64>,
}

/// Why there is none: status and error.
struct Refused {
    status: &'static str,
    error: String,
    attempts: i64,
}

impl ScalarUDFImpl for CotCoarse {
    fn name(&self) -> &str {
        "cot_coarse"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("cot", Arg::Text), ("thought", Arg::Text)], 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let settings = Settings::of(&args.config_options)?;
        let arrays = args::arrays(&args)?;
        let rows = args::texts(&arrays[0]).iter().zip(args::texts(&arrays[1]).iter());
        let mut gestalt = Gestalt::new(false);
        let threshold = settings.match_threshold.0;
        let prunings: Vec<std::result::Result<Pruned, Refused>> = match settings.anchor_provider {
            Provider::Extractive => rows.map(|(cot, thought)| extract(cot, thought, &mut gestalt, threshold)).collect(),
        };
        let refused = prunings.iter().find_map(|pruning| pruning.as_ref().err());
        if let (OnError::Fail, Some(refused)) = (settings.on_error, refused) {
            return exec_err!("cot_coarse: {}: {} (asap.on_error is 'fail')", refused.status, refused.error);
        }
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(fields(), columns(&prunings), None)?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}

fn columns(prunings: &[std::result::Result<Pruned, Refused>]) -> Vec<ArrayRef> {
    let mut kept = ListBuilder::new(Int64Builder::new());
    let mut similarity = ListBuilder::new(Float64Builder::new());
    for pruning in prunings {
        let pruned = pruning.as_ref().ok();
        kept.append_option(pruned.map(|pruned| pruned.kept.iter().copied().map(Some)));
        similarity.append_option(pruned.map(|pruned| pruned.similarity.iter().copied().map(Some)));
    }
    let texts = |text: fn(&std::result::Result<Pruned, Refused>) -> Option<&str>| -> ArrayRef {
        Arc::new(prunings.iter().map(text).collect::<StringArray>())
    };
    let attempts = prunings.iter().map(|pruning| pruning.as_ref().err().map_or(1, |refused| refused.attempts));
    let no_tokens: ArrayRef = Arc::new(Int64Array::from(vec![0; prunings.len()]));
    vec![
        texts(|pruning| pruning.as_ref().ok().map(|pruned| pruned.cot.as_str())),
        Arc::new(kept.finish()),
        Arc::new(similarity.finish()),
        Arc::new(attempts.collect::<Int64Array>()),
        texts(|pruning| Some(pruning.as_ref().err().map_or("ok", |refused| refused.status))),
        texts(|pruning| pruning.as_ref().err().map(|refused| refused.error.as_str())),
        Arc::clone(&no_tokens),
        no_tokens,
        Arc::new(BooleanArray::from(vec![false; prunings.len()])),
    ]
}

fn extract(
    cot: Option<&str>,
    thought: Option<&str>,
    gestalt: &mut Gestalt,
    threshold: f64,
) -> std::result::Result<Pruned, Refused> {
    let refused = |status, error: &str| Refused { status, error: error.to_string(), attempts: 0 };
    let thought = thought.ok_or_else(|| refused("no_anchor", "a coarse pruning needs a direct thought, found NULL"))?;
    let cot = cot.ok_or_else(|| refused("empty_chain", "a coarse pruning needs a chain of thought, found NULL"))?;
    let original = steps::steps(cot);
    if original.is_empty() {
        return Err(refused("empty_chain", "a coarse pruning needs a chain of thought, found one without a step"));
    }
    let kept = extractive::core(&original, thought);
    let pruned = steps::join(kept.iter().map(|step| original[*step]));

    let original: Vec<&str> = original.into_iter().map(steps::strip).collect();
    let coarse: Vec<&str> = steps::steps(&pruned).into_iter().map(steps::strip).collect();
    if let Some(failed) = matching::walk(gestalt, &original, &coarse, threshold).failed {
        let error = format!("step {} of the pruned chain matches no step of the original", failed + 1);
        return Err(Refused { status: "invalid", error, attempts: 1 });
    }
    // Whole steps are kept, so each is known to be its own match: a walk could take an earlier one that is like it.
    let similarity = vec![1.0; kept.len()];
    Ok(Pruned { cot: pruned, kept: kept.into_iter().map(|step| step as i64 + 1).collect(), similarity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pruned_chain_cuts_into_the_steps_that_were_kept(
            cot in "([ -~]{0,9}|\\PC{0,4}|[0-9]{1,3} = [0-9]{1,3}|[ \t\r\n]{1,4}|\n\n|\r\n\r\n| {4}x_1){0,30}",
            thought in "[ -~]{0,9}",
        ) {
            let original = steps::steps(&cot);
            match extract(Some(&cot), Some(&thought), &mut Gestalt::new(false), 1.0) {
                Ok(pruned) => {
                    let kept: Vec<&str> = pruned.kept.iter().map(|step| original[*step as usize - 1]).collect();
                    prop_assert_eq!(steps::steps(&pruned.cot), kept);
                    prop_assert_eq!(pruned.similarity.len(), pruned.kept.len());
                }
                Err(refused) => {
                    prop_assert_eq!(refused.status, "empty_chain");
                    prop_assert!(original.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_threshold_that_nothing_reaches_is_no_pruning() {
        let refused = extract(Some("a\n\nb"), Some("reach: b"), &mut Gestalt::new(false), 2.0).err().unwrap();
        assert_eq!((refused.status, refused.attempts), ("invalid", 1));
        assert_eq!(refused.error, "step 1 of the pruned chain matches no step of the original");
    }
}
