//! Building blocks of the expressions that read a corpus.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_nested::array_first::array_first;
use datafusion::functions_nested::expr_fn::array_length;
use datafusion::logical_expr::expr::LambdaVariable;
use datafusion::logical_expr::{Expr, cast, lambda, lit, when};
use datafusion::scalar::ScalarValue;

use crate::corpus::scan::table::ROW_COLUMN;

pub(crate) fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

pub(crate) fn text(expr: Expr) -> Expr {
    cast(expr, DataType::Utf8)
}

pub(crate) fn null_text() -> Expr {
    lit(ScalarValue::Utf8(None))
}

pub(crate) fn length(list: Expr) -> Expr {
    coalesce(vec![array_length(list), lit(0_u64)])
}

/// The first item of a list that satisfies `is_fit`, else NULL. Items are of type `kind`.
pub(crate) fn first_that(list: Expr, kind: DataType, is_fit: impl Fn(Expr) -> Expr) -> Result<Expr> {
    const ITEM: &str = "item";
    let variable = || {
        let field = Arc::new(Field::new(ITEM, kind.clone(), true));
        Expr::LambdaVariable(LambdaVariable::new(ITEM.to_string(), Some(field)))
    };
    let found = array_first(list, lambda([ITEM], is_fit(variable())));
    // In a file scan, the engine confuses the variable with the row number, unless the plan also reads the row number.
    when(column(ROW_COLUMN).gt_eq(lit(0_i64)), found).end()
}
