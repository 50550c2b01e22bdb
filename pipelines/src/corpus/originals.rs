//! The original columns of files of several schemas, as one list.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::view::{INNER, Original};
use crate::delta_types::{delta_name, delta_type};

/// The columns that a corpus has beside the original ones, in this order.
pub(super) const COLUMNS: [&str; 7] = ["source", "id", "question", "cot", "answer", "status", "error"];

/// Every column of the schemas, in the order in which they are first seen. `file` names a file of each schema.
///
/// # Errors
/// If two schemas have a column of the same name whose types have no type in common, or one schema has a name twice.
pub(super) fn unite(schemas: &[(SchemaRef, String)]) -> Result<Vec<Original>> {
    let mut united: Vec<(FieldRef, &str)> = Vec::new();
    for (schema, file) in schemas {
        for (index, field) in schema.fields().iter().enumerate() {
            if schema.index_of(field.name())? != index {
                return exec_err!("{file} has two columns called {}", field.name());
            }
            if field.name().starts_with(INNER) {
                return exec_err!("{file} has a column {}: names that begin with {INNER} are taken", field.name());
            }
            let Some((held, first)) = united.iter_mut().find(|(held, _)| held.name() == field.name()) else {
                united.push((Arc::clone(field), file));
                continue;
            };
            let common = common_type(held.data_type(), field.data_type()).ok_or_else(|| {
                exec_datafusion_err!(
                    "column {} is {} in {first} and {} in {file}: read them apart, or rewrite one",
                    field.name(),
                    held.data_type(),
                    field.data_type()
                )
            })?;
            *held = Arc::new(held.as_ref().clone().with_data_type(common));
        }
    }
    let mut originals: Vec<Original> = Vec::new();
    for (field, _) in &united {
        let is_taken = |name: &str| {
            COLUMNS.contains(&name) || united.iter().any(|(other, _)| other.name() == name && other != field)
        };
        let mut column = field.name().clone();
        while is_taken(&column) || originals.iter().any(|held| held.column == column) {
            column = format!("source_{column}");
        }
        originals.push(Original { column, name: field.name().clone(), data_type: field.data_type().clone() });
    }
    Ok(originals)
}

/// The type that columns of two types share: a null-typed one takes the other's, texts of different physical types are
/// Utf8, lists List; structs agree when they have the same fields.
fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, List, Null, Struct};
    match (a, b) {
        (a, b) if a == b => Some(a.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b) | LargeList(b) | FixedSizeList(b, _)) => {
            let item = common_type(a.data_type(), b.data_type())?;
            Some(List(Arc::new(Field::new_list_field(item, true))))
        }
        (Struct(a), Struct(b)) if a.len() == b.len() => {
            let fields = a.iter().map(|field| {
                let (_, other) = b.find(field.name())?;
                let common = common_type(field.data_type(), other.data_type())?;
                Some(Arc::new(field.as_ref().clone().with_data_type(common)))
            });
            Some(Struct(fields.collect::<Option<_>>()?))
        }
        (a, b) => Some(delta_type(a)).filter(|common| !a.is_nested() && *common == delta_type(b)),
    }
}

/// What a table will hold otherwise than the files do: a line for each column whose name or kind of value changes.
pub(super) fn delta_notes(originals: &[Original]) -> Vec<String> {
    let notes = originals.iter().filter_map(|original| {
        let mut changes = Vec::new();
        let name = delta_name(&original.name);
        if name != original.name {
            changes.push(format!("is called {name}"));
        }
        let data_type = delta_type(&original.data_type);
        if is_other_kind(&original.data_type, &data_type) {
            changes.push(format!("is {data_type} (in the files {})", original.data_type));
        }
        (!changes.is_empty()).then(|| format!("column {} {} in the table", original.name, changes.join(" and ")))
    });
    notes.collect()
}

/// Whether a value changes, and not only how it lies in memory.
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
