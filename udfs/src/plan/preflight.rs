//! What a query needs is loaded and checked when it is planned, so that a missing model, a wrong setting or a wrong prompt
//! is one clear error before any row is read or any call is paid for.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::node::Fence;
use crate::llm::Llm;
use crate::lm::Models;
use crate::settings::{Provider, Settings};

/// Functions that count tokens of the scoring model.
const BY_TOKENIZER: [&str; 5] = ["cot_tokens", "cot_refine", "cot_random", "cot_truncate", "cot_trace"];
/// Functions that call the scoring model.
const BY_MODEL: [&str; 4] = ["cot_surprisal", "cot_perplexity", "cot_entropy", "cot_too_long"];
/// Functions that ask a language model, or what stands in for one.
const BY_ANCHOR: [&str; 2] = ["cot_anchor", "cot_coarse"];
/// Functions that nothing stands in for.
const BY_LLM: [&str; 1] = ["ai_complete"];

/// Loads the scoring model, or its tokenizer, and prepares the language model for a plan whose functions need them.
#[derive(Debug)]
pub struct Preflight {
    models: Models,
    llm: Llm,
}

/// What the functions of a plan need.
#[derive(Debug, Default)]
struct Needs {
    tokenizer: bool,
    model: bool,
    anchor: bool,
    llm: bool,
}

impl Preflight {
    /// Loads into `models` and `llm`.
    pub fn new(models: Models, llm: Llm) -> Self {
        Self { models, llm }
    }
}

impl AnalyzerRule for Preflight {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let needs = Needs::of(&plan)?;
        if needs.model {
            self.models.scorer(config)?;
        } else if needs.tokenizer {
            self.models.tokenizer(config)?;
        }
        if needs.anchor || needs.llm {
            let settings = Settings::of(config)?;
            if needs.llm || settings.anchor_provider != Provider::Extractive {
                self.llm.anchoring(settings)?;
            }
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        "preflight"
    }
}

impl Needs {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut needs = Self::default();
        plan.apply_with_subqueries(|node| {
            // Views bring calls along that are behind fences already.
            Fence::of_plan(node).iter().flat_map(|fence| &fence.calls).for_each(|call| needs.add(call.function.name()));
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(call) = expr {
                        needs.add(call.name());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(needs)
    }

    fn add(&mut self, function: &str) {
        self.tokenizer |= BY_TOKENIZER.contains(&function);
        self.model |= BY_MODEL.contains(&function);
        self.anchor |= BY_ANCHOR.contains(&function);
        self.llm |= BY_LLM.contains(&function);
    }
}

/// The part of an optimised plan up to its highest fence that asks a language model; None if it asks none.
///
/// # Errors
/// If the plan cannot be walked.
pub fn asking_part(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        let asks = |name: &str| BY_ANCHOR.contains(&name) || BY_LLM.contains(&name);
        if Fence::of_plan(node).is_some_and(|fence| fence.calls.iter().any(|call| asks(call.function.name()))) {
            found = Some(node.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
