//! Conversations, read in all common forms.

pub mod forms;

use std::collections::BTreeMap;
use std::sync::Arc;

use asap_kernels::steps::SEPARATOR;
use asap_kernels::tags;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringViewArray, StructArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::json::writer::{EncoderOptions, make_encoder};
use datafusion::common::{Result, plan_err};

use forms::{Holds, Place};

/// Names of the assistant.
pub(crate) const ASSISTANT: [&str; 5] = ["assistant", "gpt", "model", "ai", "bot"];
const USER: [&str; 2] = ["user", "human"];
const SYSTEMS: [&str; 2] = ["system", "developer"];
/// The fields of a message that may hold its chain, the likeliest first.
pub const TURN_CHAINS: [&str; 8] =
    ["reasoning_content", "reasoning", "thinking", "reasoning_details", "thought", "think", "cot", "thinking_blocks"];
/// Structs of a message in which LangChain and LiteLLM keep such fields.
pub const EXTRAS: [&str; 2] = ["additional_kwargs", "provider_specific_fields"];
/// Types of parts that hold no text.
const MEDIA: &str = "image image_url input_image audio input_audio audio_url video video_url file input_file document redacted_thinking";
const SPEAKER: &[&str] = &["role", "from"];
/// Gemini calls a content `parts`.
const TEXT: &[&str] = &["content", "value", "parts"];
/// The fields of a part that hold its text, by its kind. The first that is filled counts.
const PART_TEXTS: &[&str] = &["text", "content"];
const PART_THOUGHTS: &[&str] =
    &["thinking", "reasoning", "thought", "think", "reasoningContent", "summary", "text", "content"];
/// Types of parts that hold a thought: Anthropic, Mistral, OpenAI, Kimi, OpenRouter.
const THOUGHTS: &str = "thinking reasoning thought think reasoning_text summary_text reasoning.text reasoning.summary";

/// Who says a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
    System,
    /// A tool, or an unknown role.
    Other,
}

impl Speaker {
    /// Finds the speaker of a role. Case does not count.
    pub(crate) fn of(role: &str) -> Self {
        let is_any = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(role.trim()));
        match () {
            () if is_any(&USER) => Self::User,
            () if is_any(&ASSISTANT) => Self::Assistant,
            () if is_any(&SYSTEMS) => Self::System,
            () => Self::Other,
        }
    }
}

/// Returns whether a type holds conversations: a list of structs with role and content (or from and value), or a struct
/// of two lists with these names.
pub fn is_conversation(found: &DataType) -> bool {
    match found {
        DataType::Struct(fields) => {
            [SPEAKER, TEXT].iter().all(|names| names.iter().any(|name| fields.find(name).is_some()))
        }
        other => item(other).map_or(other.is_null(), |item| item.is_null() || is_conversation(item)),
    }
}

/// Whether a message, or a part of one, holds a thought by its type or its channel.
pub fn holds_thought(kind: Option<&str>, channel: Option<&str>) -> bool {
    let is_kind = |kind: &str| THOUGHTS.split(' ').any(|known| known == kind);
    let is_channel = |channel: &str| forms::holds(Place::Channel, channel) == Some(Holds::Thought);
    kind.is_some_and(is_kind) || channel.is_some_and(is_channel)
}

/// Whether a type is the content of a message in parts: texts, or structs with a type, a text or a thought.
pub fn is_parts(found: &DataType) -> bool {
    match item(found) {
        Some(DataType::Struct(fields)) => ["type", "text", "thinking"].iter().any(|name| fields.find(name).is_some()),
        Some(item) => item.is_string() || item.is_null(),
        None => false,
    }
}

/// The type of the items of a list.
pub(crate) fn item(found: &DataType) -> Option<&DataType> {
    match found {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item.data_type()),
        _ => None,
    }
}

/// Counts the parts of conversations that asap does not read, by their type.
///
/// # Errors
/// If a turn lacks a field.
pub fn other_parts(conversations: &ArrayRef) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let Some(list) = lists(conversations)? else { return Ok(counts) };
    let Some(turns) = list.values().as_struct_opt() else { return Ok(counts) };
    for contents in TEXT.iter().filter_map(|name| turns.column_by_name(name)).filter(|held| is_parts(held.data_type()))
    {
        let Some(list) = lists(contents)? else { continue };
        let parts = Parts::of(list.values())?;
        for row in (0..parts.rows).filter(|row| matches!(parts.at(*row), Part::Other)) {
            *counts.entry(parts.kind(row).unwrap_or("no type").to_string()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// One message as a conversation.
fn alone(message: &StructArray) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(message.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths((0..message.len()).map(|_| 1));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(message.clone()), message.nulls().cloned())?))
}

/// The conversations of a column, of which a message may stand alone.
pub(crate) fn conversations(column: &ArrayRef) -> Result<ArrayRef> {
    let Some(fields) = column.as_struct_opt() else { return Ok(Arc::clone(column)) };
    match fields.column_by_name(SPEAKER[0]).is_some_and(|role| item(role.data_type()).is_none()) {
        true => alone(fields),
        false => Ok(Arc::clone(column)),
    }
}

/// A list of any physical type.
pub(crate) fn lists(array: &ArrayRef) -> Result<Option<ListArray>> {
    let Some(item) = item(array.data_type()) else { return Ok(None) };
    let list = cast(array, &DataType::List(Arc::new(Field::new_list_field(item.clone(), true))))?;
    Ok(Some(list.as_list::<i32>().clone()))
}

enum Part<'a> {
    Text(&'a str),
    Thought(&'a str),
    /// A call of a tool, or its result.
    Tool,
    Other,
}

struct Parts {
    rows: usize,
    kinds: Option<ArrayRef>,
    /// Gemini's mark of thoughts.
    are_thoughts: Option<BooleanArray>,
    texts: Vec<ArrayRef>,
    thoughts: Vec<ArrayRef>,
    /// Columns whose name shows that a part is a call of a tool, or its result.
    tools: Vec<ArrayRef>,
}

impl Parts {
    fn of(parts: &ArrayRef) -> Result<Self> {
        let rows = parts.len();
        let Some(fields) = parts.as_struct_opt() else {
            let texts = vec![texts_of(parts)?];
            return Ok(Self { rows, kinds: None, are_thoughts: None, texts, thoughts: vec![], tools: vec![] });
        };
        let is_said = |held: &&ArrayRef| !held.data_type().is_primitive() && *held.data_type() != DataType::Boolean;
        let held = |name: &&str| texts_of(fields.column_by_name(name).filter(is_said)?).ok();
        let read = |names: &[&str]| names.iter().filter_map(held).collect();
        let kinds = fields.column_by_name("type").map(texts_of).transpose()?;
        let are_thoughts = fields.column_by_name("thought").and_then(|held| held.as_boolean_opt().cloned());
        let tools = forms::names(Place::Key).filter_map(|name| fields.column_by_name(name).cloned()).collect();
        Ok(Self { rows, kinds, are_thoughts, texts: read(PART_TEXTS), thoughts: read(PART_THOUGHTS), tools })
    }

    fn kind(&self, row: usize) -> Option<&str> {
        self.kinds.as_ref().map(|kinds| kinds.as_string_view()).filter(|kinds| kinds.is_valid(row))?.value(row).into()
    }

    fn is_tool(&self, row: usize) -> bool {
        match self.kind(row) {
            Some(kind) => forms::holds(Place::Part, kind).is_some(),
            None => self.tools.iter().any(|held| is_filled(held, row)),
        }
    }

    fn at(&self, row: usize) -> Part<'_> {
        let is_marked = self.are_thoughts.as_ref().is_some_and(|marks| marks.is_valid(row) && marks.value(row));
        let is_thought = |kind: &str| THOUGHTS.split(' ').any(|thought| thought == kind);
        match self.kind(row) {
            None if is_marked => Part::Thought(first_filled(&self.texts, row).unwrap_or_default()),
            Some(kind) if is_thought(kind) => Part::Thought(first_filled(&self.thoughts, row).unwrap_or_default()),
            Some("text" | "input_text" | "output_text") => {
                Part::Text(first_filled(&self.texts, row).unwrap_or_default())
            }
            _ if self.is_tool(row) => Part::Tool,
            Some(_) => Part::Other,
            None => match (first_filled(&self.texts, row), first_filled(&self.thoughts, row)) {
                (Some(text), _) => Part::Text(text),
                (None, Some(thought)) => Part::Thought(thought),
                (None, None) => Part::Text(""),
            },
        }
    }

    /// The texts of some parts as one text, after their thoughts in think tags.
    fn joined(&self, rows: impl Iterator<Item = usize>) -> String {
        let (mut text, mut thoughts) = (String::new(), Vec::new());
        for row in rows {
            match self.at(row) {
                Part::Text(more) => text.push_str(more),
                Part::Thought(thought) => {
                    // A list of thoughts has tags, from joining them.
                    let bare = thought.trim().strip_prefix("<think>").and_then(|chain| chain.strip_suffix("</think>"));
                    thoughts.push(bare.unwrap_or(thought).trim());
                }
                Part::Tool | Part::Other => {}
            }
        }
        thoughts.retain(|thought| !thought.is_empty());
        if thoughts.is_empty() { text } else { tags::wrap(&thoughts.join(SEPARATOR), &text) }
    }
}

/// The first text of a row that is not NULL, empty or blank.
fn first_filled(columns: &[ArrayRef], row: usize) -> Option<&str> {
    let mut texts = columns.iter().map(|column| column.as_string_view());
    texts.find_map(|texts| Some(texts.value(row)).filter(|text| texts.is_valid(row) && !text.trim().is_empty()))
}

/// Contents as Utf8View: parts are joined.
pub(crate) fn texts_of(contents: &ArrayRef) -> Result<ArrayRef> {
    // A union that Hugging Face writes as a struct, and the thought of Bedrock.
    if let Some(fields) = contents.as_struct_opt()
        && let Some(value) = ["value", "reasoningText", "text"].iter().find_map(|name| fields.column_by_name(name))
    {
        return texts_of(value);
    }
    let Some(list) = lists(contents)? else { return Ok(cast(contents, &DataType::Utf8View)?) };
    let (parts, offsets) = (Parts::of(list.values())?, list.value_offsets());
    let rows = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let texts = (0..list.len()).map(|row| list.is_valid(row).then(|| parts.joined(rows(row))));
    Ok(Arc::new(texts.collect::<StringViewArray>()))
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

fn field(conversations: &ArrayRef, names: &[&str]) -> Result<ListArray> {
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let texts = DataType::List(Arc::clone(&item));
    if let Some(fields) = conversations.as_struct_opt() {
        let Some(list) = lists(named(fields, names)?)? else {
            return Ok(cast(named(fields, names)?, &texts)?.as_list().clone());
        };
        let (_, offsets, values, nulls) = list.into_parts();
        let values = texts_of(&values)?;
        let nulls = NullBuffer::union(fields.nulls(), nulls.as_ref());
        return Ok(ListArray::try_new(item, offsets, values, nulls)?);
    }
    let Some(list) = lists(conversations)?.filter(|list| !list.value_type().is_null()) else {
        return Ok(cast(conversations, &texts)?.as_list::<i32>().clone());
    };
    let (_, offsets, turns, nulls) = list.into_parts();
    let turns = turns.as_struct();
    let mut values = texts_of(named(turns, names)?)?;
    // Of several names of a field, the first that is filled in a turn.
    if names.iter().filter_map(|name| turns.column_by_name(name)).count() > 1 {
        let columns = names.iter().filter_map(|name| turns.column_by_name(name)).map(texts_of);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let filled = (0..turns.len()).map(|row| first_filled(&columns, row));
        values = Arc::new(filled.collect::<StringViewArray>());
    }
    Ok(ListArray::try_new(item, offsets, values, nulls)?)
}

/// A field of each message, with the offsets of its conversations. None if messages have no such field.
fn held(conversations: &ArrayRef, name: &str) -> Result<Option<ListArray>> {
    if let Some(fields) = conversations.as_struct_opt() {
        return fields.column_by_name(name).map_or(Ok(None), lists);
    }
    let Some(list) = lists(conversations)? else { return Ok(None) };
    let (_, offsets, turns, nulls) = list.into_parts();
    let Some(turns) = turns.as_struct_opt() else { return Ok(None) };
    let extras = EXTRAS.iter().filter_map(|extra| turns.column_by_name(extra)?.as_struct_opt()?.column_by_name(name));
    let Some(values) = turns.column_by_name(name).into_iter().chain(extras).next() else { return Ok(None) };
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(Some(ListArray::try_new(item, offsets, Arc::clone(values), nulls)?))
}

/// A field of each message as texts. None if messages have no such field, or if it holds no texts.
pub(crate) fn texts_of_field(conversations: &ArrayRef, name: &str) -> Result<Option<ListArray>> {
    let is_text = |found: &DataType| found.is_string() || is_parts(found) || matches!(found, DataType::Dictionary(..));
    let Some(list) = held(conversations, name)?.filter(|list| is_text(&list.value_type())) else { return Ok(None) };
    let (_, offsets, values, nulls) = list.into_parts();
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    Ok(Some(ListArray::try_new(item, offsets, texts_of(&values)?, nulls)?))
}

/// A field of each message as texts, or as JSON text. None if messages have no such field.
pub(crate) fn field_as_text(conversations: &ArrayRef, name: &str) -> Result<Option<ListArray>> {
    if let Some(texts) = texts_of_field(conversations, name)? {
        return Ok(Some(texts));
    }
    let Some(list) = held(conversations, name)? else { return Ok(None) };
    let texts = as_json(list.values(), |row| is_filled(list.values(), row))?;
    described(&list, |row| texts[row].clone())
}

/// What messages hold other than texts and thoughts, in a list for each place that may hold it.
#[derive(Default)]
pub(crate) struct Others {
    /// Calls of tools and results, as JSON text.
    pub tools: Vec<ListArray>,
    /// The first part of a message that asap does not read: it is neither text, a thought, media nor of a tool.
    pub unread: Vec<ListArray>,
}

impl Others {
    /// Reads conversations of any form.
    ///
    /// # Errors
    /// If a value has no JSON form.
    pub(crate) fn of(conversations: &ArrayRef) -> Result<Self> {
        let mut found = Self::default();
        for name in forms::names(Place::Field) {
            let Some(list) = held(conversations, name)? else { continue };
            let texts = as_json(list.values(), |row| is_filled(list.values(), row))?;
            found.tools.extend(described(&list, |row| texts[row].clone())?);
        }
        for name in TEXT {
            let Some(list) = held(conversations, name)?.filter(|list| is_parts(&list.value_type())) else { continue };
            let Some(contents) = lists(list.values())? else { continue };
            found.add(&list, &contents)?;
        }
        Ok(found)
    }

    fn add(&mut self, list: &ListArray, contents: &ListArray) -> Result<()> {
        let (parts, offsets) = (Parts::of(contents.values())?, contents.value_offsets());
        let rows = |row: usize| {
            let rows = offsets[row] as usize..offsets[row + 1] as usize;
            if contents.is_valid(row) { rows } else { 0..0 }
        };
        let texts = as_json(contents.values(), |row| parts.is_tool(row))?;
        let tools = |row| {
            let texts: Vec<&str> = rows(row).filter_map(|row| texts[row].as_deref()).collect();
            (!texts.is_empty()).then(|| format!("[{}]", texts.join(",")))
        };
        self.tools.extend(described(list, tools)?);
        let kind = |row: usize| parts.kind(row).unwrap_or("no type").to_string();
        let is_unread =
            |row: &usize| matches!(parts.at(*row), Part::Other) && !MEDIA.split(' ').any(|media| media == kind(*row));
        let other = |row| rows(row).find(is_unread).map(|row| format!("a part of the type {}", kind(row)));
        self.unread.extend(described(list, other)?);
        Ok(())
    }
}

/// Values as JSON text, without fields that are NULL. A text stays as it is. None for values that are not needed.
pub fn as_json(values: &ArrayRef, is_needed: impl Fn(usize) -> bool) -> Result<Vec<Option<String>>> {
    let needed: Vec<bool> = (0..values.len()).map(is_needed).collect();
    if !needed.contains(&true) {
        return Ok(vec![None; values.len()]);
    }
    if values.data_type().is_string() || matches!(values.data_type(), DataType::Dictionary(..)) {
        let texts = cast(values, &DataType::Utf8View)?;
        let texts = needed.iter().zip(texts.as_string_view());
        return Ok(texts.map(|(is_needed, text)| text.filter(|_| *is_needed).map(str::to_string)).collect());
    }
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let options = EncoderOptions::default();
    let mut encoder = make_encoder(&field, values, &options)?;
    let json = needed.iter().enumerate().map(|(row, is_needed)| {
        let mut json = Vec::new();
        (*is_needed && !encoder.is_null(row)).then(|| encoder.encode(row, &mut json))?;
        String::from_utf8(json).ok()
    });
    Ok(json.collect())
}

/// The descriptions of the values of a list. None if it has none.
fn described(list: &ListArray, found: impl Fn(usize) -> Option<String>) -> Result<Option<ListArray>> {
    let found: StringViewArray = (0..list.values().len()).map(found).collect();
    if found.null_count() == found.len() {
        return Ok(None);
    }
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    Ok(Some(ListArray::try_new(item, list.offsets().clone(), Arc::new(found), list.nulls().cloned())?))
}

fn is_filled(values: &ArrayRef, row: usize) -> bool {
    if values.is_null(row) || values.data_type().is_null() {
        return false;
    }
    if let Some(fields) = values.as_struct_opt() {
        return fields.columns().iter().any(|field| is_filled(field, row));
    }
    match lists(values) {
        Ok(Some(list)) => list.value_length(row) > 0,
        _ if values.data_type().is_string() => {
            let text = cast(&values.slice(row, 1), &DataType::Utf8View);
            text.is_ok_and(|text| !["", "[]", "{}", "null"].contains(&text.as_string_view().value(0).trim()))
        }
        _ => true,
    }
}

fn named<'a>(fields: &'a StructArray, names: &[&str]) -> Result<&'a ArrayRef> {
    match names.iter().find_map(|name| fields.column_by_name(name)) {
        Some(column) => Ok(column),
        None => plan_err!("a turn needs a field {} or {}, found neither", names[0], names[1]),
    }
}
