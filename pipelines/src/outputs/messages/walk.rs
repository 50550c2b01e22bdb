//! A walk through the texts of messages, whatever their form.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asap_kernels::tags;
use asap_udfs::messages::{TURN_CHAINS, holds_thought};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, StructArray};
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, exec_err};

/// More names of fields with thoughts, in parts and items of messages.
const THOUGHTS: [&str; 3] = ["reasoningContent", "reasoningText", "summary"];
/// Fields that are valid only for the thought that a model wrote, in the struct of the thought.
const PROOFS: [&str; 1] = ["signature"];
/// Such fields anywhere in the message of the thought.
const PROOFS_OF_MESSAGE: [&str; 3] = ["encrypted_content", "thoughtSignature", "thought_signature"];

/// Where a value stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub message: usize,
    /// Whether only thoughts are there.
    pub is_of_thoughts: bool,
}

/// A text of a message.
pub(super) struct Leaf {
    pub message: usize,
    /// The thought that the text is or has in tags, if it is one.
    pub thought: Option<String>,
}

/// What a walk through a column does with its texts.
#[derive(Default)]
pub(super) struct Walk {
    pub leaves: Vec<Leaf>,
    /// New texts, by the numbers of the leaves.
    changed: HashMap<usize, String>,
    /// The messages of the new texts.
    changed_messages: HashSet<usize>,
    /// The number of the next leaf.
    next: usize,
}

impl Walk {
    /// A walk that changes texts, by their numbers in `leaves`, which an earlier walk found.
    pub(super) fn changing(changed: HashMap<usize, String>, leaves: &[Leaf]) -> Self {
        let changed_messages = changed.keys().map(|number| leaves[*number].message).collect();
        Self { changed, changed_messages, ..Self::default() }
    }

    /// Walks through values, each at its place.
    pub(super) fn array(&mut self, values: &ArrayRef, places: &[Place]) -> Result<ArrayRef> {
        match values.data_type() {
            DataType::Struct(_) => self.fields(values.as_struct(), places),
            DataType::List(item) => {
                let list = values.as_list::<i32>();
                let mut own = vec![Place { message: 0, is_of_thoughts: false }; list.values().len()];
                for (row, offsets) in list.value_offsets().windows(2).enumerate() {
                    own[offsets[0] as usize..offsets[1] as usize].fill(places[row]);
                }
                let items = self.array(list.values(), &own)?;
                let nulls = list.nulls().cloned();
                Ok(Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), items, nulls)?))
            }
            kind if kind.is_string() => {
                let texts = cast(values, &DataType::Utf8)?;
                let each = texts.as_string::<i32>().iter().zip(places);
                let texts = each.map(|(text, place)| self.text(text, *place)).collect::<Result<Vec<_>>>()?;
                Ok(cast(&StringArray::from(texts), kind)?)
            }
            _ => Ok(Arc::clone(values)),
        }
    }

    fn text(&mut self, text: Option<&str>, place: Place) -> Result<Option<String>> {
        let Place { message, is_of_thoughts } = place;
        let number = self.next;
        self.next += 1;
        let parts = text.filter(|text| tags::begins_with_chain(text)).and_then(tags::parts);
        let tagged = parts.map(|parts| parts.chain.into_owned());
        let whole = || text.filter(|_| is_of_thoughts).map(str::to_string);
        let thought = tagged.or_else(whole).filter(|thought| !thought.is_empty());
        let new = self.changed.get(&number).zip(text).zip(thought.as_deref());
        let new = match new {
            Some(((new, text), thought)) => match text.find(thought) {
                Some(0) if thought.len() == text.len() => Some(new.clone()),
                // White space at the ends of a thought in tags belongs to the tags.
                Some(start) => Some([&text[..start], new.trim(), &text[start + thought.len()..]].concat()),
                None => return exec_err!("a thought is in several pieces of its text: leave out --messages original"),
            },
            None => None,
        };
        self.leaves.push(Leaf { message, thought });
        Ok(new.or_else(|| text.map(str::to_string)))
    }

    fn fields(&mut self, held: &StructArray, places: &[Place]) -> Result<ArrayRef> {
        let mut columns = Vec::with_capacity(held.num_columns());
        let mut are_changed = vec![false; held.len()];
        let are_thoughts = are_thoughts(held)?;
        for (field, column) in held.fields().iter().zip(held.columns()) {
            let is_named = TURN_CHAINS.contains(&field.name().as_str()) || THOUGHTS.contains(&field.name().as_str());
            let own = places.iter().zip(&are_thoughts);
            let own = own.map(|(place, is_thought)| Place {
                is_of_thoughts: place.is_of_thoughts || is_named || *is_thought,
                ..*place
            });
            let begin = self.next;
            columns.push(self.array(column, &own.collect::<Vec<_>>())?);
            // Values of texts are numbered one by one.
            if column.data_type().is_string() {
                are_changed.iter_mut().zip(begin..).for_each(|(is, number)| *is |= self.changed.contains_key(&number));
            }
        }
        let are_changed = BooleanArray::from(are_changed);
        let of_message: BooleanArray =
            places.iter().map(|place| Some(self.changed_messages.contains(&place.message))).collect();
        for (field, column) in held.fields().iter().zip(&mut columns) {
            let name = field.name().as_str();
            if PROOFS.contains(&name) {
                *column = nullif(column.as_ref(), &are_changed)?;
            } else if PROOFS_OF_MESSAGE.contains(&name) {
                *column = nullif(column.as_ref(), &of_message)?;
            }
        }
        Ok(Arc::new(StructArray::try_new(held.fields().clone(), columns, held.nulls().cloned())?))
    }
}

/// Whether each struct holds a thought: by its type, its channel or the flag of Gemini.
fn are_thoughts(held: &StructArray) -> Result<Vec<bool>> {
    let texts = |name: &str| match held.column_by_name(name).filter(|column| column.data_type().is_string()) {
        Some(column) => Ok::<_, DataFusionError>(Some(cast(column, &DataType::Utf8)?)),
        None => Ok(None),
    };
    let (kinds, channels) = (texts("type")?, texts("channel")?);
    let flags = held.column_by_name("thought").and_then(|flags| flags.as_boolean_opt());
    let text = |texts: &Option<ArrayRef>, row: usize| {
        let texts = texts.as_ref()?.as_string::<i32>();
        texts.is_valid(row).then(|| texts.value(row).to_string())
    };
    let is_thought = |row: usize| {
        let is_flagged = flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row));
        is_flagged || holds_thought(text(&kinds, row).as_deref(), text(&channels, row).as_deref())
    };
    Ok((0..held.len()).map(is_thought).collect())
}
