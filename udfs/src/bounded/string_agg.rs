//! `string_agg` with bounds: its state grows by a whole batch before the pool hears of it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};

use super::check;

const NAME: &str = "string_agg";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BoundedStringAgg(pub Arc<AggregateUDF>);

impl AggregateUDFImpl for BoundedStringAgg {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.0.return_type(given)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { inner: self.0.accumulator(args)?, bytes: 0, given: 0 }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups { inner: self.0.create_groups_accumulator(args)?, bytes: Vec::new() }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.reverse_udf() {
            ReversedUDAF::Reversed(function) => ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Self(function)))),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// The text of one group. In a window, each row gets it as it is then.
#[derive(Debug)]
struct One {
    inner: Box<dyn Accumulator>,
    bytes: u64,
    given: u64,
}

impl One {
    fn add(&mut self, values: &[ArrayRef]) -> Result<()> {
        let added: u64 = values.first().map_or(0, |values| (0..values.len()).map(|row| size(values, row)).sum());
        let delimiters =
            values.get(1).map_or(0, |delimiter| (0..delimiter.len()).map(|row| size(delimiter, row)).sum());
        self.bytes = self.bytes.saturating_add(added).saturating_add(delimiters);
        check(NAME, "a group of rows", self.bytes)
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)?;
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.given = self.given.saturating_add(self.bytes);
        check(NAME, "the rows of a window", self.given)?;
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        // Further columns of a state hold the order.
        self.add(&states[..states.len().min(1)])?;
        self.inner.merge_batch(states)
    }
}

struct Groups {
    inner: Box<dyn GroupsAccumulator>,
    /// The bytes of the text of each group.
    bytes: Vec<u64>,
}

impl Groups {
    fn add(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.bytes.resize(total, 0);
        for (row, group) in groups.iter().enumerate() {
            if filter.is_some_and(|filter| !filter.is_valid(row) || !filter.value(row)) {
                continue;
            }
            let added: u64 = values.iter().map(|values| size(values, row)).sum();
            self.bytes[*group] = self.bytes[*group].saturating_add(added);
            check(NAME, "a group of rows", self.bytes[*group])?;
        }
        Ok(())
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add(values, groups, filter, total)?;
        self.inner.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        emit_to.take_needed(&mut self.bytes);
        self.inner.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        emit_to.take_needed(&mut self.bytes);
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add(&states[..states.len().min(1)], groups, None, total)?;
        self.inner.merge_batch(states, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size() + self.bytes.capacity() * size_of::<u64>()
    }
}

/// The bytes of a text, or of the texts of a list.
fn size(array: &ArrayRef, row: usize) -> u64 {
    if array.is_null(row) {
        return 0;
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).len() as u64,
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).len() as u64,
        DataType::Utf8View => array.as_string_view().value(row).len() as u64,
        DataType::List(_) => {
            let texts = array.as_list::<i32>().value(row);
            (0..texts.len()).map(|text| size(&texts, text)).sum()
        }
        _ => 0,
    }
}
