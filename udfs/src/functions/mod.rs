//! The SQL functions, one file each.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;

use crate::lm::Models;

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

/// Registers every function of asap; they share `models`.
pub fn register_all(registry: &mut dyn FunctionRegistry, models: &Models) -> Result<()> {
    for function in all(models) {
        registry.register_udf(Arc::new(function))?;
    }
    Ok(())
}

fn all(models: &Models) -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::from(cot_anchor::CotAnchor::default()),
        ScalarUDF::from(cot_budget::CotBudget::default()),
        ScalarUDF::from(cot_coarse::CotCoarse::default()),
        ScalarUDF::from(cot_completion::CotCompletion::default()),
        ScalarUDF::from(cot_entropy::CotEntropy::new(models.clone())),
        ScalarUDF::from(cot_match::CotMatch::default()),
        ScalarUDF::from(cot_perplexity::CotPerplexity::new(models.clone())),
        ScalarUDF::from(cot_prompt::CotPrompt::default()),
        ScalarUDF::from(cot_random::CotRandom::new(models.clone())),
        ScalarUDF::from(cot_refine::CotRefine::new(models.clone())),
        ScalarUDF::from(cot_response::CotResponse::default()),
        ScalarUDF::from(cot_select::CotSelect::default()),
        ScalarUDF::from(cot_similarity::CotSimilarity::default()),
        ScalarUDF::from(cot_similarity_difflib::CotSimilarityDifflib::default()),
        ScalarUDF::from(cot_steps::CotSteps::default()),
        ScalarUDF::from(cot_surprisal::CotSurprisal::new(models.clone())),
        ScalarUDF::from(cot_think::CotThink::default()),
        ScalarUDF::from(cot_tokens::CotTokens::new(models.clone())),
        ScalarUDF::from(cot_too_long::CotTooLong::new(models.clone())),
        ScalarUDF::from(cot_trace::CotTrace::new(models.clone())),
        ScalarUDF::from(cot_truncate::CotTruncate::new(models.clone())),
        ScalarUDF::from(cot_turns::CotTurns::default()),
    ]
}
