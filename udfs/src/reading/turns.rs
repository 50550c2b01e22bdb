//! The turns of a conversation with several exchanges or tools, and the columns that a row of it has.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use asap_kernels::steps::{SEPARATOR, Separator};
use asap_kernels::tags;
use asap_lm::example::{Conversation, Thought};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::Result;

use super::calls::{Call, Outcome};
use super::response::{Response, Said, is_opening};
use super::{Exchange, Row};
use crate::messages;
use crate::output::{IntoArray, list_of, struct_output};

/// What one side says, calls or returns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn<'a> {
    pub role: &'a str,
    pub thought: Option<Cow<'a, str>>,
    pub text: Option<Cow<'a, str>>,
    pub calls: Vec<Call<'a>>,
    /// Of a result: the call that it answers.
    pub call_id: Option<Cow<'a, str>>,
    /// Of a result: the tool.
    pub name: Option<Cow<'a, str>>,
    /// The steps of the thought.
    steps: i64,
    /// Of a pruned conversation: the steps of the thought before.
    original_steps: Option<i64>,
}

struct_output!(turn: &Turn<'_> =>
    "role": Some(turn.role),
    "thought": turn.thought.as_deref(),
    "text": turn.text.as_deref(),
    "calls": Some(turn.calls.iter().collect::<Vec<_>>()),
    "call_id": turn.call_id.as_deref(),
    "name": turn.name.as_deref(),
    "steps": Some(turn.steps),
    "original_steps": turn.original_steps,
);

impl IntoArray for Turn<'_> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        <&Turn>::array(rows.iter().map(Option::as_ref).collect())
    }
}

impl<'a> Turn<'a> {
    /// The same turn with a pruned thought; None for none. It has `steps` of the `original_steps`.
    pub(crate) fn with_thought(self, thought: Option<Cow<'a, str>>, steps: usize, original_steps: usize) -> Self {
        let original_steps = (original_steps > 0).then_some(original_steps as i64);
        Self { thought, steps: steps as i64, original_steps, ..self }
    }

    pub(crate) fn steps(&self) -> usize {
        usize::try_from(self.steps).unwrap_or(0)
    }

    /// Whether the assistant says, thinks and calls nothing.
    fn is_prompt(&self) -> bool {
        let is_silent = self.text.as_deref().is_none_or(is_opening);
        self.role == "assistant" && is_silent && self.thought.is_none() && self.calls.is_empty()
    }

    pub(crate) fn without_thought(self) -> asap_lm::Turn<'a> {
        let steps = self.steps();
        let Self { role, text, calls, call_id, name, .. } = self;
        let call = |Call { id, name, arguments }| asap_lm::Call { id, name, arguments };
        let calls = calls.into_iter().map(call).collect();
        asap_lm::Turn { role, text, calls, call_id, name, steps }
    }
}

/// The fields of what functions read before a chain, if a row may be a conversation: a struct of columns of a corpus.
pub const ASKED: [&str; 3] = ["question", "system", "turns"];

/// Whether a type is a struct of [`ASKED`].
pub(crate) fn is_asked(found: &DataType) -> bool {
    matches!(found, DataType::Struct(fields) if ASKED.iter().all(|name| fields.find(name).is_some()))
}

/// A struct of [`ASKED`], with texts as Utf8View.
pub(crate) fn normal_asked(asked: &ArrayRef) -> Result<ArrayRef> {
    let texts = |name: &str| Field::new(name, DataType::Utf8View, true);
    let wanted = vec![texts(ASKED[0]), texts(ASKED[1]), Field::new(ASKED[2], turns_type(), true)];
    Ok(Arc::new(normal_fields(asked.as_struct(), &wanted.into())?))
}

/// The columns of a struct of [`ASKED`].
pub(crate) fn asked_columns(asked: &ArrayRef) -> Option<[&ArrayRef; 3]> {
    let fields = asked.as_struct_opt()?;
    let [question, system, turns] = ASKED.map(|name| fields.column_by_name(name));
    Some([question?, system?, turns?])
}

/// The type of the column `turns`.
pub fn turns_type() -> DataType {
    let texts = |names: &[&str]| names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect::<Vec<_>>();
    let calls = list_of(DataType::Struct(texts(&["id", "name", "arguments"]).into()));
    let others = vec![Field::new("calls", calls, true)];
    let steps = ["steps", "original_steps"].map(|name| Field::new(name, DataType::Int64, true)).to_vec();
    let fields = [texts(&["role", "thought", "text"]), others, texts(&["call_id", "name"]), steps].concat();
    list_of(DataType::Struct(fields.into()))
}

/// Whether a type is that of turns: lists of structs with a role and calls.
pub fn are_turns(found: &DataType) -> bool {
    let Some(DataType::Struct(fields)) = messages::item(found) else { return false };
    ["role", "calls"].iter().all(|name| fields.find(name).is_some()) && !messages::is_conversation(found)
}

/// Turns of any physical type, and with any of the fields, as a column of [`turns_type`].
pub(crate) fn normal(turns: &ArrayRef) -> Result<ArrayRef> {
    normal_as(turns, &turns_type())
}

fn normal_as(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    let DataType::List(item) = wanted else { return Ok(cast(values, wanted)?) };
    let (Some(list), DataType::Struct(wanted)) = (messages::lists(values)?, item.data_type()) else {
        return Ok(new_null_array(&list_of(item.data_type().clone()), values.len()));
    };
    let (_, offsets, items, nulls) = list.into_parts();
    let items: ArrayRef = match items.as_struct_opt() {
        Some(items) => Arc::new(normal_fields(items, wanted)?),
        None => new_null_array(item.data_type(), items.len()),
    };
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, nulls)?))
}

fn normal_fields(items: &StructArray, wanted: &Fields) -> Result<StructArray> {
    let field = |field: &Arc<Field>| match items.column_by_name(field.name()) {
        Some(held) => normal_as(held, field.data_type()),
        None => Ok(new_null_array(field.data_type(), items.len())),
    };
    let columns = wanted.iter().map(field).collect::<Result<_>>()?;
    Ok(StructArray::try_new(wanted.clone(), columns, items.nulls().cloned())?)
}

/// The turns of a row of [`normal`].
pub(crate) fn turns_at(turns: &ListArray, row: usize) -> Vec<Turn<'_>> {
    let fields = turns.values().as_struct();
    let texts = [0, 1, 2, 4, 5].map(|field| fields.column(field).as_string::<i32>());
    let calls = fields.column(3).as_list::<i32>();
    let counts = [6, 7].map(|field| fields.column(field).as_primitive::<Int64Type>());
    let of_calls = [0, 1, 2].map(|field| calls.values().as_struct().column(field).as_string::<i32>());
    let call = |at| {
        let [id, name, arguments] = of_calls.map(|texts| texts.is_valid(at).then(|| Cow::Borrowed(texts.value(at))));
        Call { id, name, arguments }
    };
    let turn = |at| {
        let held = texts.map(|texts| texts.is_valid(at).then(|| texts.value(at)));
        let [thought, text, call_id, name] = [1, 2, 3, 4].map(|field| held[field].map(Cow::Borrowed));
        let calls = Some(calls.value_offsets()).filter(|_| calls.is_valid(at));
        let calls = calls.map_or(0..0, |offsets| offsets[at] as usize..offsets[at + 1] as usize).map(call).collect();
        let [steps, original_steps] = counts.map(|counts| counts.is_valid(at).then(|| counts.value(at)));
        let (role, steps) = (held[0].unwrap_or_default(), steps.unwrap_or(0));
        Turn { role, thought, text, calls, call_id, name, steps, original_steps }
    };
    let offsets = turns.value_offsets();
    (offsets[row] as usize..offsets[row + 1] as usize).map(turn).collect()
}

/// The turns of a conversation after the system prompt next to them, unless they have one.
pub(crate) fn with_system<'a>(system: Option<&'a str>, turns: Vec<Turn<'a>>) -> Vec<Turn<'a>> {
    let system = system.filter(|_| !turns.iter().any(|turn| turn.role == "system"));
    let system = system.map(|text| Turn { role: "system", text: Some(text.into()), ..Turn::default() });
    system.into_iter().chain(turns).collect()
}

/// The bytes of each step of a chain, and whether it is learned.
type LearnedSteps = Vec<(Range<usize>, bool)>;

/// Conversations to learn: a column `turns`.
pub struct Lessons(ListArray);

impl Lessons {
    /// Reads a column of any physical type.
    pub fn new(turns: &ArrayRef) -> Result<Self> {
        Ok(Self(normal(turns)?.as_list().clone()))
    }

    pub fn has(&self, row: usize) -> bool {
        self.0.is_valid(row)
    }

    /// A conversation as a model learns it. `whole` is the chain before pruning, with the bytes of its steps and whether each is
    /// learned; without it, thoughts are learned as they are. None if the turns do not have these steps.
    pub fn at<'a>(
        &'a self,
        row: usize,
        system: Option<&'a str>,
        tools: Option<&'a str>,
        whole: Option<(&'a str, LearnedSteps)>,
    ) -> Option<Conversation<'a>> {
        let turns = with_system(system, turns_at(&self.0, row));
        let (is_whole, (text, steps)) = (whole.is_some(), whole.unwrap_or_default());
        let mut rest = steps.into_iter();
        let mut thought = |turn: &Turn<'a>| {
            if !is_whole {
                return Some(turn.thought.clone().map(|text| Thought { text, steps: None }));
            }
            let steps = usize::try_from(turn.original_steps.unwrap_or(0)).ok()?;
            let own: Vec<_> = rest.by_ref().take(steps).collect();
            let begin = own.first().map_or(0, |(first, _)| first.start);
            let end = own.last().filter(|_| own.len() == steps).map(|(last, _)| last.end);
            let steps = own.into_iter().map(|(own, is_learned)| (own.start - begin..own.end - begin, is_learned));
            match (end, turn.original_steps) {
                (Some(end), _) => Some(Some(Thought { text: text[begin..end].into(), steps: Some(steps.collect()) })),
                (None, None | Some(0)) => Some(None),
                (None, Some(_)) => None,
            }
        };
        let thoughts = turns.iter().map(&mut thought).collect::<Option<Vec<_>>>()?;
        let turns = turns.into_iter().map(Turn::without_thought).collect();
        rest.next().is_none().then_some(Conversation { turns, thoughts, tools })
    }
}

/// The column `turns`. None for rows that are no conversation of this kind.
pub(super) fn column<'t, 'a: 't>(
    rows: impl ExactSizeIterator<Item = Option<&'t Vec<Turn<'a>>>> + Clone,
) -> Result<ArrayRef> {
    match rows.clone().all(|turns| turns.is_none()) {
        true => Ok(new_null_array(&turns_type(), rows.len())),
        false => Vec::<&Turn>::array(rows.map(|turns| Some(turns?.iter().collect())).collect()),
    }
}

/// The turns of a conversation, while it is read.
#[derive(Default)]
pub(super) struct Turns<'a> {
    turns: Vec<Turn<'a>>,
    /// Whether thoughts have places of their own, or opening tags: then a text may mention a closing tag.
    are_marked: bool,
    /// Thoughts that stand alone. They belong to what the assistant says or calls next.
    thoughts: Vec<Cow<'a, str>>,
    /// Why the row cannot be read, of its first such turn.
    fault: Option<(&'static str, String)>,
}

impl<'a> Turns<'a> {
    /// Turns of a conversation. `are_marked` is whether thoughts have places of their own, or opening tags.
    pub(super) fn new(are_marked: bool) -> Self {
        Self { are_marked, ..Self::default() }
    }

    pub(super) fn thinks(&mut self, thought: Option<Cow<'a, str>>) {
        self.thoughts.extend(filled(thought));
    }

    /// Adds a turn, also an empty one: the turns alternate as they came.
    pub(super) fn says(&mut self, role: &'static str, text: Option<&'a str>) {
        self.turns.push(Turn { role, text: text.map(Cow::Borrowed), ..Turn::default() });
    }

    /// Adds what the assistant says, calls or both.
    pub(super) fn answers(&mut self, said: Said<'a>, calls: Vec<Call<'a>>) {
        let text = said.text.filter(|text| !is_opening(text));
        let chain = filled(said.chain);
        let number = self.turns.len() + 1;
        let opens = |text: &str| chain.is_none() && tags::begins_with_chain(text) && tags::parts(text).is_none();
        if text.is_some_and(opens) {
            self.is_faulty("no_tags", format!("turn {number} begins with a think tag and has no closing think tag"));
        }
        if chain.as_deref().is_some_and(|chain| says_more(chain, text.unwrap_or_default())) {
            let why = format!("the thought of turn {number} continues after its closing think tag");
            self.is_faulty("tags_in_answer", why);
        }
        let is_bare = chain.is_none() && !text.is_some_and(tags::begins_with_chain);
        let read = match is_bare && self.are_marked {
            true => Response::default(),
            false => Response::of_message(Said { text, chain }, format_args!("turn {number}")),
        };
        let may_open = |chain: &str| tags::openings().any(|tag| tag.starts_with(['<', '[']) && chain.contains(tag));
        if is_bare && read.cot.as_deref().is_some_and(may_open) {
            self.is_faulty("tags_in_answer", format!("turn {number} has think tags within its text"));
        }
        if let (Some(status @ ("text_before_chain" | "tags_in_answer")), Some(error)) = (read.status, read.error) {
            self.is_faulty(status, error);
        }
        let text = if read.cot.is_some() { read.answer } else { text.map(Cow::Borrowed) };
        self.thoughts.extend(filled(read.cot));
        let (thought, text) = (self.thought(), filled(text));
        let is_empty = thought.is_none() && text.is_none() && calls.is_empty();
        let text = text.or_else(|| said.text.filter(|_| is_empty).map(Cow::Borrowed));
        self.turns.push(Turn { role: "assistant", thought, text, calls, ..Turn::default() });
    }

    fn is_faulty(&mut self, status: &'static str, why: String) {
        self.fault.get_or_insert((status, why));
    }

    /// Adds calls that stand alone: to what the assistant said just before, unless it thought since.
    pub(super) fn calls(&mut self, calls: Vec<Call<'a>>) {
        match self.turns.last_mut().filter(|turn| turn.role == "assistant" && self.thoughts.is_empty()) {
            _ if calls.is_empty() => {}
            Some(turn) => turn.calls.extend(calls),
            None => self.answers(Said { text: None, chain: None }, calls),
        }
    }

    pub(super) fn returns(&mut self, outcome: Outcome<'a>) {
        let Outcome { call_id, name, text } = outcome;
        self.turns.push(Turn { role: "tool", text, call_id, name, ..Turn::default() });
    }

    fn thought(&mut self) -> Option<Cow<'a, str>> {
        let mut thoughts = std::mem::take(&mut self.thoughts);
        match thoughts.len() {
            0 | 1 => thoughts.pop(),
            _ => Some(Cow::Owned(thoughts.join(SEPARATOR))),
        }
    }

    /// The row: its thoughts as the chain, the last text of the assistant as the answer, and the turns. No turns if a step would
    /// span two thoughts.
    pub(super) fn finish(mut self, exchange: Exchange<'a>, place: &str, separator: Separator) -> Row<'a> {
        if !self.thoughts.is_empty() {
            self.answers(Said { text: None, chain: None }, vec![]);
        }
        // A generation prompt, which may leave its tag open, is no turn.
        while self.turns.last().is_some_and(Turn::is_prompt) {
            self.turns.pop();
        }
        let Self { mut turns, fault, .. } = self;
        for turn in &mut turns {
            turn.steps = turn.thought.as_deref().map_or(0, |thought| separator.steps(thought).len() as i64);
        }
        let thoughts: Vec<&str> = turns.iter().filter_map(|turn| turn.thought.as_deref()).collect();
        let cot = (!thoughts.is_empty()).then(|| thoughts.join(SEPARATOR));
        let is_whole = cot.as_deref().is_none_or(|cot| are_steps_of_thoughts(cot, &thoughts, separator));
        let said = || turns.iter().filter(|turn| turn.role == "assistant");
        let texts = || said().filter_map(|turn| turn.text.as_ref()).filter(|text| !is_opening(text));
        let answer = texts().next_back().cloned();
        let (status, error) = match fault {
            Some((status, why)) => (status, format!("{place}: {why}")),
            None if cot.is_none() => ("no_thoughts", format!("{place} is a conversation without a thought")),
            None if is_whole => ("multi_turn", multi_turn(&turns, place)),
            None => {
                let why = "is a conversation with a thought that leaves a block of code or a formula open, which the next one closes";
                ("multi_turn", format!("{place} {why}"))
            }
        };
        let text = texts().find_map(|text| match text {
            Cow::Borrowed(text) => Some(*text),
            Cow::Owned(_) => None,
        });
        let (cot, status, error) = (cot.map(Cow::Owned), Some(status), Some(error));
        let response = Response { cot, answer, status, error, text, is_chain_changed: true, is_answer_changed: true };
        Row { exchange, response, turns: is_whole.then_some(turns) }
    }
}

/// Whether the steps of a chain are those of its thoughts. Steps that end at blank lines always are.
fn are_steps_of_thoughts(cot: &str, thoughts: &[&str], separator: Separator) -> bool {
    let of_thoughts = || thoughts.iter().flat_map(|thought| separator.steps(thought));
    separator == Separator::BlankLine
        || separator.steps(cot).into_iter().map(str::trim_end).eq(of_thoughts().map(str::trim_end))
}

fn multi_turn(turns: &[Turn], place: &str) -> String {
    let of = |role| turns.iter().filter(|turn| turn.role == role).count();
    let calls: usize = turns.iter().map(|turn| turn.calls.len()).sum();
    format!(
        "{place} is a conversation (turns of the user: {}, of the assistant: {}, calls of tools: {calls}, results: {}), \
         expected one exchange",
        of("user"),
        of("assistant"),
        of("tool"),
    )
}

/// Whether a thought is a whole generation, whose answer the text of its message lacks.
fn says_more(thought: &str, text: &str) -> bool {
    let rest = tags::begins_with_chain(thought).then(|| tags::response(thought)).flatten();
    rest.is_some_and(|rest| !text.contains(rest.trim()))
}

fn filled(text: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    text.filter(|text| !text.trim().is_empty())
}
