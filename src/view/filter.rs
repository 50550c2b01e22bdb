//! Filters that a user types: expressions over the columns of an output, and nothing else.

use std::ops::ControlFlow;

use asap_llm::Llm;
use asap_udfs::{Models, register_all};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, visit_expressions};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// Functions that make a value of any size from a number.
const GROWING: [&str; 7] = ["repeat", "lpad", "rpad", "array_repeat", "array_resize", "range", "generate_series"];

/// Returns a filter as it is parsed, so that it can be part of a query.
///
/// # Errors
/// If it is not one expression, names a column that the output does not have, or needs more than the row: a table, a
/// file, a model or a clock.
pub(crate) fn checked(text: &str, schema: &DFSchema) -> Result<String> {
    if text.trim().is_empty() {
        return plan_err!("expected a condition such as pruned_tokens > 100, found an empty text");
    }
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text)?;
    let expr = parser.parse_expr()?;
    if parser.peek_token().token != Token::EOF {
        return plan_err!("expected one expression over the columns, found '{}' after it", parser.peek_token());
    }
    let is_query =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. });
    let found = visit_expressions(&expr, |expr| match is_query(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if found.is_break() {
        return plan_err!("a filter cannot contain a query: write a condition over the columns of the output");
    }
    // A session without files, tables and models: no name in the filter can reach one.
    let mut state = SessionStateBuilder::new().with_default_features().build();
    register_all(&mut state, &Models::default(), &Llm::default())?;
    let shown = expr.to_string();
    let planned = state.create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, schema)?;
    planned.apply(|expr| refuse(expr).map(|()| TreeNodeRecursion::Continue))?;
    let kind = datafusion::logical_expr::ExprSchemable::get_type(&planned, schema)?;
    if kind != datafusion::arrow::datatypes::DataType::Boolean {
        return plan_err!("expected a condition such as pruned_tokens > 100, found a value of type {kind}");
    }
    Ok(shown)
}

fn refuse(expr: &Expr) -> Result<()> {
    match expr {
        Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => plan_err!(
            "a filter cannot call {}: its result depends on more than the row (a model, a setting or a clock)",
            call.func.name()
        ),
        Expr::ScalarFunction(call) if GROWING.contains(&call.func.name()) => {
            plan_err!("a filter cannot call {}: it may need any amount of memory", call.func.name())
        }
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            plan_err!("a filter cannot contain a query")
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::Unnest(_) => {
            plan_err!("a filter is about one row: it cannot aggregate or unnest")
        }
        _ => Ok(()),
    }
}

/// The filter that all rows pass.
pub(crate) const ALL: &str = "true";

/// The filter of a form, or the one that all rows pass if the form is empty.
pub(crate) fn or_all(text: &str, schema: &DFSchema) -> Result<String> {
    if text.trim().is_empty() { Ok(ALL.to_string()) } else { checked(text, schema) }
}

/// The clause of a query that selects the rows of a filter.
pub(crate) fn clause(filter: &str) -> String {
    if filter == ALL { String::new() } else { format!("\nWHERE {filter}") }
}
