//! The SQL functions: a declaration and the computation for a row.
//!
//! To add a function, add a constant to a file here or to a new one, a line in [`all`], and a line in
//! `tests/goldens/calls.txt`. docs/contributing.md has all steps. If a change alters the results of rows, also raise
//! `RULES_VERSION` in `pipelines/src/run/output/identity.rs`, so that no table mixes rows of both versions.
//!
//! | module | holds |
//! |---|---|
//! | `by_row` | how functions compute each row in place, without calls |
//! | `cot_think`, `cot_turns`, `cot_steps`, `cot_tokens` | generations, conversations, chains and their lengths |
//! | `cot_answer`, `cot_match` | answers and whether they are equal, similarity of texts |
//! | `cot_refine`, `cot_random` | pruning to a budget, and the baselines of that |
//! | `cot_trace`, `cot_example` | what was pruned, and tokens to train on |
//! | `cot_faults` | loops, mixed scripts, cut-off generations, hollow chains |
//! | `by_score`, `step_scores` | scores of steps by the scoring model |
//! | `cot_survives`, `cot_shortest_surviving`, `cot_spirit` | other uses of the scoring model |
//! | `cot_selective_context`, `cot_llmlingua2` | texts without the parts that a model rates lowest |
//! | `by_anchorer`, `cot_anchor` | requests of a direct thought, a pruning or an answer |
//! | `arguments`, `needs` | what functions share: arguments, and what they need from their session |

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;

use crate::anchor::Anchorers;
use crate::function::Function;
use crate::models::Models;
use asap_llm::Llm;
use needs::SessionModels;

mod arguments;
mod by_anchorer;
mod by_row;
mod by_score;
mod cot_anchor;
mod cot_answer;
mod cot_example;
mod cot_faults;
mod cot_llmlingua2;
mod cot_match;
mod cot_random;
mod cot_refine;
mod cot_selective_context;
mod cot_shortest_surviving;
mod cot_spirit;
mod cot_steps;
mod cot_survives;
mod cot_think;
mod cot_tokens;
mod cot_trace;
mod cot_turns;
pub(crate) mod needs;
mod step_scores;

/// Registers every function of asap; they share `models` and `llm`. Fails if the registry rejects a function.
pub fn register_all(registry: &mut dyn FunctionRegistry, models: &Models, llm: &Llm) -> Result<()> {
    for function in all(&SessionModels::new(models.clone(), Anchorers::new(llm.clone())))? {
        registry.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

/// Returns the functions with their declarations, to read and not to call. Fails if the type of a result cannot be
/// built.
pub fn declared() -> Result<Vec<Function>> {
    all(&SessionModels::new(Models::default(), Anchorers::new(Llm::default())))
}

fn all(session: &SessionModels) -> Result<Vec<Function>> {
    Ok(vec![
        cot_anchor::AI_COMPLETE.of(session)?,
        cot_anchor::COT_ANCHOR.of(session)?,
        cot_answer::COT_ANSWER.of(session)?,
        step_scores::COT_ANSWER_GAIN.of(session)?,
        step_scores::COT_ATTRIBUTION.of(session)?,
        cot_tokens::COT_BUDGET.of(session)?,
        cot_anchor::COT_COARSE.of(session)?,
        cot_turns::COT_COMPLETION.of(session)?,
        cot_random::COT_CONTROL_SCORES.of(session)?,
        cot_faults::COT_CUT_OFF.of(session)?,
        cot_steps::COT_DROP_FUNCTIONAL.of(session)?,
        cot_answer::COT_EARLIEST_CORRECT.of(session)?,
        step_scores::COT_ENTROPY.of(session)?,
        cot_example::COT_EXAMPLE.of(session)?,
        step_scores::COT_FIRST_TOKEN.of(session)?,
        cot_refine::COT_FIT.of(session)?,
        cot_refine::COT_FIT_WITH_HEADINGS.of(session)?,
        cot_steps::COT_FUNCTIONS.of(session)?,
        cot_faults::COT_HOLLOW.of(session)?,
        cot_llmlingua2::cot_llmlingua2(session)?,
        cot_match::COT_MATCH.of(session)?,
        step_scores::COT_MEAN_STEP_ENTROPY.of(session)?,
        step_scores::COT_PERPLEXITY.of(session)?,
        cot_turns::COT_PROMPT.of(session)?,
        cot_random::COT_RANDOM.of(session)?,
        cot_random::COT_RANDOM_SCORES.of(session)?,
        cot_random::COT_RANK.of(session)?,
        cot_refine::COT_REFINE.of(session)?,
        cot_refine::COT_REFINE_EXACTLY.of(session)?,
        cot_refine::COT_REFINE_OR_FIT.of(session)?,
        cot_faults::COT_REPETITION.of(session)?,
        cot_think::COT_RESPONSE.of(session)?,
        cot_faults::COT_SCRIPTS.of(session)?,
        cot_steps::COT_SELECT.of(session)?,
        cot_selective_context::cot_selective_context(session)?,
        step_scores::COT_SELF_INFORMATION.of(session)?,
        cot_answer::COT_SHORTEST_CORRECT.of(session)?,
        cot_shortest_surviving::cot_shortest_surviving(session)?,
        cot_match::COT_SIMILARITY.of(session)?,
        cot_match::COT_SIMILARITY_DIFFLIB.of(session)?,
        cot_spirit::cot_spirit(session)?,
        step_scores::COT_STEP_ENTROPY.of(session)?,
        cot_steps::COT_STEPS.of(session)?,
        step_scores::COT_SURPRISAL.of(session)?,
        cot_survives::cot_survives(session)?,
        cot_think::COT_THINK.of(session)?,
        step_scores::COT_TOKEN_ENTROPIES.of(session)?,
        cot_tokens::COT_TOKENS.of(session)?,
        cot_tokens::COT_TOO_LONG.of(session)?,
        cot_trace::COT_TRACE.of(session)?,
        cot_random::COT_TRUNCATE.of(session)?,
        cot_turns::COT_TURNS.of(session)?,
        cot_answer::COT_UNSTATED.of(session)?,
        cot_answer::COT_VERIFY.of(session)?,
    ])
}
