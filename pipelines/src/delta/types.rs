//! Types and names that a Delta table can have. Views, dictionaries, unsigned and null types exist only in the engine;
//! in a table they become equivalent plain types.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use delta_kernel::engine::arrow_conversion::TryIntoKernel;
use delta_kernel::schema::StructField;

/// Characters that are forbidden in column names without column mapping.
const FORBIDDEN: [char; 10] = [' ', ',', ';', '{', '}', '(', ')', '=', '\t', '\n'];

/// Whether a table can have a column of a type returned by [`delta_type`].
pub(crate) fn can_hold(data_type: &DataType) -> bool {
    let kernel: Result<StructField, _> = (&Field::new("column", data_type.clone(), true)).try_into_kernel();
    kernel.is_ok()
}

/// The type of a column in a table: `found` itself where possible.
pub(crate) fn delta_type(found: &DataType) -> DataType {
    match found {
        DataType::Null | DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => DataType::Int64,
        DataType::Timestamp(_, zone) => {
            let zone = zone.as_ref().map(|_| Arc::from("UTC"));
            DataType::Timestamp(TimeUnit::Microsecond, zone)
        }
        DataType::Dictionary(_, value) => delta_type(value),
        DataType::RunEndEncoded(_, values) => delta_type(values.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            DataType::List(Arc::new(Field::new("element", delta_type(item.data_type()), true)))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(delta_field).collect()),
        DataType::Map(entries, sorted) => {
            let entries = entries.as_ref().clone().with_data_type(delta_map_entries(entries.data_type()));
            DataType::Map(Arc::new(entries), *sorted)
        }
        other => other.clone(),
    }
}

/// The name of an unnamed column, such as an index written by pandas or R.
pub(crate) const UNNAMED: &str = "unnamed";

/// The name of a column in a table: forbidden characters become `_`.
pub(crate) fn delta_name(found: &str) -> String {
    if found.is_empty() { UNNAMED.to_string() } else { found.replace(FORBIDDEN, "_") }
}

fn delta_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(delta_name(field.name()), delta_type(field.data_type()), true))
}

fn delta_map_entries(entries: &DataType) -> DataType {
    let DataType::Struct(fields) = entries else { return entries.clone() };
    let fields = fields.iter().map(|field| {
        let mapped = Field::new(field.name(), delta_type(field.data_type()), field.is_nullable());
        Arc::new(mapped)
    });
    DataType::Struct(fields.collect())
}

#[cfg(test)]
mod tests {
    use delta_kernel::engine::arrow_conversion::TryIntoKernel;
    use delta_kernel::schema::StructType;

    use crate::delta::types::*;

    #[test]
    fn every_mapped_type_is_one_that_a_table_takes() {
        use DataType::*;
        let item = |data_type| Arc::new(Field::new("weird item", data_type, false));
        let plain =
            "Null Utf8View LargeUtf8 BinaryView LargeBinary UInt8 UInt16 UInt32 UInt64 Float16 Date64".split(' ');
        let plain = plain.map(|name| name.parse::<DataType>().unwrap());
        let types = [
            FixedSizeBinary(4),
            Time32(TimeUnit::Second),
            Time64(TimeUnit::Nanosecond),
            Duration(TimeUnit::Second),
            Timestamp(TimeUnit::Nanosecond, None),
            Timestamp(TimeUnit::Second, Some("+02:00".into())),
            Dictionary(Box::new(Int8), Box::new(LargeUtf8)),
            LargeList(item(Utf8View)),
            FixedSizeList(item(UInt64), 3),
            Struct(vec![item(Null), Arc::new(Field::new("b", List(item(UInt8)), true))].into()),
        ];
        for found in plain.chain(types) {
            let schema = datafusion::arrow::datatypes::Schema::new(vec![Field::new("a", delta_type(&found), true)]);
            let kernel: Result<StructType, _> = (&schema).try_into_kernel();
            assert!(kernel.is_ok(), "{found}: {kernel:?}");
        }
    }

    #[test]
    fn names_lose_what_a_table_forbids() {
        assert_eq!(delta_name("a b(c)=d;\n"), "a_b_c__d__");
        assert_eq!(delta_name("Größe.x"), "Größe.x");
    }
}
