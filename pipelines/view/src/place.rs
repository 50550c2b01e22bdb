//! Rows of the input, by which chains and rejects are named.

use asap_udfs::typo;
use datafusion::common::{DFSchema, Result};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, ident, lit};
use serde::Serialize;

use super::expression::ROW;
use super::filter::Condition;
use super::source::{QueryRow, Source};
use crate::output::quoted;

/// Files that a message names.
const FILES: usize = 5;

/// The row of an input file that a chain comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
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

    /// Why an output has neither a chain nor a reject of a row.
    pub(crate) async fn missing(&self, source: &Source) -> Result<String> {
        let Self { file: named, row } = self;
        if source.passed(&source.location, &Self::condition(std::slice::from_ref(self))).await? > 0 {
            return Ok(format!("its chain was pruned, and not rejected: {self} finds it among the chains"));
        }
        let table = |table: &str| format!("SELECT {}, {} FROM {}", PLACE[0], PLACE[1], quoted(table));
        let mut tables = vec![table(&source.location)];
        tables.extend((!source.status.rejects.is_empty()).then(|| table(&source.rejects())));
        let files = source
            .rows(&format!(
                "SELECT file, min(row) AS first, max(row) AS last FROM ({}) GROUP BY file ORDER BY file",
                tables.join(" UNION ALL ")
            ))
            .await?;
        if let Some(file) = files.iter().find(|file| file.text("file") == named) {
            let (first, last) = (file.count("first"), file.count("last"));
            return Ok(match (first..=last).contains(row) {
                false => format!("its rows of {named} go from {first} to {last}"),
                true => format!("its pipeline left row {row} of {named} out, or no run has read it yet"),
            });
        }
        let files: Vec<_> = files.iter().map(|file| file.text("file")).collect();
        let ends =
            files.iter().find(|file| named.ends_with(&format!("/{file}")) || file.ends_with(&format!("/{named}")));
        let near = typo::nearest(named, files.iter().copied()).or(ends.copied());
        let near = near.map_or(String::new(), |near| format!(" (did you mean {near}:{row}?)"));
        let more = if files.len() > FILES { ", …" } else { "" };
        let files = files[..files.len().min(FILES)].join(", ");
        Ok(format!("no row comes from a file {named}{near}; its files are {files}{more}"))
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

/// The row that FILE:ROW or an id names in a table, with what named it.
pub(crate) async fn named(
    source: &Source,
    table: &str,
    schema: &DFSchema,
    text: &str,
) -> Result<Option<(Condition, &'static str)>> {
    let text = text.trim();
    let place = InputRow::parse(text).map(|place| (InputRow::condition(&[place]), "a row of the input"));
    let id = has_id(schema).then(|| (Condition::is("id", text), "an id"));
    for (row, what) in place.into_iter().chain(id) {
        if source.passed(table, &row).await? > 0 {
            return Ok(Some((row, what)));
        }
    }
    Ok(None)
}

/// Whether rows have an id that a text names.
pub(crate) fn has_id(schema: &DFSchema) -> bool {
    let id = schema.field_with_unqualified_name("id");
    id.is_ok_and(|id| id.data_type().is_string() || id.data_type().is_integer())
}

fn field(name: &str) -> Expr {
    get_field(ident("source"), name)
}

/// The file and the row of the input that a row comes from.
pub(crate) const FILE: &str = "source['file']";
/// Both as columns, and as an order.
pub(crate) const PLACE: [&str; 2] = ["source['file'] AS file", "source['row'] AS row"];
pub(crate) const BY_PLACE: [(&str, bool); 2] = [(FILE, false), (ROW, false)];
