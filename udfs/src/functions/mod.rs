//! The SQL functions, one file each.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;

use crate::llm::Llm;
use crate::lm::Models;
use crate::plan::{AsyncCall, AsyncFunction};

mod ai_complete;
mod asked;
mod cot_anchor;
mod cot_budget;
mod cot_coarse;
mod cot_completion;
mod cot_entropy;
mod cot_match;
mod cot_perplexity;
mod cot_prompt;
mod cot_random;
mod cot_refine;
mod cot_response;
mod cot_select;
mod cot_similarity;
mod cot_similarity_difflib;
mod cot_steps;
mod cot_surprisal;
mod cot_think;
mod cot_tokens;
mod cot_too_long;
mod cot_trace;
mod cot_truncate;
mod cot_turns;
mod scored;

/// Registers every function of asap; they share `models` and `llm`.
///
/// # Errors
/// If the registry takes no functions.
pub fn register_all(registry: &mut dyn FunctionRegistry, models: &Models, llm: &Llm) -> Result<()> {
    for function in all(models, llm) {
        registry.register_udf(Arc::new(function))?;
    }
    Ok(())
}

fn call(call: impl AsyncCall) -> ScalarUDF {
    ScalarUDF::from(AsyncFunction::new(call))
}

fn all(models: &Models, llm: &Llm) -> Vec<ScalarUDF> {
    vec![
        call(ai_complete::AiComplete::new(llm.clone())),
        call(cot_anchor::CotAnchor::new(llm.clone())),
        ScalarUDF::from(cot_budget::CotBudget::default()),
        call(cot_coarse::CotCoarse::new(llm.clone())),
        ScalarUDF::from(cot_completion::CotCompletion::default()),
        call(cot_entropy::CotEntropy::new(models.clone())),
        ScalarUDF::from(cot_match::CotMatch::default()),
        call(cot_perplexity::CotPerplexity::new(models.clone())),
        ScalarUDF::from(cot_prompt::CotPrompt::default()),
        ScalarUDF::from(cot_random::CotRandom::new(models.clone())),
        ScalarUDF::from(cot_refine::CotRefine::new(models.clone())),
        ScalarUDF::from(cot_response::CotResponse::default()),
        ScalarUDF::from(cot_select::CotSelect::default()),
        ScalarUDF::from(cot_similarity::CotSimilarity::default()),
        ScalarUDF::from(cot_similarity_difflib::CotSimilarityDifflib::default()),
        ScalarUDF::from(cot_steps::CotSteps::default()),
        call(cot_surprisal::CotSurprisal::new(models.clone())),
        ScalarUDF::from(cot_think::CotThink::default()),
        ScalarUDF::from(cot_tokens::CotTokens::new(models.clone())),
        ScalarUDF::from(cot_too_long::CotTooLong::new(models.clone())),
        ScalarUDF::from(cot_trace::CotTrace::new(models.clone())),
        ScalarUDF::from(cot_truncate::CotTruncate::new(models.clone())),
        ScalarUDF::from(cot_turns::CotTurns::default()),
    ]
}
