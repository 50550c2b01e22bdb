//! Expressions that all that reads a corpus is built of.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::array_length;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::scalar::ScalarValue;

/// A column by its name, whatever characters that has.
pub(super) fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// Any text, or what is printed as one, as Utf8.
pub(super) fn text(expr: Expr) -> Expr {
    cast(expr, DataType::Utf8)
}

/// No text.
pub(super) fn null_text() -> Expr {
    lit(ScalarValue::Utf8(None))
}

/// The number of a list's items, 0 where there is no list.
pub(super) fn length(list: Expr) -> Expr {
    coalesce(vec![array_length(list), lit(0_u64)])
}
