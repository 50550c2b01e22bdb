//! Conversations, read in all common forms.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};

const SPEAKER: [&str; 2] = ["role", "from"];
const TEXT: [&str; 2] = ["content", "value"];

/// Returns whether a type holds conversations: a list of structs with role and content (or from and value), or a struct
/// of two lists with these names.
pub(crate) fn is_conversation(found: &DataType) -> bool {
    match found {
        DataType::Struct(fields) => {
            [SPEAKER, TEXT].iter().all(|names| names.iter().any(|name| fields.find(name).is_some()))
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_null() || is_conversation(item.data_type())
        }
        other => other.is_null(),
    }
}

/// Converts conversations of any form to a struct of two lists of Utf8View: speakers and texts.
///
/// # Errors
/// If a turn lacks a field.
pub fn turns(conversations: &ArrayRef) -> Result<ArrayRef> {
    let (speakers, texts) = (field(conversations, SPEAKER)?, field(conversations, TEXT)?);
    let nulls = NullBuffer::union(speakers.nulls(), texts.nulls());
    let fields = [SPEAKER, TEXT].map(|names| Field::new(names[0], speakers.data_type().clone(), true));
    let columns: Vec<ArrayRef> = vec![Arc::new(speakers), Arc::new(texts)];
    Ok(Arc::new(StructArray::try_new(fields.to_vec().into(), columns, nulls)?))
}

/// Returns the speaker and the text of each turn in a row of [`turns`]; None if the array has type Null.
pub(crate) fn turns_at(turns: &ArrayRef, row: usize) -> Option<Vec<(Option<&str>, Option<&str>)>> {
    let turns = turns.as_struct_opt()?;
    let [speakers, texts] = [0, 1].map(|field| {
        let list = turns.column(field).as_list::<i32>();
        let offsets = list.value_offsets();
        let items = list.values().as_string_view();
        (offsets[row] as usize..offsets[row + 1] as usize)
            .map(move |item| items.is_valid(item).then(|| items.value(item)))
    });
    Some(speakers.zip(texts).collect())
}

fn field(conversations: &ArrayRef, names: [&str; 2]) -> Result<ListArray> {
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let texts = DataType::List(Arc::clone(&item));
    if let Some(fields) = conversations.as_struct_opt() {
        let (_, offsets, values, nulls) = cast(named(fields, names)?, &texts)?.as_list::<i32>().clone().into_parts();
        let nulls = NullBuffer::union(fields.nulls(), nulls.as_ref());
        return Ok(ListArray::try_new(item, offsets, values, nulls)?);
    }
    match conversations.data_type() {
        DataType::List(turn) | DataType::LargeList(turn) | DataType::FixedSizeList(turn, _)
            if !turn.data_type().is_null() =>
        {
            let list = cast(conversations, &DataType::List(Arc::clone(turn)))?;
            let (_, offsets, turns, nulls) = list.as_list::<i32>().clone().into_parts();
            let values = cast(named(turns.as_struct(), names)?, &DataType::Utf8View)?;
            Ok(ListArray::try_new(item, offsets, values, nulls)?)
        }
        _ => Ok(cast(conversations, &texts)?.as_list::<i32>().clone()),
    }
}

fn named<'a>(fields: &'a StructArray, names: [&str; 2]) -> Result<&'a ArrayRef> {
    match names.iter().find_map(|name| fields.column_by_name(name)) {
        Some(column) => Ok(column),
        None => plan_err!("a turn needs a field {} or {}, found neither", names[0], names[1]),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{StringViewArray, new_null_array};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::Fields;

    use super::*;

    fn written(names: [&str; 2], text: &DataType) -> ArrayRef {
        let speakers: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("system"), Some("user"), Some("gpt"), Some("human"), None]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("s"), Some("q"), Some("a"), None, Some("x")]));
        let turns = StructArray::new(
            Fields::from(vec![Field::new(names[1], text.clone(), true), Field::new(names[0], text.clone(), true)]),
            vec![cast(&texts, text).unwrap(), cast(&speakers, text).unwrap()],
            None,
        );
        let item = Arc::new(Field::new("element", turns.data_type().clone(), true));
        let offsets = OffsetBuffer::new(vec![0, 3, 5, 5].into());
        let nulls = NullBuffer::from(vec![true, true, false]);
        Arc::new(ListArray::new(item, offsets, Arc::new(turns), Some(nulls)))
    }

    fn as_struct(conversations: &ArrayRef, names: [&str; 2]) -> ArrayRef {
        let list = conversations.as_list::<i32>();
        let columns = names.map(|name| {
            let values = Arc::clone(list.values().as_struct().column_by_name(name).unwrap());
            let item = Arc::new(Field::new("element", values.data_type().clone(), true));
            let lists = ListArray::new(item, list.offsets().clone(), values, None);
            (Arc::new(Field::new(name, lists.data_type().clone(), true)), Arc::new(lists) as ArrayRef)
        });
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Arc::new(StructArray::new(Fields::from(fields), arrays, list.nulls().cloned()))
    }

    fn said(conversations: &ArrayRef, role: &str) -> Vec<Option<Vec<String>>> {
        let read =
            if conversations.data_type().is_null() { conversations.clone() } else { turns(conversations).unwrap() };
        let of_role = |turns: Vec<(Option<&str>, Option<&str>)>| {
            let own = turns.into_iter().filter(|(speaker, _)| *speaker == Some(role));
            own.map(|(_, text)| text.unwrap_or("NULL").to_string()).collect()
        };
        (0..read.len()).map(|row| turns_at(&read, row).filter(|_| read.is_valid(row)).map(of_role)).collect()
    }

    #[test]
    fn conversations_of_every_form_read_alike() {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| text.to_string()).collect::<Vec<_>>());
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for names in [["role", "content"], ["from", "value"]] {
            for text in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, dictionary.clone()] {
                let list = written(names, &text);
                let item = Arc::new(Field::new_list_field(list.as_list::<i32>().value_type(), true));
                let large = cast(&list, &DataType::LargeList(item)).unwrap();
                for form in [as_struct(&list, names), list, large] {
                    assert!(is_conversation(form.data_type()));
                    assert_eq!(said(&form, "user"), [texts(&["q"]), texts(&[]), None], "{}", form.data_type());
                    assert_eq!(said(&form, "human"), [texts(&[]), texts(&["NULL"]), None]);
                    assert_eq!(said(&form, "tool"), [texts(&[]), texts(&[]), None]);
                    assert_eq!(said(&form.slice(1, 2), "human"), [texts(&["NULL"]), None]);
                }
            }
        }
    }

    #[test]
    fn what_has_no_type_or_no_rows_says_nothing() {
        assert_eq!(said(&new_null_array(&DataType::Null, 2), "user"), [None, None]);
        let item = Arc::new(Field::new_list_field(DataType::Null, true));
        let empty = ListArray::new(item, OffsetBuffer::new_zeroed(1), new_null_array(&DataType::Null, 0), None);
        assert_eq!(said(&(Arc::new(empty) as ArrayRef), "user"), [Some(vec![])]);
        assert!(said(&written(["from", "value"], &DataType::Utf8).slice(0, 0), "user").is_empty());
        assert!(!is_conversation(&DataType::Utf8));
    }
}
