//! The types of columns that may hold chains, answers, flags, generations and conversations.

use asap_udfs::messages;
use datafusion::arrow::datatypes::{DataType, FieldRef};

use crate::corpus::rules::ITEM_TEXTS;
use crate::corpus::shape::path::{is_text, item};

/// Whether a type is that of a chain: a text, a list of texts, or of parts.
pub(crate) fn is_chain(found: &DataType) -> bool {
    is_text(found) || item(found).is_some_and(is_text) || messages::is_parts(found)
}

/// Whether a type is that of an answer or of a flag. One flag that is spelled makes texts of all.
pub(crate) fn is_plain(found: &DataType) -> bool {
    is_text(found) || found.is_numeric() || *found == DataType::Boolean
}

pub(crate) fn is_list(found: &DataType) -> bool {
    found.is_null() || item(found).is_some()
}

pub(crate) fn are_flags(found: &DataType) -> bool {
    found.is_null() || item(found).is_some_and(is_plain)
}

pub(crate) fn is_generations(found: &DataType) -> bool {
    match item(found) {
        Some(DataType::Struct(fields)) => {
            ITEM_TEXTS.iter().any(|name| fields.find(name).is_some_and(|(_, field)| is_text(field.data_type())))
        }
        Some(item) => is_text(item),
        None => found.is_null(),
    }
}

/// Whether a type is that of a message's content: a text, or a list of parts.
pub(crate) fn is_content(found: &DataType) -> bool {
    is_text(found) || messages::is_parts(found)
}

/// Whether a type is that of one message.
pub(crate) fn is_message(found: &DataType) -> bool {
    let DataType::Struct(fields) = found else { return false };
    let is = |name, fits: fn(&DataType) -> bool| fields.find(name).is_some_and(|(_, field)| fits(field.data_type()));
    is("role", is_text) && ["content", "parts"].into_iter().any(|name| is(name, is_content))
}

pub(crate) fn are_turns(found: &DataType) -> bool {
    let holds = |fields: &[FieldRef], fits: fn(&DataType) -> bool| {
        [["role", "content"], ["from", "value"], ["role", "parts"]].iter().any(|names| {
            names.iter().all(|name| fields.iter().any(|field| field.name() == name && fits(field.data_type())))
        })
    };
    match (found, item(found)) {
        (DataType::Struct(fields), _) => holds(fields, |found| item(found).is_some_and(is_content)),
        (_, Some(DataType::Struct(fields))) => holds(fields, is_content),
        (found, item) => found.is_null() || item.is_some_and(DataType::is_null),
    }
}
