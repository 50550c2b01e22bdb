//! The logical node of a fence.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_datafusion_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, ScalarUDF, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};

/// Makes calls for each row of its input and appends their results as columns.
///
/// The optimizer sees only the calls' arguments, so it cannot copy, fold or move a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    pub(super) input: LogicalPlan,
    pub(super) calls: Vec<FencedCall>,
    schema: DFSchemaRef,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FencedCall {
    pub(super) function: Arc<ScalarUDF>,
    pub(super) args: Vec<Expr>,
    pub(super) column: String,
}

impl FencedCall {
    pub(super) fn expression(&self) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.function), self.args.clone()))
    }
}

impl Fence {
    pub(super) fn try_new(input: LogicalPlan, calls: Vec<FencedCall>) -> Result<Self> {
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        for call in &calls {
            let (_, field) = call.expression().to_field(input.schema())?;
            fields.push((None, Arc::new(field.as_ref().clone().with_name(&call.column))));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(Self { input, calls, schema })
    }

    pub(super) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(super) fn of(node: &dyn UserDefinedLogicalNode) -> Option<&Self> {
        node.as_any().downcast_ref()
    }

    pub(super) fn of_plan(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => Self::of(extension.node.as_ref()),
            _ => None,
        }
    }
}

// The engine requires that nodes compare as equal only if they are equal.
impl PartialOrd for Fence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let columns = |fence: &Self| fence.calls.iter().map(|call| call.column.clone()).collect::<Vec<_>>();
        match self.input.partial_cmp(&other.input)?.then_with(|| columns(self).cmp(&columns(other))) {
            Ordering::Equal if self != other => None,
            ordering => Some(ordering),
        }
    }
}

impl UserDefinedLogicalNodeCore for Fence {
    fn name(&self) -> &str {
        "Fence"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.calls.iter().flat_map(|call| call.args.clone()).collect()
    }

    // Predicates on other columns are pushed down, so that no call is made for a row that they drop.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.calls.iter().map(|call| call.column.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence: ")?;
        for (place, call) in self.calls.iter().enumerate() {
            write!(f, "{}{} AS {}", if place > 0 { ", " } else { "" }, call.expression(), call.column)?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.into_iter().next().ok_or_else(|| internal_datafusion_err!("a fence has one input"))?;
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let calls = self.calls.iter().map(|call| FencedCall {
            function: Arc::clone(&call.function),
            args: exprs.by_ref().take(call.args.len()).collect(),
            column: call.column.clone(),
        });
        Self::try_new(input, calls.collect())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let input = self.input.schema();
        let mut needed: Vec<usize> =
            output_columns.iter().copied().filter(|column| *column < input.fields().len()).collect();
        for argument in self.calls.iter().flat_map(|call| &call.args) {
            needed.extend(argument.column_refs().into_iter().filter_map(|column| input.maybe_index_of_column(column)));
        }
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}
