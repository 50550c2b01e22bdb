//! The column that marks each row as correct or not.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::functions::string::expr_fn::{btrim, concat, lower, replace};
use datafusion::logical_expr::{Expr, cast, lit, try_cast, when};

use crate::corpus::shape::expressions::{column, text, without_nan};
use crate::corpus::shape::path::is_text;

/// What texts say in place of a flag that is missing.
pub(crate) const MISSING: [&str; 7] = ["", "n/a", "na", "nan", "none", "null", "unknown"];

/// A flag as a number, where 1 means true and 0 false; NULL if it is missing or unreadable. None if all flags are NULL.
pub(crate) fn value(flag: Expr, kind: &DataType) -> Option<Expr> {
    let number = match kind {
        DataType::Null => return None,
        kind if is_text(kind) => {
            let said = said(flag);
            try_cast(replace(replace(said, lit("true"), lit("1")), lit("false"), lit("0")), DataType::Float64)
        }
        _ => cast(flag, DataType::Float64),
    };
    Some(without_nan(number, &DataType::Float64))
}

pub(crate) fn said(flag: Expr) -> Expr {
    lower(btrim(vec![text(flag)]))
}

/// Why a row is incorrect, else NULL: its first flag that is not NULL is false or 0.
pub(crate) fn fault(schema: &Schema, flags: &[String]) -> Result<Option<Expr>> {
    let mut found = None;
    for flag in flags.iter().rev() {
        let Some(value) = value(column(flag), schema.field_with_name(flag)?.data_type()) else { continue };
        let why = vec![lit(format!("column {flag} is ")), text(column(flag)), lit(": the row is not correct")];
        let fault = when(value.clone().eq(lit(0.0)), concat(why)).end()?;
        found = Some(match found {
            Some(next) => when(value.is_not_null(), fault).otherwise(next)?,
            None => fault,
        });
    }
    Ok(found)
}
