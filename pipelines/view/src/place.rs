//! Rows of the input, by which chains and rejects are named.

use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, ident, lit};
use serde::Serialize;

use super::filter::Condition;
use super::source::QueryRow;
use crate::output::quoted;

/// The row of an input file that a chain comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InputRow {
    pub file: String,
    pub row: u64,
}

impl InputRow {
    pub(crate) fn of(row: QueryRow<'_>) -> Self {
        Self { file: row.text("file").to_string(), row: row.count("row") }
    }

    /// Reads FILE:ROW.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (file, row) = text.rsplit_once(':')?;
        Some(Self { file: file.to_string(), row: row.parse().ok()? })
    }

    /// The condition that a row comes from one of these places.
    pub(crate) fn condition(places: &[Self]) -> Condition {
        let is = |place: &Self| place.in_file().and(field("row").eq(place.row()));
        let text = |place: &Self| format!("({FILE} = {} AND {ROW} = {})", quoted(&place.file), place.row);
        let texts: Vec<_> = places.iter().map(text).collect();
        let expr = places.iter().map(is).reduce(Expr::or).unwrap_or_else(|| lit(false));
        Condition::sql(expr, texts.join("\n   OR "))
    }

    /// The condition that a row comes from an earlier place.
    pub(crate) fn before(&self) -> Condition {
        let earlier = field("file").lt(lit(self.file.as_str()));
        let expr = earlier.or(self.in_file().and(field("row").lt(self.row())));
        let file = quoted(&self.file);
        Condition::sql(expr, format!("({FILE} < {file} OR {FILE} = {file} AND {ROW} < {})", self.row))
    }

    fn in_file(&self) -> Expr {
        field("file").eq(lit(self.file.as_str()))
    }

    /// The row as SQL reads it: a literal of another type would convert the column.
    fn row(&self) -> Expr {
        i64::try_from(self.row).map_or_else(|_| lit(self.row), lit)
    }
}

impl std::fmt::Display for InputRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.row)
    }
}

fn field(name: &str) -> Expr {
    get_field(ident("source"), name)
}

/// The file and the row of the input that a row comes from.
pub(crate) const FILE: &str = "source['file']";
pub(crate) const ROW: &str = "source['row']";
/// Both as columns, and as an order.
pub(crate) const PLACE: [&str; 2] = ["source['file'] AS file", "source['row'] AS row"];
pub(crate) const BY_PLACE: [(&str, bool); 2] = [(FILE, false), (ROW, false)];
