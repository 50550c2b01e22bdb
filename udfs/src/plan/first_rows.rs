//! Sorts before calls if only the first rows are needed and the sort keys do not depend on a call.
//!
//! ```text
//!   Sort length(x), fetch 3        Projection f
//!     Projection f, x                Fence f(x)
//!       Fence f(x)                     Sort length(x), fetch 3
//!         Scan                           Scan
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort, SortExpr};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::node::Fence;

/// Moves a sort with a limit below the fences whose results it does not read. A fence keeps rows and their order, so
/// calls are then made for the first rows only.
#[derive(Debug)]
pub struct SortBeforeCalls;

impl OptimizerRule for SortBeforeCalls {
    fn name(&self) -> &str {
        "sort_before_calls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Sort(sort) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(fetch) = sort.fetch else { return Ok(Transformed::no(plan)) };
        Ok(match sorted_beneath(&sort.input, sort.expr.clone(), fetch)? {
            Some(sorted) => Transformed::yes(sorted),
            None => Transformed::no(plan),
        })
    }
}

/// Returns the node with the sort below its lowest independent fence; None if there is no such fence.
fn sorted_beneath(node: &LogicalPlan, keys: Vec<SortExpr>, fetch: usize) -> Result<Option<LogicalPlan>> {
    if let LogicalPlan::Projection(projection) = node {
        let keys: Vec<SortExpr> = keys.into_iter().map(|key| beneath(key, projection)).collect::<Result<_>>()?;
        if keys.iter().any(|key| key.expr.is_volatile()) {
            return Ok(None);
        }
        let Some(input) = sorted_beneath(&projection.input, keys, fetch)? else { return Ok(None) };
        return Ok(Some(LogicalPlan::Projection(Projection::try_new(projection.expr.clone(), Arc::new(input))?)));
    }
    let Some(fence) = Fence::of_plan(node) else { return Ok(None) };
    let is_result = |name: &str| fence.calls.iter().any(|call| call.column == name);
    if keys.iter().any(|key| key.expr.column_refs().iter().any(|column| is_result(&column.name))) {
        return Ok(None);
    }
    let input = match sorted_beneath(&fence.input, keys.clone(), fetch)? {
        Some(input) => input,
        None => LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(fence.input.clone()), fetch: Some(fetch) }),
    };
    Ok(Some(Fence::try_new(input, fence.calls.clone())?.into_plan()))
}

fn beneath(key: SortExpr, projection: &Projection) -> Result<SortExpr> {
    let expr = key.expr.clone().transform_up(|expr| match &expr {
        Expr::Column(column) => {
            let place = projection.schema.index_of_column(column)?;
            Ok(Transformed::yes(projection.expr[place].clone().unalias()))
        }
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(key.with_expr(expr.data))
}
