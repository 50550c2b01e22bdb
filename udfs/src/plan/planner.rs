//! Plans fences as physical operators.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::FenceExec;
use super::node::Fence;
use super::planned::PlannedCall;
use super::preflight::each_function;
use crate::function::Function;

/// The engine's planner with support for fences. It also passes the query's memory pool to functions.
#[derive(Debug)]
pub struct FenceQueryPlanner;

#[async_trait]
impl QueryPlanner for FenceQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        // An expression does not receive its query's memory pool when it is evaluated.
        each_function(plan, |function| {
            if let Some(function) = Function::of(function) {
                function.remember_in(&session.runtime_env().memory_pool);
            }
            Ok(())
        })?;
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(FencePlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

/// The extension planner of fences, for sessions with other extension planners.
#[derive(Debug)]
pub struct FencePlanner;

#[async_trait]
impl ExtensionPlanner for FencePlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(fence) = Fence::of(node) else { return Ok(None) };
        let (logical, physical) = (logical_inputs[0].schema(), Arc::clone(&physical_inputs[0]));
        let schema = physical.schema();
        let calls = fence.calls.iter().map(|call| {
            let expression = planner.create_physical_expr(&call.expression(), logical, session, context)?;
            PlannedCall::try_new(expression, &call.column, &schema)
        });
        Ok(Some(Arc::new(FenceExec::try_new(physical, calls.collect::<Result<_>>()?)?)))
    }
}
