//! The SQL functions: a declaration and the computation for a row.
//!
//! To add a function, add a constant to a file here or to a new one, its name to [`all`], and a line to
//! `tests/goldens/calls.txt`. docs/contributing.md has all steps, and says what to do if a change alters results.
//!
//! | module | holds |
//! |---|---|
//! | `by_row` | how functions compute each row in place, without calls |
//! | `cot_think`, `cot_turns`, `cot_steps`, `cot_tokens` | generations, conversations, chains and their lengths |
//! | `cot_answer`, `cot_match` | answers and whether they are equal, similarity of texts |
//! | `cot_refine`, `cot_random` | pruning to a budget, and the baselines of that |
//! | `cot_trace`, `cot_messages`, `cot_example` | what was pruned, messages and tokens to train on |
//! | `cot_faults` | loops, mixed scripts, cut-off generations, hollow chains, calls of tools |
//! | `by_score`, `step_scores` | scores of steps by the scoring model |
//! | `cot_survives`, `cot_shortest_surviving`, `cot_rank_surprisal` | other uses of the scoring model |
//! | `cot_selective_context`, `cot_llmlingua2` | texts without the parts that a model rates lowest |
//! | `by_anchorer`, `cot_anchor` | requests of a direct thought, a pruning or an answer |
//! | `arguments` | what functions share |

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ScalarUDF, ScalarUDFImpl};

use crate::anchor::Anchorers;
use crate::function::Function;
use crate::models::Models;
use crate::needs::SessionModels;
use asap_llm::Llm;

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
mod cot_messages;
mod cot_random;
mod cot_rank_surprisal;
mod cot_refine;
mod cot_selective_context;
mod cot_shortest_surviving;
mod cot_steps;
mod cot_survives;
mod cot_think;
mod cot_tokens;
mod cot_trace;
mod cot_turns;

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
    macro_rules! of_session {
        ($($module:ident: $($name:ident)+;)+) => { vec![$($($module::$name.of(session)?),+),+] };
    }
    let mut functions = of_session! {
        cot_anchor: AI_COMPLETE COT_ANCHOR COT_COARSE;
        cot_answer: COT_ANSWER COT_SHORTEST_CORRECT COT_TOKENSKIP_ANSWER COT_UNSTATED COT_VERIFY;
        cot_example: COT_EXAMPLE;
        cot_faults: COT_CALL_FAULTS COT_CUT_OFF COT_HOLLOW COT_REPETITION COT_SCRIPTS;
        cot_match: COT_MATCH COT_SIMILARITY COT_SIMILARITY_DIFFLIB;
        cot_messages: COT_MESSAGES COT_PRUNED_TURNS;
        cot_random: COT_CONTROL_SCORES COT_RANDOM COT_TRUNCATE;
        cot_refine: COT_FIT COT_REFINE COT_REFINE_EXACTLY COT_REFINE_OR_FIT;
        cot_steps: COT_DROP_FUNCTIONAL COT_FUNCTIONS COT_SELECT COT_STEPS;
        cot_think: COT_RESPONSE COT_THINK;
        cot_tokens: COT_BUDGET COT_NO_SCORE COT_TOKENS COT_TOO_LONG;
        cot_trace: COT_KEPT COT_TRACE;
        cot_turns: COT_COMPLETION COT_PROMPT COT_TURNS;
        step_scores: COT_ATTRIBUTION COT_ENTROPY COT_FIRST_TOKEN COT_MEAN_STEP_ENTROPY COT_PERPLEXITY COT_SELF_INFORMATION
            COT_STEP_ENTROPY COT_SURPRISAL COT_TOKEN_ENTROPIES;
    };
    functions.extend([
        cot_llmlingua2::cot_llmlingua2(session)?,
        cot_selective_context::cot_selective_context(session)?,
        cot_shortest_surviving::cot_shortest_surviving(session)?,
        cot_survives::cot_survives(session)?,
    ]);
    functions.extend(cot_rank_surprisal::functions(session)?);
    functions.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(functions)
}
