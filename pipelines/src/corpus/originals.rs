//! Unites the original columns of several schemas.

use std::sync::Arc;

use asap_kernels::front_end::Flag;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::{Result, exec_err};

use crate::corpus::shape::kind;
use crate::corpus::view::{INNER, Original};
use crate::delta::types::{UNNAMED, can_hold, delta_name, delta_type};

/// The columns that a corpus adds to the original columns, in this order.
pub(crate) const COLUMNS: [&str; 9] =
    ["source", "id", "question", "cot", "answer", "system", "turns", "status", "error"];
/// A column that pipelines add to all columns of the corpus. An output of theirs, read as a corpus, has it already.
const OF_PIPELINES: &str = "refined_by";

#[derive(Debug, Clone, Copy)]
pub enum Fit<'a> {
    Query,
    Table {
        /// The table's original columns, with their types there.
        held: &'a [FieldRef],
        left_out: &'a [String],
        may_grow: bool,
    },
}

/// A column of one schema whose type conflicts with the united column of that name.
#[derive(Debug, Clone)]
pub(crate) struct LeftOut {
    pub name: String,
    pub note: String,
}

/// Returns the output's existing columns, then those of the schemas in the order of first appearance. For each schema,
/// also returns the left-out columns, or why its files cannot be read together with the previous ones. The text next to
/// a schema names one of its files.
///
/// Existing columns of the output keep their type.
pub(crate) fn unite(fit: Fit, schemas: &[(SchemaRef, String)]) -> (Vec<Original>, Vec<Result<Vec<LeftOut>>>) {
    let held = match fit {
        Fit::Query => &[],
        Fit::Table { held, .. } => held,
    };
    let mut united = United { fit, columns: Vec::new() };
    united.columns.extend(held.iter().map(|field| (Arc::clone(field), None)));
    let added = schemas.iter().map(|(schema, file)| united.add(schema, file)).collect();
    (united.originals(), added)
}

/// Columns, each with the file in which it first appeared; None if the output already has it.
struct United<'a> {
    fit: Fit<'a>,
    columns: Vec<(FieldRef, Option<String>)>,
}

impl United<'_> {
    /// Adds the columns of a schema, except those left out. Adds none on an error.
    fn add(&mut self, schema: &SchemaRef, file: &str) -> Result<Vec<LeftOut>> {
        let mut added = self.columns.clone();
        let mut left_out = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if schema.index_of(field.name())? != index {
                return exec_err!("{file} has two columns called {}", field.name());
            }
            if field.name().starts_with(INNER) {
                return exec_err!("{file} has a column {}: names that begin with {INNER} are reserved", field.name());
            }
            let Some((held, first)) = added.iter_mut().find(|(held, _)| held.name() == field.name()) else {
                self.check_new(field, file)?;
                added.push((Arc::clone(field), Some(file.to_string())));
                continue;
            };
            let common = match first {
                Some(_) => common_type(held.data_type(), field.data_type()),
                // The type of a table's column does not change.
                None => Some(held.data_type().clone()).filter(|held| fits(field.data_type(), held)),
            };
            let Some(common) = common else {
                let (name, elsewhere) = (field.name().clone(), first.as_deref().unwrap_or("the output"));
                let note = format!(
                    "column {name} is {} in {file} and {} in {elsewhere}: the rows of {file} have NULL there; to keep it, read \
                     these files separately",
                    field.data_type(),
                    held.data_type()
                );
                left_out.push(LeftOut { name, note });
                continue;
            };
            if first.is_some() {
                *held = Arc::new(held.as_ref().clone().with_data_type(common));
            }
        }
        self.columns = added;
        Ok(left_out)
    }

    fn check_new(&self, field: &Field, file: &str) -> Result<()> {
        let Fit::Table { may_grow, left_out, .. } = self.fit else { return Ok(()) };
        let name = field.name();
        if !may_grow && !left_out.contains(name) {
            return exec_err!(
                "{file} has the column {name}, which the output does not have, and {} is fail",
                Flag("--on-schema-change")
            );
        }
        if !can_hold(&delta_type(field.data_type())) {
            let kind = field.data_type();
            return exec_err!(
                "{file} has the column {name} of type {kind}, which a Delta table cannot hold: remove the column"
            );
        }
        Ok(())
    }

    fn originals(&self) -> Vec<Original> {
        let mut originals: Vec<Original> = Vec::new();
        for (field, _) in &self.columns {
            let is_taken = |name: &str| {
                COLUMNS.contains(&name)
                    || name == OF_PIPELINES
                    || self.columns.iter().any(|(other, _)| other.name() == name && other != field)
            };
            // An unnamed index, as pandas and R write it.
            let mut column = if field.name().is_empty() { UNNAMED.to_string() } else { field.name().clone() };
            while is_taken(&column) || originals.iter().any(|held| held.column == column) {
                column = format!("source_{column}");
            }
            let (name, data_type) = (field.name().clone(), field.data_type().clone());
            originals.push(Original { column, name, data_type, is_left_out: false });
        }
        originals
    }
}

/// The common type of two columns: a null type takes the other type, different text types become Utf8, integers of
/// different widths Int64, floats (also with integers) Float64, and lists List. Structs that share a field get the
/// fields of both.
fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, Float64, Int64, LargeList, List, Null, Struct};
    match (a, b) {
        (a, b) if a == b => Some(a.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b) | LargeList(b) | FixedSizeList(b, _)) => {
            let item = common_type(a.data_type(), b.data_type())?;
            Some(List(Arc::new(Field::new_list_field(item, true))))
        }
        (Struct(a), Struct(b)) if a.iter().any(|field| b.find(field.name()).is_some()) => {
            let joined = a.iter().map(|field| match b.find(field.name()) {
                Some((_, other)) => {
                    let common = common_type(field.data_type(), other.data_type())?;
                    Some(Arc::new(field.as_ref().clone().with_data_type(common)))
                }
                None => Some(Arc::clone(field)),
            });
            let more = b.iter().filter(|field| a.find(field.name()).is_none()).map(|field| Some(Arc::clone(field)));
            Some(Struct(joined.chain(more).collect::<Option<_>>()?))
        }
        (a, b) if is_integer(a) && is_integer(b) => Some(Int64),
        (a, b) if a.is_floating() && b.is_floating() => Some(Float64),
        (a, b) if is_integer(a) && b.is_floating() || a.is_floating() && is_integer(b) => Some(Float64),
        (a, b) => Some(delta_type(a)).filter(|common| !a.is_nested() && *common == delta_type(b)),
    }
}

fn fits(found: &DataType, held: &DataType) -> bool {
    let is_narrower =
        || found.is_signed_integer() && held.is_signed_integer() && found.primitive_width() <= held.primitive_width();
    delta_type(found) == *held
        || is_narrower()
        || common_type(held, found).is_some_and(|common| delta_type(&common) == *held)
}

fn is_integer(found: &DataType) -> bool {
    found.is_integer() && *found != DataType::UInt64
}

/// One line for each column whose name or type differs in the table from the files.
pub(crate) fn delta_notes(originals: &[Original]) -> Vec<String> {
    let notes = originals.iter().filter_map(|original| {
        let mut changes = Vec::new();
        let name = delta_name(&original.name);
        if name != original.name {
            changes.push(format!("is called {name} in the table"));
        }
        let data_type = delta_type(&original.data_type);
        if is_other_kind(&original.data_type, &data_type) {
            changes.push(format!(
                "has {} in the files and {} in the table",
                kind(&original.data_type),
                kind(&data_type)
            ));
        }
        (!changes.is_empty()).then(|| format!("column {} {}", original.name, changes.join(" and ")))
    });
    notes.collect()
}

fn is_other_kind(found: &DataType, held: &DataType) -> bool {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Map, RunEndEncoded, Struct};
    match (found, held) {
        (Dictionary(_, value), held) => is_other_kind(value, held),
        (RunEndEncoded(_, values), held) => is_other_kind(values.data_type(), held),
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b)) => is_other_kind(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) => a
            .iter()
            .zip(b)
            .any(|(found, held)| found.name() != held.name() || is_other_kind(found.data_type(), held.data_type())),
        (Map(a, _), Map(b, _)) => is_other_kind(a.data_type(), b.data_type()),
        (found, held) => {
            let is_same_kind = (found.is_string() && held.is_string()) || (found.is_binary() && held.is_binary());
            found != held && !is_same_kind
        }
    }
}
