//! Columns that a plan passes on without changes.

use datafusion::logical_expr::{Expr, LogicalPlan};

/// The column of a table, or of a view that has one of these aliases, whose values a column of a plan holds unchanged.
pub(crate) fn passed_on(plan: &LogicalPlan, column: &str, views: &[&str]) -> Option<String> {
    let input = match plan {
        LogicalPlan::TableScan(_) => return Some(column.to_string()),
        LogicalPlan::SubqueryAlias(alias) if views.contains(&alias.alias.table()) => return Some(column.to_string()),
        LogicalPlan::Projection(projection) => {
            let index = projection.schema.index_of_column_by_name(None, column)?;
            let mut expr = &projection.expr[index];
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            let Expr::Column(column) = expr else { return None };
            return passed_on(&projection.input, &column.name, views);
        }
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        LogicalPlan::Filter(filter) => &filter.input,
        LogicalPlan::Sort(sort) => &sort.input,
        LogicalPlan::Limit(limit) => &limit.input,
        _ => return None,
    };
    passed_on(input, column, views)
}
