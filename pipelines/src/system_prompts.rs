//! System prompts and conversations of a pipeline: the scoring model reads what the trained model will read.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::functions::core::named_struct;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF, lit};

use asap_udfs::reading::{ASKED, TURNS};

pub(crate) const QUESTION: &str = "question";
pub(crate) const SYSTEM: &str = "system";

/// The functions whose first argument precedes what a model reads. Each also accepts a conversation there.
pub(crate) const OF_PROMPTS: &str = "cot_attribution cot_closest_correct cot_entropy cot_example cot_first_token \
    cot_mean_step_entropy cot_no_score cot_perplexity cot_rank_surprisal cot_shortest_surviving cot_step_entropy \
    cot_step_rank_surprisal cot_surprisal cot_survives cot_token_entropies cot_too_long";

/// Those of them that read a conversation with several exchanges or tools, of which the steps are those of all thoughts.
const OF_TURNS: &str = "cot_entropy cot_first_token cot_mean_step_entropy cot_no_score cot_perplexity \
    cot_shortest_surviving cot_step_entropy cot_surprisal cot_survives cot_token_entropies cot_too_long";

/// What they read, in SQL.
pub(crate) const READ_PROMPT: &str = "named_struct('question', question, 'system', system, 'turns', turns)";

/// Whether an expression is what [`with_system_prompts`] gives the functions of [`OF_TURNS`].
pub(crate) fn reads_turns(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == named_struct().name() && call.args.len() == 2 * ASKED.len())
}

/// Rewrites a query: each function of [`OF_PROMPTS`] that reads the column `question` also gets the row's system
/// prompt, if the query has one, and those of [`OF_TURNS`] and of budgets its turns. `prompt` is the function that makes a
/// conversation of question and system prompt.
pub(crate) fn with_system_prompts(query: LogicalPlan, prompt: &Arc<ScalarUDF>) -> Result<LogicalPlan> {
    let rewritten = query.transform_up(|plan| {
        let columns = || plan.inputs().into_iter().flat_map(|input| input.schema().columns());
        let [systems, turns]: [Vec<Column>; 2] =
            [SYSTEM, TURNS].map(|name| columns().filter(|held| held.name == name).collect());
        if systems.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        let changed = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| Ok(with_system(expr, &systems, &turns, prompt)))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        changed.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(rewritten.data)
}

fn with_system(expr: Expr, systems: &[Column], turns: &[Column], prompt: &Arc<ScalarUDF>) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else { return Transformed::no(expr) };
    if let ("cot_refine" | "cot_refine_or_fit", 3, [turns]) = (call.func.name(), call.args.len(), turns) {
        call.args.push(Expr::Column(turns.clone()));
        return Transformed::yes(Expr::ScalarFunction(call));
    }
    let asked = match call.args.first() {
        Some(Expr::Column(column))
            if column.name == QUESTION && OF_PROMPTS.split(' ').any(|name| name == call.func.name()) =>
        {
            column.clone()
        }
        _ => return Transformed::no(Expr::ScalarFunction(call)),
    };
    let Some(system) = systems.iter().find(|system| system.relation == asked.relation) else {
        return Transformed::no(Expr::ScalarFunction(call));
    };
    let turns = turns.iter().find(|turns| turns.relation == asked.relation);
    let turns = turns.filter(|_| OF_TURNS.split(' ').any(|name| name == call.func.name()));
    let held = [Some(asked), Some(system.clone()), turns.cloned()].into_iter().flatten().map(Expr::Column);
    call.args[0] = match turns {
        Some(_) => named_struct().call(ASKED.iter().zip(held).flat_map(|(name, held)| [lit(*name), held]).collect()),
        None => Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(prompt), held.collect())),
    };
    Transformed::yes(Expr::ScalarFunction(call))
}

#[cfg(test)]
mod tests {
    use asap_llm::Llm;
    use asap_udfs::Settings;

    use super::*;
    use crate::session::session;

    #[test]
    fn every_function_that_takes_a_conversation_for_a_question_is_known() {
        let session = session(Settings::default(), &Llm::default()).unwrap();
        let state = session.state();
        let takes_one = |function: &&Arc<ScalarUDF>| {
            let first =
                function.documentation().and_then(|documentation| documentation.arguments.as_ref()?.first().cloned());
            first.is_some_and(|(_, about)| {
                about.contains("a conversation with its system prompt, such as `cot_prompt` returns")
            })
        };
        let mut found: Vec<&str> =
            state.scalar_functions().values().filter(takes_one).map(|function| function.name()).collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), OF_PROMPTS);
    }
}
