//! System prompts of a pipeline: the scoring model reads the same prompt that the trained model will read.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};

pub(crate) const QUESTION: &str = "question";
pub(crate) const SYSTEM: &str = "system";

/// The functions whose first argument precedes what a model reads. Each also accepts a conversation there.
pub(crate) const OF_PROMPTS: &str = "cot_attribution cot_closest_correct cot_entropy cot_example cot_first_token \
    cot_mean_step_entropy cot_no_score cot_perplexity cot_rank_surprisal cot_shortest_surviving cot_step_entropy \
    cot_step_rank_surprisal cot_surprisal cot_survives cot_token_entropies cot_too_long";

/// Rewrites a query: each function of [`OF_PROMPTS`] that reads the column `question` also gets the row's system
/// prompt, if the query has one. `prompt` is the function that makes a conversation of both.
pub(crate) fn with_system_prompts(query: LogicalPlan, prompt: &Arc<ScalarUDF>) -> Result<LogicalPlan> {
    let rewritten = query.transform_up(|plan| {
        let systems: Vec<Column> = plan
            .inputs()
            .iter()
            .flat_map(|input| input.schema().columns())
            .filter(|held| held.name == SYSTEM)
            .collect();
        if systems.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        let changed = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| Ok(with_system(expr, &systems, prompt)))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        changed.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(rewritten.data)
}

fn with_system(expr: Expr, systems: &[Column], prompt: &Arc<ScalarUDF>) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else { return Transformed::no(expr) };
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
    let both = vec![Expr::Column(asked), Expr::Column(system.clone())];
    call.args[0] = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(prompt), both));
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
