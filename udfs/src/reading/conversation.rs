//! One exchange of user and assistant in a conversation, or all of its turns, or why it cannot be read.

use std::borrow::Cow;

use asap_kernels::steps::{SEPARATOR, Separator};
use asap_kernels::{rendered, tags};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::calls::{Call, Outcome, Tools};
use super::response::{Response, Said, is_opening};
use super::turns::Turns;
use super::{Exchange, Part, Row, texts};
use crate::messages::forms::{self, ARGUMENTS, CHANNEL, Holds, IDS, NAMES, OUTCOMES, Place, RECIPIENT};
use crate::messages::{self, Speaker, TURN_CHAINS};

/// A column of conversations.
pub(super) enum Conversation {
    /// Messages in lists.
    Messages(Box<Messages>),
    /// Texts, rendered by a chat template or the user's turn alone.
    Texts(StringViewArray),
}

pub(super) struct Messages {
    speakers: ListArray,
    texts: ListArray,
    /// Of each field that may hold a chain.
    chains: Vec<ListArray>,
    /// The types of items, in the Responses API of OpenAI, with their summaries.
    kinds: Option<ListArray>,
    summaries: Option<ListArray>,
    /// Calls of tools and results, in JSON.
    tools: Vec<ListArray>,
    /// Fields of messages that are themselves a call or a result, by their names.
    fields: Vec<(&'static str, ListArray)>,
    /// What a message holds that is not read.
    unread: Vec<ListArray>,
    nulls: Option<NullBuffer>,
}

/// A message.
#[derive(Default, Clone)]
struct Message<'a> {
    speaker: Option<&'a str>,
    text: Option<&'a str>,
    chain: Option<&'a str>,
    kind: Option<&'a str>,
    /// Calls of tools and results, in JSON.
    tools: Vec<&'a str>,
    other: Option<&'a str>,
    /// The column, row and place from which the message is read.
    held: Option<(&'a Messages, usize, usize)>,
}

impl Conversation {
    pub(super) fn new(column: &ArrayRef) -> Result<Self> {
        if column.data_type().is_string() || column.data_type().is_null() || is_dictionary(column) {
            return Ok(Self::Texts(texts(column)?));
        }
        let column = &messages::conversations(column)?;
        let turns = messages::turns(column)?;
        let turns = turns.as_struct();
        let [speakers, said] = [0, 1].map(|place| turns.column(place).as_list::<i32>().clone());
        let field = |name: &str| messages::texts_of_field(column, name);
        let chains = TURN_CHAINS.iter().filter_map(|name| field(name).transpose()).collect::<Result<_>>()?;
        // A message has an id of its own, which is not that of a call.
        let names = [&IDS[..IDS.len() - 1], NAMES, ARGUMENTS, OUTCOMES, CHANNEL, RECIPIENT].concat();
        let mut fields = Vec::new();
        for name in names.into_iter().filter(|name| *name != "content") {
            fields.extend(messages::field_as_text(column, name)?.map(|list| (name, list)));
        }
        let messages::Others { tools, unread } = messages::Others::of(column)?;
        Ok(Self::Messages(Box::new(Messages {
            speakers,
            texts: said,
            chains,
            kinds: field("type")?,
            summaries: field("summary")?,
            tools,
            fields,
            unread,
            nulls: turns.nulls().cloned(),
        })))
    }

    fn messages(&self, row: usize) -> Vec<Message<'_>> {
        match self {
            Self::Texts(texts) if texts.is_null(row) => vec![],
            Self::Texts(texts) => {
                let text = texts.value(row);
                let turn = |(speaker, text)| Message { speaker, text: Some(text), ..Message::default() };
                match rendered::turns(text) {
                    Some(turns) => turns.into_iter().map(turn).collect(),
                    None => vec![turn((Some("user"), text))],
                }
            }
            Self::Messages(held) => held.messages(row),
        }
    }
}

fn is_dictionary(column: &ArrayRef) -> bool {
    matches!(column.data_type(), DataType::Dictionary(..))
}

impl Messages {
    fn messages(&self, row: usize) -> Vec<Message<'_>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return vec![];
        }
        let count = self.speakers.value_length(row).min(self.texts.value_length(row)) as usize;
        (0..count).map(|place| self.message(row, place)).collect()
    }

    fn message(&self, row: usize, place: usize) -> Message<'_> {
        let kind = self.kinds.as_ref().and_then(|kinds| item(kinds, row, place));
        let is_thought = kind.is_some_and(|kind| forms::holds(Place::Item, kind) == Some(Holds::Thought));
        let chain = self.chains.iter().filter_map(|list| item(list, row, place)).find(|chain| !chain.trim().is_empty());
        Message {
            speaker: item(&self.speakers, row, place).filter(|speaker| !speaker.trim().is_empty()),
            text: item(&self.texts, row, place),
            chain: chain.or_else(|| item(self.summaries.as_ref().filter(|_| is_thought)?, row, place)),
            kind,
            tools: self.tools.iter().filter_map(|list| item(list, row, place)).collect(),
            other: self.unread.iter().find_map(|list| item(list, row, place)),
            held: Some((self, row, place)),
        }
    }
}

fn item(list: &ListArray, row: usize, place: usize) -> Option<&str> {
    let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
    let (values, at) = (list.values().as_string_view_opt()?, from + place);
    (list.is_valid(row) && at < to && values.is_valid(at)).then(|| values.value(at))
}

impl<'a> Message<'a> {
    fn is_user(&self) -> bool {
        self.speaker.map(Speaker::of) == Some(Speaker::User)
    }

    /// The first field with one of these names that is filled.
    fn field(&self, names: &[&str]) -> Option<&'a str> {
        let (held, row, place) = self.held?;
        let field = |name: &&str| held.fields.iter().find(|(known, _)| known == name);
        let mut found = names.iter().filter_map(field).filter_map(|(_, list)| item(list, row, place));
        found.find(|text| !text.trim().is_empty())
    }

    /// Who says the message, and what it is, unless one side says it.
    fn said_as(&self) -> (Option<Speaker>, Option<Holds>) {
        let speaker = self.speaker.map(Speaker::of);
        let item = || self.kind.and_then(|kind| forms::holds(Place::Item, kind));
        let holds = match speaker {
            None => item(),
            Some(Speaker::Other) => forms::holds(Place::Role, self.speaker.unwrap_or_default()),
            Some(Speaker::Assistant) => item().or_else(|| self.in_channel()),
            Some(Speaker::User | Speaker::System) => None,
        };
        (speaker, holds)
    }

    /// What a message of Harmony is.
    fn in_channel(&self) -> Option<Holds> {
        let channel = self.field(CHANNEL)?;
        // Harmony's own tools are called in the channel of thoughts.
        let is_call = self.field(RECIPIENT).is_some_and(|to| to != "all");
        if is_call { Some(Holds::Call) } else { forms::holds(Place::Channel, channel) }
    }

    /// The thought of a message that is a call, and its text.
    fn thought_before(&self) -> (Option<Cow<'a, str>>, Option<&'a str>) {
        let may_be_tagged = |text: &&str| self.chain.is_none() && tags::begins_with_chain(text);
        let tagged = self.text.filter(may_be_tagged).and_then(tags::parts);
        match tagged.map(|parts| (parts.chain, parts.answer)) {
            Some((chain, Cow::Borrowed(text))) => (Some(chain), Some(text)),
            _ => (self.chain.map(Cow::Borrowed), self.text),
        }
    }

    /// The calls of a message that is one, with this text.
    fn calls(&self, text: Option<&'a str>) -> Vec<Call<'a>> {
        let of_harmony = self.field(RECIPIENT).map(bare_name);
        let [id, name] =
            [self.field(IDS), of_harmony.or_else(|| self.field(NAMES))].map(|held| held.map(Cow::Borrowed));
        match text.filter(|text| !text.trim().is_empty()) {
            Some(text) if name.is_none() => Tools::of(&[text]).calls,
            text => {
                let arguments = self.field(ARGUMENTS).or(text).map(Cow::Borrowed);
                let is_call = id.is_some() || name.is_some() || arguments.is_some();
                is_call.then_some(Call { id, name, arguments }).into_iter().collect()
            }
        }
    }

    /// The result of a message that is one.
    fn outcome(&self) -> Outcome<'a> {
        let text = self.text.filter(|text| !text.trim().is_empty()).or_else(|| self.field(OUTCOMES));
        let [call_id, name] = [self.field(IDS), self.field(NAMES).map(bare_name)].map(|held| held.map(Cow::Borrowed));
        Outcome { call_id, name, text: text.map(Cow::Borrowed) }
    }
}

/// The name of a tool, of which Harmony writes the namespace too.
fn bare_name(name: &str) -> &str {
    name.strip_prefix("functions.").unwrap_or(name)
}

/// The messages of a row, by their speakers.
#[derive(Default)]
struct Read<'a> {
    messages: Vec<Message<'a>>,
    name: &'a str,
    users: Vec<Option<&'a str>>,
    assistants: Vec<Said<'a>>,
    systems: Vec<&'a str>,
    /// Whether a message calls a tool, or holds a result.
    has_tools: bool,
    /// Why the row is not one exchange, although it may be several.
    begins_late: Option<String>,
    /// Why the row is not read.
    other: Option<String>,
}

impl<'a> Read<'a> {
    fn new(messages: Vec<Message<'a>>, name: &'a str) -> Self {
        let mut read = Self { name, ..Self::default() };
        // A thought that is an item of its own belongs to the next message.
        let mut thoughts: Vec<&str> = vec![];
        for message in &messages {
            if let Some(other) = message.other {
                read.is_other(format!("a message of column {name} has {other}"));
            }
            read.has_tools |= !message.tools.is_empty();
            let is_blank = [message.text, message.chain].into_iter().flatten().all(|text| text.trim().is_empty());
            match message.said_as() {
                (_, Some(Holds::Thought)) => thoughts.extend(message.chain.or(message.text).map(tags::bare_chain)),
                (_, Some(Holds::Call | Holds::Outcome)) => read.has_tools = true,
                (None, None) if message.kind.is_some_and(|kind| kind != "message") => {
                    let kind = message.kind.unwrap_or_default();
                    read.is_other(format!("column {name} has an item of the type {kind}"));
                }
                (None, None) if is_blank => {}
                (None, None) => read.is_other(format!("column {name} has a text without a speaker")),
                (Some(Speaker::User), None) => read.users.push(message.text),
                (Some(Speaker::System), None) => {
                    read.systems.extend(message.text.filter(|text| !text.trim().is_empty()));
                }
                (Some(Speaker::Assistant), None) => {
                    if read.users.is_empty() && read.assistants.is_empty() && messages.iter().any(Message::is_user) {
                        read.begins_late = Some(format!("column {name} begins with a turn of the assistant"));
                    }
                    thoughts.extend(message.chain);
                    let chain = match thoughts.as_slice() {
                        [] => None,
                        [one] => Some(Cow::Borrowed(*one)),
                        several => Some(Cow::Owned(several.join(SEPARATOR))),
                    };
                    thoughts.clear();
                    read.assistants.push(Said { text: message.text, chain });
                }
                (Some(Speaker::Other), None) => {
                    let speaker = message.speaker.unwrap_or_default();
                    read.is_other(format!("column {name} has a turn of the role {speaker}"));
                }
            }
        }
        if !thoughts.is_empty() {
            read.assistants.push(Said { text: None, chain: Some(Cow::Owned(thoughts.join(SEPARATOR))) });
        }
        read.messages = messages;
        read
    }

    fn is_other(&mut self, why: String) {
        self.other.get_or_insert(why);
    }

    /// Adds the turns of all messages.
    fn add_turns(&self, turns: &mut Turns<'a>) {
        for message in &self.messages {
            let said = message.said_as();
            let text = message.text.filter(|text| !text.trim().is_empty());
            let Tools { mut calls, outcomes } = Tools::of(&message.tools);
            let has_outcomes = !outcomes.is_empty();
            let has_words = text.is_some() || message.chain.is_some();
            match said {
                (_, Some(Holds::Thought)) => {
                    let thought = message.chain.or(text).map(tags::bare_chain);
                    turns.thinks(thought.map(Cow::Borrowed));
                }
                (_, Some(Holds::Call)) => {
                    let (thought, text) = message.thought_before();
                    turns.thinks(thought);
                    turns.calls(message.calls(text));
                }
                // Blocks of results may be a message of either side.
                (Some(Speaker::Assistant), None) if !has_outcomes || has_words || !calls.is_empty() => {
                    let chain = message.chain.map(Cow::Borrowed);
                    turns.answers(Said { text, chain }, std::mem::take(&mut calls));
                }
                _ => {}
            }
            turns.calls(calls);
            outcomes.into_iter().for_each(|outcome| turns.returns(outcome));
            match said {
                (Some(Speaker::System), None) if text.is_some() => turns.says("system", text),
                (Some(Speaker::User), None) if has_words || !has_outcomes => turns.says("user", message.text),
                (_, Some(Holds::Outcome)) if text.is_some() || !has_outcomes => turns.returns(message.outcome()),
                _ => {}
            }
        }
    }

    /// Why there is more than one exchange, if there is.
    fn surplus(&mut self, part: Part) -> Option<String> {
        let (users, assistants, name) = (self.users.len(), self.assistants.len(), self.name);
        if let Some(why) = self.other.take() {
            return Some(why + ", which asap does not read");
        }
        let of_tools = || self.has_tools.then(|| format!("column {name} has calls or results of tools"));
        if let Some(why) = self.begins_late.take().or_else(of_tools) {
            return Some(why + ": asap reads one turn of the user and one of the assistant");
        }
        match part {
            Part::Exchange if users > 1 || assistants > 1 => Some(format!(
                "{users} turns of the user and {assistants} of the assistant in column {name}, expected one of each"
            )),
            Part::Question { .. } if users > 1 => {
                Some(format!("{users} turns of the user in column {name}, expected one"))
            }
            Part::Question { may_have_answer: false } if self.assistants.iter().any(is_said) => Some(format!(
                "column {name}, which has the question, has a turn of the assistant, and the response is in another column"
            )),
            Part::Response if assistants > 1 => {
                Some(format!("{assistants} turns of the assistant in column {name}, expected one"))
            }
            Part::Response if self.users.iter().flatten().any(|text| !text.trim().is_empty()) => {
                Some(format!("column {name}, which has the response, has a turn of the user"))
            }
            _ => None,
        }
    }

    fn has(&self, part: Part) -> bool {
        let [asks, answers] = [!self.users.is_empty(), !self.assistants.is_empty()];
        match part {
            Part::Exchange | Part::Both { .. } => asks && answers,
            Part::Question { .. } => asks,
            Part::Response => answers,
        }
    }

    /// The system prompt, and the question.
    fn asked(&self) -> [Option<Cow<'a, str>>; 2] {
        let system = match self.systems.as_slice() {
            [] => None,
            [one] => Some(Cow::Borrowed(*one)),
            several => Some(Cow::Owned(several.join(SEPARATOR))),
        };
        [system, self.users.first().copied().flatten().map(Cow::Borrowed)]
    }
}

/// Reads the messages of a row. Of several conversations, asap reads the first that has what is asked of it.
fn choose<'a>(conversations: &'a [Conversation], names: &'a [String], part: Part, row: usize) -> Read<'a> {
    let each = || conversations.iter().zip(names).map(|(held, name)| Read::new(held.messages(row), name));
    let is_any = |read: &Read| !read.users.is_empty() || !read.assistants.is_empty();
    let found = each().find(|read| read.has(part)).or_else(|| each().find(is_any)).or_else(|| each().next());
    found.unwrap_or_default()
}

/// Reads a row: one exchange or a part of it, or a conversation.
pub(super) fn read<'a>(
    conversations: &'a [Conversation],
    names: &'a [String],
    part: Part,
    row: usize,
    separator: Separator,
) -> Row<'a> {
    let (mut asked, mut said) = match part {
        Part::Both { questions } => {
            let ((asked, said), (asked_names, said_names)) =
                (conversations.split_at(questions), names.split_at(questions));
            let asked = choose(asked, asked_names, Part::Question { may_have_answer: false }, row);
            (asked, Some(choose(said, said_names, Part::Response, row)))
        }
        part => (choose(conversations, names, part, row), None),
    };
    let [system, question] = asked.asked();
    let mut exchange = Exchange { question, system, multi_turn: None };
    let reads = || [Some(&asked), said.as_ref()].into_iter().flatten();
    if let Part::Exchange | Part::Both { .. } = part
        && are_conversation(reads)
    {
        let is_marked = |said: &Said| {
            let chain = said.chain.as_ref().is_some_and(|chain| !chain.trim().is_empty());
            chain || said.text.is_some_and(tags::begins_with_chain)
        };
        let mut turns = Turns::new(reads().flat_map(|read| &read.assistants).any(is_marked));
        reads().for_each(|read| read.add_turns(&mut turns));
        // A message of the user may hold nothing but results.
        let asks = reads().flat_map(|read| &read.users).copied().flatten().find(|text| !text.trim().is_empty());
        exchange.question = asks.map(Cow::Borrowed);
        return turns.finish(exchange, &format!("column {}", asked.name), separator);
    }
    exchange.multi_turn = match &mut said {
        Some(said) => asked.surplus(Part::Question { may_have_answer: false }).or_else(|| said.surplus(Part::Response)),
        None => asked.surplus(part),
    };
    let response = match part {
        Part::Question { .. } => Response::default(),
        _ => {
            let mut read = said.unwrap_or(asked);
            let nothing = Said { text: None, chain: None };
            let said = if read.assistants.is_empty() { nothing } else { read.assistants.swap_remove(0) };
            // Only a reject writes the name.
            Response::of_message(said, format_args!("the assistant's turn in column {}", read.name))
        }
    };
    Row { exchange, response, turns: None }
}

/// Whether the messages of a row are read as a conversation: with tools, or with more than one turn of the user or of the
/// assistant that says or thinks something.
fn are_conversation<'r, 'a: 'r, R: Iterator<Item = &'r Read<'a>>>(reads: impl Fn() -> R) -> bool {
    let users = || reads().flat_map(|read| &read.users);
    let assistants = || reads().flat_map(|read| &read.assistants);
    // Most rows have one message of each, which needs no look at its text.
    let asks = || users().nth(1).is_some() && users().flatten().filter(|text| !text.trim().is_empty()).nth(1).is_some();
    let answers = || assistants().nth(1).is_some() && assistants().filter(|said| is_said(said)).nth(1).is_some();
    reads().all(|read| read.other.is_none()) && (reads().any(|read| read.has_tools) || asks() || answers())
}

/// Whether the assistant says or thinks something.
fn is_said(said: &Said) -> bool {
    said.chain.as_ref().is_some_and(|chain| !chain.trim().is_empty()) || said.text.is_some_and(|text| !is_opening(text))
}
