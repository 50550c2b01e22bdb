//! Conversations as trainers take them: List\<Struct\<role Utf8, content Utf8>>.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, StringArray, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};

fn fields() -> Fields {
    Fields::from(vec![Field::new("role", DataType::Utf8, true), Field::new("content", DataType::Utf8, true)])
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), true))
}

/// The type of a conversation.
pub fn conversation_type() -> DataType {
    DataType::List(item())
}

/// Conversations of one message each, by the same role; NULL where the content is NULL.
pub fn single_messages(role: &str, contents: &[Option<String>]) -> ArrayRef {
    let held: Vec<&str> = contents.iter().flatten().map(String::as_str).collect();
    let roles = StringArray::from(vec![role; held.len()]);
    let messages = StructArray::new(fields(), vec![Arc::new(roles), Arc::new(StringArray::from(held))], None);
    let offsets = OffsetBuffer::from_lengths(contents.iter().map(|content| usize::from(content.is_some())));
    let validity = NullBuffer::from_iter(contents.iter().map(Option::is_some));
    Arc::new(ListArray::new(item(), offsets, Arc::new(messages), Some(validity)))
}
