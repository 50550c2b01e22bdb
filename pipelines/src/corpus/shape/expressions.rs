//! Building blocks of the expressions that read a corpus.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, Result};
use datafusion::functions::core::expr_fn::{coalesce, nullif};
use datafusion::functions::regex::expr_fn::regexp_like;
use datafusion::functions_nested::array_any_match::array_any_match;
use datafusion::functions_nested::array_first::array_first;
use datafusion::functions_nested::expr_fn::array_length;
use datafusion::logical_expr::expr::LambdaVariable;
use datafusion::logical_expr::{Expr, cast, lambda, lit, not, when};
use datafusion::scalar::ScalarValue;

use crate::corpus::place::ROW_COLUMN;

pub(crate) fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

pub(crate) fn text(expr: Expr) -> Expr {
    cast(expr, DataType::Utf8)
}

/// NULL in place of NaN, which pandas writes for every missing number.
pub(crate) fn without_nan(value: Expr, kind: &DataType) -> Expr {
    match kind {
        DataType::Float64 => nullif(value, lit(f64::NAN)),
        DataType::Float32 => nullif(value, lit(f32::NAN)),
        _ => value,
    }
}

pub(crate) fn null_text() -> Expr {
    lit(ScalarValue::Utf8(None))
}

pub(crate) fn length(list: Expr) -> Expr {
    coalesce(vec![array_length(list), lit(0_u64)])
}

pub(crate) fn is_blank(text: &Expr) -> Expr {
    text.clone().is_null().or(not(regexp_like(text.clone(), lit(r"\S"), None)))
}

/// In each row, the first text that is not NULL, empty or blank; else the first.
pub(crate) fn first_filled(texts: Vec<Expr>) -> Result<Expr> {
    first_case(texts, |text| not(is_blank(text)))
}

/// In each row, the first value that satisfies `is_fit`; else the first.
pub(crate) fn first_case(values: Vec<Expr>, is_fit: impl Fn(&Expr) -> Expr) -> Result<Expr> {
    let mut values = values.into_iter();
    let first = values.next().unwrap_or_else(null_text);
    let Some(second) = values.next() else { return Ok(first) };
    let mut case = when(is_fit(&first), first.clone()).when(is_fit(&second), second);
    for value in values {
        case = case.when(is_fit(&value), value);
    }
    case.otherwise(first)
}

/// The first item of a list that satisfies `is_fit`, else NULL. Items are of type `kind`.
pub(crate) fn first_that(list: Expr, kind: DataType, is_fit: impl Fn(Expr) -> Expr) -> Result<Expr> {
    let found = array_first(list, of_item(&kind, is_fit));
    // In a file scan, the engine confuses the variable with the row number, unless the plan also reads the row number.
    when(column(ROW_COLUMN).gt_eq(lit(0_i64)), found).end()
}

/// Whether an item of a list satisfies `is_fit`. Items are of type `kind`.
pub(crate) fn any_that(list: Expr, kind: &DataType, is_fit: impl Fn(Expr) -> Expr) -> Expr {
    coalesce(vec![array_any_match(list, of_item(kind, is_fit)), lit(false)])
}

fn of_item(kind: &DataType, value: impl Fn(Expr) -> Expr) -> Expr {
    const ITEM: &str = "item";
    let field = Arc::new(Field::new(ITEM, kind.clone(), true));
    lambda([ITEM], value(Expr::LambdaVariable(LambdaVariable::new(ITEM.to_string(), Some(field)))))
}
