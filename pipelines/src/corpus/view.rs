//! The logical view of the files of one schema: ordinary expressions over the scan.
//!
//! ```text
//!   Projection       source, id, question, cot, answer, system, turns, status, error, originals    the columns of the corpus
//!     SubqueryAlias
//!       Projection   __corpus_source, __corpus_asked, …, __corpus_original_…       columns are chosen, and calls read them
//!         TableScan  the files' columns, __corpus_file, __corpus_row
//! ```
//!
//! The inner columns have names that neither the files nor the view use. Otherwise the optimizer confuses `files.cot`
//! with `cot` when it moves field accesses through a projection. The alias keeps it from merging the projections.

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, plan_err};
use datafusion::functions::core::expr_fn::{coalesce, named_struct};
use datafusion::functions::crypto::expr_fn::md5;
use datafusion::functions::string::expr_fn::concat;
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit, when};
use datafusion::scalar::ScalarValue;

use asap_udfs::reading::TURNS;

use crate::corpus::place::{FILE_COLUMN, ROW_COLUMN};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape::expressions::{column, null_text, text};
use crate::corpus::shape::reading::{ASKED, Fault, Functions, Reading, SAID};
use crate::corpus::shape::{self, Shape};

pub(crate) const INNER: &str = "__corpus_";

#[derive(Clone)]
pub(crate) struct Original {
    pub column: String,
    pub name: String,
    /// Its type in the view. The type in the files can be cast to it.
    pub data_type: DataType,
    /// Whether the view sets this column to NULL, because its type in these files conflicts with earlier files.
    pub is_left_out: bool,
}

/// The view over the files of a table.
pub(crate) fn of_files(
    session: &dyn Session,
    table: &FilesTable,
    shape: &Shape,
    originals: &[Original],
) -> Result<LogicalPlan> {
    let reading = Reading::new(table.file_schema(), shape, &Functions::of(session)?)?;
    let (id, has_ids) = published_id(table);
    table
        .plan()?
        .project(chosen(table.file_schema(), &reading, id, originals)?)?
        .alias("read")?
        .project(columns(&reading, has_ids, originals)?)?
        .build()
}

fn chosen(schema: &Schema, reading: &Reading, id: Option<Expr>, originals: &[Original]) -> Result<Vec<Expr>> {
    let source = named_struct(vec![lit("file"), column(FILE_COLUMN), lit("row"), column(ROW_COLUMN)]);
    let mut chosen = vec![named("source", source), named("id", id.unwrap_or_else(null_text))];
    let read = [("question", &reading.question), (ASKED, &reading.asked), (SAID, &reading.said)];
    chosen.extend(read.into_iter().filter_map(|(name, expr)| Some(named(name, expr.clone()?))));
    chosen.extend(reading.turns.iter().map(|turns| named(TURNS, turns.clone())));
    chosen.extend(reading.system_names().zip(&reading.systems).map(|(name, expr)| named(&name, expr.clone())));
    chosen.extend(reading.fault_names().zip(&reading.faults).map(|(name, (_, fault))| named(&name, fault.clone())));
    for original in originals {
        chosen.push(named(&inner_name(original), original_column(schema, original)?));
    }
    Ok(chosen)
}

fn columns(reading: &Reading, has_ids: bool, originals: &[Original]) -> Result<Vec<Expr>> {
    let (question, faults) = (reading.question(inner), reading.faults(inner)?);
    let [cot, answer, status, error] = ["cot", "answer", "status", "error"].map(|field| reading.response(inner, field));
    let content_id = text(md5(concat(vec![question.clone(), cot.clone()])));
    // If every row has a published id, no other column needs to be read for it.
    let id = if has_ids { inner("id") } else { coalesce(vec![inner("id"), content_id]) };
    let mut columns = vec![
        inner("source").alias("source"),
        id.alias("id"),
        question.alias("question"),
        cot.alias("cot"),
        answer.alias("answer"),
        reading.system(inner)?.alias("system"),
        reading.turns(inner)?.alias("turns"),
        first_of(&faults, |fault| lit(fault.status), status)?.alias("status"),
        first_of(&faults, |fault| fault.error.clone(), error)?.alias("error"),
    ];
    columns.extend(originals.iter().map(|original| inner(&inner_name(original)).alias(&original.column)));
    Ok(columns)
}

fn inner(name: &str) -> Expr {
    column(&format!("{INNER}{name}"))
}

fn named(name: &str, expr: Expr) -> Expr {
    expr.alias(format!("{INNER}{name}"))
}

fn inner_name(original: &Original) -> String {
    format!("original_{}", original.name)
}

fn original_column(schema: &Schema, original: &Original) -> Result<Expr> {
    let field = schema.field_with_name(&original.name).ok().filter(|_| !original.is_left_out);
    let Some(field) = field else { return Ok(lit(ScalarValue::try_new_null(&original.data_type)?)) };
    let column = column(&original.name);
    Ok(if field.data_type() == &original.data_type { column } else { cast(column, original.data_type.clone()) })
}

/// The published `id`, else the `uuid`, as text, and whether every row has one.
fn published_id(table: &FilesTable) -> (Option<Expr>, bool) {
    let schema = table.file_schema();
    let is_text = |found: &DataType| {
        !found.is_nested() && !found.is_binary() && !found.is_null() && can_cast_types(found, &DataType::Utf8)
    };
    let is_id = |name: &String| schema.field_with_name(name).is_ok_and(|field| is_text(field.data_type()));
    let names: Vec<String> = ["id", "uuid"].iter().filter_map(|name| shape::find(schema, name)).filter(is_id).collect();
    let ids = names.iter().map(|name| text(column(name)));
    let id = ids.reduce(|first, next| coalesce(vec![first, next]));
    (id, names.iter().any(|name| !table.has_null(name)))
}

fn first_of(faults: &[Fault], value: impl Fn(&Fault) -> Expr, otherwise: Expr) -> Result<Expr> {
    let [first, others @ ..] = faults else { return plan_err!("a view without a check") };
    let mut case = when(first.when.clone(), value(first));
    for fault in others {
        case = case.when(fault.when.clone(), value(fault));
    }
    Ok(text(case.otherwise(otherwise)?))
}
