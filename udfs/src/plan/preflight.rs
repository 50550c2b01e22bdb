//! What a query needs is loaded when it is planned, so that a missing or wrong model is one clear error before any row
//! is read.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::lm::Models;

/// Functions that count tokens of the scoring model.
const BY_TOKENIZER: [&str; 5] = ["cot_tokens", "cot_refine", "cot_random", "cot_truncate", "cot_trace"];
/// Functions that call the scoring model.
const BY_MODEL: [&str; 4] = ["cot_surprisal", "cot_perplexity", "cot_entropy", "cot_too_long"];

/// Loads the scoring model, or its tokenizer, for a plan whose functions need it.
#[derive(Debug)]
pub struct Preflight {
    models: Models,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    Tokenizer,
    Model,
}

impl Preflight {
    /// Loads into `models`.
    pub fn new(models: Models) -> Self {
        Self { models }
    }
}

impl AnalyzerRule for Preflight {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match need_of(&plan)? {
            Need::Nothing => {}
            Need::Tokenizer => {
                self.models.tokenizer(config)?;
            }
            Need::Model => {
                self.models.scorer(config)?;
            }
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        "preflight"
    }
}

fn need_of(plan: &LogicalPlan) -> Result<Need> {
    let mut need = Need::Nothing;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                need = need.max(need_of_expression(expr));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(need)
}

fn need_of_expression(expr: &Expr) -> Need {
    match expr {
        Expr::ScalarFunction(call) if BY_MODEL.contains(&call.name()) => Need::Model,
        Expr::ScalarFunction(call) if BY_TOKENIZER.contains(&call.name()) => Need::Tokenizer,
        _ => Need::Nothing,
    }
}
