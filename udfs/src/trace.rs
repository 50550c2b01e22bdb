//! Traces: what pruning did to each step of a chain, as `cot_trace` returns it.

use datafusion::arrow::array::{Array, AsArray, ListArray};
use datafusion::arrow::datatypes::{DataType, Field};

use crate::output::list_of;

/// The field of a step that names the stage which dropped it.
const DROPPED: &str = "dropped";

/// Whether a type is that of traces: lists of structs with the field `dropped`, as `cot_trace` returns them.
pub fn is_trace(data_type: &DataType) -> bool {
    let DataType::List(step) = data_type else { return false };
    let DataType::Struct(fields) = step.data_type() else { return false };
    fields.iter().any(|field| field.name() == DROPPED)
}

pub(crate) fn empty_trace() -> DataType {
    list_of(DataType::Struct(vec![Field::new(DROPPED, DataType::Utf8View, true)].into()))
}

/// Returns whether each step of a trace is kept: whether its `dropped` is NULL. None if the trace or a step is NULL.
pub fn kept_steps(traces: &ListArray, row: usize) -> Option<Vec<bool>> {
    let steps = traces.is_valid(row).then(|| traces.value(row)).filter(|steps| steps.null_count() == 0)?;
    let kept = steps.as_struct_opt()?.column_by_name(DROPPED)?.logical_nulls();
    Some((0..steps.len()).map(|step| kept.as_ref().is_some_and(|kept| kept.is_null(step))).collect())
}
