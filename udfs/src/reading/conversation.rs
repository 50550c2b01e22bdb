//! One exchange of user and assistant in a conversation, or why it is more.

use std::borrow::Cow;

use asap_kernels::steps::SEPARATOR;
use asap_kernels::{rendered, tags};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::response::Said;
use super::{Part, texts};
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
    /// What a message calls, or holds that is not read, by its message.
    others: Vec<ListArray>,
    nulls: Option<NullBuffer>,
}

#[derive(Default)]
pub(super) struct Exchange<'a> {
    pub question: Option<Cow<'a, str>>,
    pub system: Option<Cow<'a, str>>,
    pub multi_turn: Option<String>,
}

/// A message.
#[derive(Default, Clone)]
struct Message<'a> {
    speaker: Option<&'a str>,
    text: Option<&'a str>,
    chain: Option<&'a str>,
    kind: Option<&'a str>,
    other: Option<&'a str>,
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
        Ok(Self::Messages(Box::new(Messages {
            speakers,
            texts: said,
            chains,
            kinds: field("type")?,
            summaries: field("summary")?,
            others: messages::others(column)?,
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
        let is_thought = kind == Some("reasoning");
        let chain = self.chains.iter().filter_map(|list| item(list, row, place)).find(|chain| !chain.trim().is_empty());
        Message {
            speaker: item(&self.speakers, row, place).filter(|speaker| !speaker.trim().is_empty()),
            text: item(&self.texts, row, place),
            chain: chain.or_else(|| item(self.summaries.as_ref().filter(|_| is_thought)?, row, place)),
            kind,
            other: self.others.iter().find_map(|list| item(list, row, place)),
        }
    }
}

fn item(list: &ListArray, row: usize, place: usize) -> Option<&str> {
    let (from, to) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
    let (values, at) = (list.values().as_string_view_opt()?, from + place);
    (list.is_valid(row) && at < to && values.is_valid(at)).then(|| values.value(at))
}

/// The messages of a row, by their speakers.
#[derive(Default)]
struct Read<'a> {
    users: Vec<Option<&'a str>>,
    assistants: Vec<Said<'a>>,
    systems: Vec<&'a str>,
    /// Why the row is not one exchange.
    other: Option<String>,
}

impl<'a> Read<'a> {
    fn new(messages: &[Message<'a>], name: &str) -> Self {
        let mut read = Self::default();
        // A thought that is an item of its own belongs to the next message.
        let mut thoughts: Vec<&str> = vec![];
        for message in messages {
            if let Some(other) = message.other {
                read.is_other(format!("a message of column {name} has {other}"));
            }
            let is_blank = [message.text, message.chain].into_iter().flatten().all(|text| text.trim().is_empty());
            match (message.speaker.map(Speaker::of), message.kind) {
                (None | Some(Speaker::Assistant), Some("reasoning")) => {
                    thoughts.extend(message.chain.or(message.text).map(tags::bare_chain));
                }
                (None, Some(kind)) if kind != "message" => {
                    read.is_other(format!("column {name} has an item of the type {kind}"));
                }
                (None, _) if is_blank => {}
                (None, _) => read.is_other(format!("column {name} has a text without a speaker")),
                (Some(Speaker::User), _) => read.users.push(message.text),
                (Some(Speaker::System), _) => read.systems.extend(message.text.filter(|text| !text.trim().is_empty())),
                (Some(Speaker::Assistant), _) => {
                    if read.users.is_empty() && read.assistants.is_empty() && messages.iter().any(Message::is_user) {
                        read.is_other(format!("column {name} begins with a turn of the assistant"));
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
                (Some(Speaker::Other), _) => {
                    let speaker = message.speaker.unwrap_or_default();
                    read.is_other(format!("column {name} has a turn of the role {speaker}"));
                }
            }
        }
        if !thoughts.is_empty() {
            read.assistants.push(Said { text: None, chain: Some(Cow::Owned(thoughts.join(SEPARATOR))) });
        }
        read
    }

    fn is_other(&mut self, why: String) {
        self.other.get_or_insert(why + ": asap reads one turn of the user and one of the assistant");
    }
}

impl Message<'_> {
    fn is_user(&self) -> bool {
        self.speaker.map(Speaker::of) == Some(Speaker::User)
    }
}

/// Reads a row: its exchange, and what the assistant said, with the name of its column. Of several conversations, asap reads the
/// first that has what is asked of it.
pub(super) fn read<'a, 'n>(
    conversations: &'a [Conversation],
    names: &'n [String],
    part: Part,
    row: usize,
) -> (Exchange<'a>, Option<Said<'a>>, &'n str) {
    let each = || conversations.iter().zip(names).map(|(held, name)| (Read::new(&held.messages(row), name), name));
    let fits = |(read, _): &(Read, &String)| match part {
        Part::Exchange => !read.users.is_empty() && !read.assistants.is_empty(),
        Part::Question { .. } => !read.users.is_empty(),
        Part::Response => !read.assistants.is_empty(),
    };
    let is_any = |(read, _): &(Read, &String)| !read.users.is_empty() || !read.assistants.is_empty();
    let found = each().find(fits).or_else(|| each().find(is_any)).or_else(|| each().next());
    let Some((mut read, name)) = found else { return (Exchange::default(), None, "") };
    let multi_turn = read.other.take().or_else(|| read.surplus(part, name));
    let system = match read.systems.as_slice() {
        [] => None,
        [one] => Some(Cow::Borrowed(*one)),
        several => Some(Cow::Owned(several.join(SEPARATOR))),
    };
    let question = read.users.first().copied().flatten().map(Cow::Borrowed);
    let said = match part {
        Part::Question { .. } => None,
        Part::Exchange | Part::Response => Some(if read.assistants.is_empty() {
            Said { text: None, chain: None }
        } else {
            read.assistants.swap_remove(0)
        }),
    };
    (Exchange { question, system, multi_turn }, said, name)
}

impl Read<'_> {
    /// Why there is more than one exchange, if there is.
    fn surplus(&self, part: Part, name: &str) -> Option<String> {
        let (users, assistants) = (self.users.len(), self.assistants.len());
        let is_said = |said: &Said| said.chain.is_some() || said.text.is_some_and(|text| !is_opening(text));
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
}

/// Whether a text is only what a generation prompt leaves open: an opening tag, or nothing.
fn is_opening(text: &str) -> bool {
    text.trim().is_empty() || (tags::begins_with_chain(text) && tags::bare_chain(text).trim().is_empty())
}
