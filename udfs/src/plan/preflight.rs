//! Loads and checks what a query needs during planning. A missing model, a wrong setting or a wrong prompt is then one
//! clear error before any row is read or any call is paid for.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use super::node::{Fence, FencedCall};
use crate::function::{Asking, Function};

#[derive(Debug)]
pub struct Preflight;

impl AnalyzerRule for Preflight {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        each_function(&plan, |function| Function::of(function).map_or(Ok(()), |function| function.prepare(config)))?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "preflight"
    }
}

/// Visits the function of every call in a plan, including calls in fences.
pub(super) fn each_function(plan: &LogicalPlan, mut visit: impl FnMut(&ScalarUDF) -> Result<()>) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        // Plans of views already contain fences.
        for call in Fence::of_plan(node).iter().flat_map(|fence| &fence.calls) {
            visit(&call.function)?;
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    visit(&call.func)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsedModels {
    /// Whether calls use `asap.anchor.provider`, for direct thoughts, prunings or answers.
    pub anchorer: bool,
    /// Whether calls use `asap.scorer.model`, for scores.
    pub scorer: bool,
    /// Whether calls use `asap.compressor.model`, to compress texts.
    pub encoder: bool,
    /// Whether the scoring model reads answers along with their chains.
    pub reads_answers: bool,
    /// Whether scores decide what the scoring model reads next.
    pub reads_by_scores: bool,
}

/// Returns the models that the calls of a plan use.
///
/// # Errors
/// If the plan cannot be walked.
pub fn used_models(plan: &LogicalPlan) -> Result<UsedModels> {
    let mut used = UsedModels::default();
    each_function(plan, |function| {
        if let Some(call) = Function::call_of(function) {
            let Asking { is_of_language_model, is_of_encoder, scorer, reads_by_scores, .. } = call.asking();
            used.anchorer |= is_of_language_model;
            used.encoder |= is_of_encoder;
            used.scorer |= scorer.is_some();
            used.reads_by_scores |= reads_by_scores;
            used.reads_answers |=
                scorer.is_some() && Function::of(function).is_some_and(|function| function.takes("answer"));
        }
        Ok(())
    })?;
    Ok(used)
}

/// Returns the part of an optimized plan up to its highest fence with a call to a language model, the scoring model or
/// the encoder.
///
/// # Errors
/// If the plan cannot be walked.
pub fn calling_part(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        let asks = |call: &FencedCall| {
            let asking = Function::call_of(&call.function).map(|call| call.asking()).unwrap_or_default();
            asking.is_of_language_model || asking.scorer.is_some() || asking.is_of_encoder
        };
        if Fence::of_plan(node).is_some_and(|fence| fence.calls.iter().any(asks)) {
            found = Some(node.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
