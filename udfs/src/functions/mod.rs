//! The SQL functions: a declaration and the computation for a row.
//!
//! To add a function, add a file here, a line in [`all`], and a line in `tests/goldens/calls.txt`. The README's table is
//! generated. If a change alters the results of rows, also raise `RULES_VERSION` in
//! `pipelines/src/run/output/identity.rs`, so that no table mixes rows of both versions.
//!
//! | module | holds |
//! |---|---|
//! | `by_row` | functions that compute each row in place, without calls |
//! | `by_score`, `step_scores` | functions that score steps by the scoring model |
//! | `survival` | what functions share that check whether an answer survives |
//! | `by_anchorer` | functions that request a direct thought, a pruning or an answer |
//! | `needs` | what functions need from their session |

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ScalarUDF, Volatility};

use crate::anchor::Anchorers;
use crate::function::{Body, Function};
use crate::llm::Llm;
use crate::models::Models;
use crate::output::{Numbers, Output, list_of};
use by_anchorer::{AskedFunction, ByAnchorer};
use by_row::{ByRow, RowFunction};
use by_score::{ByScore, StepScore};
use cot_llmlingua2::CotLlmlingua2;
use cot_shortest_surviving::CotShortestSurviving;
use cot_spirit::CotSpirit;
use cot_survives::CotSurvives;
use needs::{Needs, SessionModels};

mod ai_complete;
mod by_anchorer;
mod by_row;
mod by_score;
mod cot_anchor;
mod cot_answer;
mod cot_budget;
mod cot_coarse;
mod cot_completion;
mod cot_control_scores;
mod cot_drop_functional;
mod cot_earliest_correct;
mod cot_example;
mod cot_fit;
mod cot_fit_with_headings;
mod cot_functions;
mod cot_llmlingua2;
mod cot_match;
mod cot_prompt;
mod cot_random;
mod cot_random_scores;
mod cot_rank;
mod cot_refine;
mod cot_refine_exactly;
mod cot_response;
mod cot_select;
mod cot_shortest_correct;
mod cot_shortest_surviving;
mod cot_similarity;
mod cot_similarity_difflib;
mod cot_spirit;
mod cot_steps;
mod cot_survives;
mod cot_think;
mod cot_tokens;
mod cot_too_long;
mod cot_trace;
mod cot_truncate;
mod cot_turns;
mod cot_unstated;
mod cot_verify;
pub(crate) mod needs;
mod step_scores;
mod survival;

/// Registers every function of asap; they share `models` and `llm`.
///
/// # Errors
/// If the registry rejects a function.
pub fn register_all(registry: &mut dyn FunctionRegistry, models: &Models, llm: &Llm) -> Result<()> {
    for function in all(SessionModels::new(models.clone(), Anchorers::new(llm.clone())))? {
        registry.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

/// Returns the functions with their declarations, to read and not to call.
///
/// # Errors
/// If the type of a result cannot be built.
pub fn declared() -> Result<Vec<Function>> {
    all(SessionModels::new(Models::default(), Anchorers::new(Llm::default())))
}

fn rows<F: RowFunction>(session: &SessionModels) -> Result<Function> {
    let body = ByRow::<F> { session: session.clone(), function: PhantomData };
    Ok(Function::new(F::DECLARATION, F::Output::data_type()?, F::Needs::VOLATILITY, Body::Rows(Arc::new(body))))
}

fn anchored<F: AskedFunction>(session: &SessionModels) -> Result<Function> {
    let body = ByAnchorer::<F> { session: session.clone(), function: PhantomData };
    let returns = F::array(&[])?.data_type().clone();
    Ok(Function::new(F::DECLARATION, returns, Volatility::Volatile, Body::Calls(Arc::new(body))))
}

fn scored(session: &SessionModels, score: StepScore) -> Function {
    let body = ByScore { session: session.clone(), score };
    Function::new(score.declaration, list_of(DataType::Float32), Volatility::Stable, Body::Calls(Arc::new(body)))
}

fn spirit(session: &SessionModels) -> Result<Function> {
    let body = CotSpirit { session: session.clone() };
    Ok(Function::new(CotSpirit::DECLARATION, Numbers::data_type()?, Volatility::Stable, Body::Calls(Arc::new(body))))
}

fn llmlingua2(session: &SessionModels) -> Result<Function> {
    let body = CotLlmlingua2 { session: session.clone() };
    Ok(Function::new(CotLlmlingua2::DECLARATION, Cow::data_type()?, Volatility::Stable, Body::Calls(Arc::new(body))))
}

fn survives(session: &SessionModels) -> Result<Function> {
    let body = CotSurvives { session: session.clone() };
    let returns = CotSurvives::data_type()?;
    Ok(Function::new(CotSurvives::DECLARATION, returns, Volatility::Stable, Body::Calls(Arc::new(body))))
}

fn shortest_surviving(session: &SessionModels) -> Result<Function> {
    let body = CotShortestSurviving { session: session.clone() };
    let returns = CotShortestSurviving::data_type()?;
    Ok(Function::new(CotShortestSurviving::DECLARATION, returns, Volatility::Stable, Body::Calls(Arc::new(body))))
}

fn all(session: SessionModels) -> Result<Vec<Function>> {
    Ok(vec![
        anchored::<ai_complete::AiComplete>(&session)?,
        anchored::<cot_anchor::CotAnchor>(&session)?,
        rows::<cot_answer::CotAnswer>(&session)?,
        scored(&session, step_scores::COT_ANSWER_GAIN),
        scored(&session, step_scores::COT_ATTRIBUTION),
        rows::<cot_budget::CotBudget>(&session)?,
        anchored::<cot_coarse::CotCoarse>(&session)?,
        rows::<cot_completion::CotCompletion>(&session)?,
        rows::<cot_control_scores::CotControlScores>(&session)?,
        rows::<cot_drop_functional::CotDropFunctional>(&session)?,
        rows::<cot_earliest_correct::CotEarliestCorrect>(&session)?,
        scored(&session, step_scores::COT_ENTROPY),
        rows::<cot_example::CotExample>(&session)?,
        rows::<cot_fit::CotFit>(&session)?,
        rows::<cot_fit_with_headings::CotFitWithHeadings>(&session)?,
        rows::<cot_functions::CotFunctions>(&session)?,
        llmlingua2(&session)?,
        rows::<cot_match::CotMatch>(&session)?,
        scored(&session, step_scores::COT_MEAN_STEP_ENTROPY),
        scored(&session, step_scores::COT_PERPLEXITY),
        rows::<cot_prompt::CotPrompt>(&session)?,
        rows::<cot_random::CotRandom>(&session)?,
        rows::<cot_random_scores::CotRandomScores>(&session)?,
        rows::<cot_rank::CotRank>(&session)?,
        rows::<cot_refine::CotRefine>(&session)?,
        rows::<cot_refine_exactly::CotRefineExactly>(&session)?,
        rows::<cot_response::CotResponse>(&session)?,
        rows::<cot_select::CotSelect>(&session)?,
        scored(&session, step_scores::COT_SELF_INFORMATION),
        rows::<cot_shortest_correct::CotShortestCorrect>(&session)?,
        shortest_surviving(&session)?,
        rows::<cot_similarity::CotSimilarity>(&session)?,
        rows::<cot_similarity_difflib::CotSimilarityDifflib>(&session)?,
        spirit(&session)?,
        scored(&session, step_scores::COT_STEP_ENTROPY),
        rows::<cot_steps::CotSteps>(&session)?,
        scored(&session, step_scores::COT_SURPRISAL),
        survives(&session)?,
        rows::<cot_think::CotThink>(&session)?,
        rows::<cot_tokens::CotTokens>(&session)?,
        rows::<cot_too_long::CotTooLong>(&session)?,
        rows::<cot_trace::CotTrace>(&session)?,
        rows::<cot_truncate::CotTruncate>(&session)?,
        rows::<cot_turns::CotTurns>(&session)?,
        rows::<cot_unstated::CotUnstated>(&session)?,
        rows::<cot_verify::CotVerify>(&session)?,
    ])
}
