//! Removes calls whose results nothing reads: they would cost money for nothing.

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::node::Fence;

/// The rule. It must run after the engine's rules, which drop unread expressions.
#[derive(Debug)]
pub struct DropUnreadCalls;

impl OptimizerRule for DropUnreadCalls {
    fn name(&self) -> &str {
        "drop_unread_calls"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let read = columns_read(&plan)?;
        let is_unread = |fence: &Fence| fence.calls.iter().any(|call| !read.contains(&call.column));
        let mut is_changed = false;
        plan.transform_up_with_subqueries(|node| {
            is_changed |= Fence::of_plan(&node).is_some_and(is_unread);
            // Every node above a removed column has one column less.
            Ok(match is_changed {
                true => Transformed::yes(without_unread(node, &read)?.recompute_schema()?),
                false => Transformed::no(node),
            })
        })
    }
}

/// Returns the names of all columns in expressions. The column of a call has a unique name, so its name identifies it.
fn columns_read(plan: &LogicalPlan) -> Result<HashSet<String>> {
    let mut read = HashSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
                    read.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(read)
}

fn without_unread(node: LogicalPlan, read: &HashSet<String>) -> Result<LogicalPlan> {
    let Some(fence) = Fence::of_plan(&node) else { return Ok(node) };
    let kept: Vec<_> = fence.calls.iter().filter(|call| read.contains(&call.column)).cloned().collect();
    let input = fence.input.clone();
    Ok(if kept.is_empty() { input } else { Fence::try_new(input, kept)?.into_plan() })
}
