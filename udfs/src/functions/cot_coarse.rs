use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, Float64Builder, Int64Array, Int64Builder, ListBuilder, StringArray, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Documentation, Signature, Volatility};
use datafusion_macros::user_doc;

use super::asked;
use crate::args::{self, Arg};
use crate::cores;
use crate::kernels::gestalt::Gestalt;
use crate::kernels::{matching, steps};
use crate::llm::anchoring::{self, NO_MATCH, OK, Pruned};
use crate::llm::{Coarse, Llm, Spent, extractive};
use crate::plan::{AsyncCall, CallArgs, Meter};
use crate::settings::{Provider, Settings};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The coarse pruning of a chain of thought by its direct thought, validated by Algorithm 1, in a struct of cot (the steps that are left, joined by a blank line), kept (their places in cot_steps(cot)), similarity (of each to the step that it matched), attempts (answers that were asked for), status, error, tokens_in, tokens_out and cached. The status is 'ok', 'no_anchor' for a NULL thought, 'empty_chain' for a chain that is NULL or holds no step, or 'no_match' where Algorithm 1 refuses every attempt; then cot, kept and similarity are NULL and error says why. The language model of `asap.anchor.*` prunes, at temperature 1 and by the prompt coarse.md, up to asap.anchor.max_attempts times; then the row is rejected or, by asap.anchor.on_no_match = 'keep_original', kept whole. With asap.anchor.snap each step is replaced by the original one that it matched. A call that failed is the row's status (timeout, rate_limited, unavailable, denied, refused, bad_response, too_long or budget). With asap.anchor.provider = 'extractive' no language model is asked: backward from the step that says the answer, whole steps are kept that bring a word, value or name which the thought or a kept later step uses; where that is less than a third of the chain, slightly needed steps fill it up. That is a stand-in which follows words, not sense; tokens are 0.",
    syntax_example = "cot_coarse(cot, thought)",
    sql_example = "select cot_coarse(E'Let me see.\\n\\n12 * 8 = 96.\\n\\nOr is it 12 + 8 = 20?\\n\\n3 * 96 = 288, so 288 rolls.', 'reach: 288 rolls')['kept'];\n-- [2, 4]",
    argument(name = "cot", description = "The chain of thought."),
    argument(name = "thought", description = "The direct thought, as cot_anchor gives it.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotCoarse {
    signature: Signature,
    llm: Llm,
}

impl CotCoarse {
    pub fn new(llm: Llm) -> Self {
        Self { signature: Signature::user_defined(Volatility::Volatile), llm }
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

#[async_trait]
impl AsyncCall for CotCoarse {
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

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }

    fn window(&self, config: &ConfigOptions) -> usize {
        asked::window(config)
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.llm.statement(context))
    }

    async fn call(&self, args: &CallArgs, meter: &Arc<Meter>) -> Result<ArrayRef> {
        let settings = Settings::of(args.config())?;
        let prunings = match settings.anchor_provider {
            Provider::Extractive => extracted(args.arrays.clone(), settings.match_threshold.0).await?,
            Provider::Openai | Provider::Local => {
                let anchoring = &self.llm.anchoring(settings)?.within(self.llm.statement(&args.context));
                let (chains, thoughts) = (args::texts(&args.arrays[0]), args::texts(&args.arrays[1]));
                asked::rows(args.rows, |row| async move {
                    let pruning = anchoring.coarse(args::text_at(chains, row), args::text_at(thoughts, row)).await?;
                    asked::record(meter, &pruning);
                    Ok(pruning)
                })
                .await?
            }
        };
        asked::check(self.name(), settings, &prunings)?;
        Ok(Arc::new(StructArray::try_new(fields(), columns(&prunings), None)?))
    }
}

fn columns(prunings: &[Coarse]) -> Vec<ArrayRef> {
    let mut kept = ListBuilder::new(Int64Builder::new());
    let mut similarity = ListBuilder::new(Float64Builder::new());
    for Coarse { pruned, .. } in prunings {
        kept.append_option(pruned.as_ref().map(|pruned| pruned.kept.iter().copied().map(Some)));
        similarity.append_option(pruned.as_ref().map(|pruned| pruned.similarity.iter().copied().map(Some)));
    }
    let chains = prunings.iter().map(|pruning| pruning.pruned.as_ref().map(|pruned| pruned.cot.as_str()));
    let attempts = prunings.iter().map(|pruning| i64::from(pruning.spent.attempts));
    let own: [ArrayRef; 4] = [
        Arc::new(chains.collect::<StringArray>()),
        Arc::new(kept.finish()),
        Arc::new(similarity.finish()),
        Arc::new(attempts.collect::<Int64Array>()),
    ];
    own.into_iter().chain(asked::columns(prunings)).collect()
}

async fn extracted(arrays: Vec<ArrayRef>, threshold: f64) -> Result<Vec<Coarse>> {
    cores::run(move || {
        let mut gestalt = Gestalt::new(false);
        let rows = args::texts(&arrays[0]).iter().zip(args::texts(&arrays[1]).iter());
        Ok(rows.map(|(cot, thought)| extract(cot, thought, &mut gestalt, threshold)).collect())
    })
    .await
}

fn extract(cot: Option<&str>, thought: Option<&str>, gestalt: &mut Gestalt, threshold: f64) -> Coarse {
    let refused = |status, error| Coarse { pruned: None, status, error: Some(error), spent: Spent::default() };
    let (original, _, thought) = match anchoring::chain(cot, thought) {
        Ok(given) => given,
        Err((status, error)) => return refused(status, error.to_string()),
    };
    let kept = extractive::core(&original, thought);
    let cot = steps::join(kept.iter().map(|step| original[*step]));

    let original: Vec<&str> = original.into_iter().map(steps::strip).collect();
    let coarse: Vec<&str> = steps::steps(&cot).into_iter().map(steps::strip).collect();
    if let Some(failed) = matching::walk(gestalt, &original, &coarse, threshold).failed {
        return refused(NO_MATCH, format!("step {} of the pruned chain matches no step of the original", failed + 1));
    }
    // Whole steps are kept, so each is known to be its own match: a walk could take an earlier one that is like it.
    let similarity = vec![1.0; kept.len()];
    let kept = kept.into_iter().map(|step| step as i64 + 1).collect();
    Coarse { pruned: Some(Pruned { cot, kept, similarity }), status: OK, error: None, spent: Spent::default() }
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
            let pruning = extract(Some(&cot), Some(&thought), &mut Gestalt::new(false), 1.0);
            match pruning.pruned {
                Some(pruned) => {
                    let kept: Vec<&str> = pruned.kept.iter().map(|step| original[*step as usize - 1]).collect();
                    prop_assert_eq!(steps::steps(&pruned.cot), kept);
                    prop_assert_eq!(pruned.similarity.len(), pruned.kept.len());
                }
                None => {
                    prop_assert_eq!(pruning.status, "empty_chain");
                    prop_assert!(original.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_threshold_that_nothing_reaches_is_no_pruning() {
        let refused = extract(Some("a\n\nb"), Some("reach: b"), &mut Gestalt::new(false), 2.0);
        assert_eq!((refused.status, refused.spent.attempts), ("no_match", 0));
        assert_eq!(refused.error.as_deref(), Some("step 1 of the pruned chain matches no step of the original"));
    }
}
