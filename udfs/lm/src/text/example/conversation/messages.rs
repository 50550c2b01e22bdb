//! The messages of a form, as templates read them.

use asap_kernels::tags;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::{Change, Form, MARK, Place};

impl Form<'_> {
    /// Adds the messages as they are, once for all prompts.
    pub(super) fn with_messages(mut self) -> Self {
        self.messages = (0..self.conversation.turns.len()).map(|place| self.message(place, Change::None)).collect();
        self
    }

    /// Arguments as an object, unless the form has texts.
    pub(super) fn object(&self, arguments: &str) -> Option<Value> {
        if self.has_text_arguments {
            return None;
        }
        match arguments.trim() {
            "" => Some(Value::from_iter::<[(&str, Value); 0]>([])),
            text => serde_json::from_str(text).ok().filter(|value: &Value| value.kind() == ValueKind::Map),
        }
    }

    /// A message in OpenAI's form.
    pub(super) fn message(&self, place: usize, change: Change) -> Value {
        let turn = &self.conversation.turns[place];
        let thought = match change {
            Change::None => self.thought(place),
            Change::Thinks => Some(MARK),
            Change::Says => None,
        };
        let text = turn.text.as_deref();
        let content = match (text, change, thought) {
            (_, Change::Says, _) => Some([MARK, text.unwrap_or_default()].concat()),
            (_, _, Some(thought)) if self.thinks.place == Place::Content => {
                Some(tags::wrap(thought, text.unwrap_or_default()))
            }
            (None, ..) if self.has_none && turn.role == "assistant" => None,
            _ => Some(text.unwrap_or_default().to_string()),
        };
        let content = content.map_or(().into(), |content| self.template.content(&content));
        let thought = match self.thinks.place {
            Place::Field(field) => thought.map(|thought| (field, thought)),
            Place::Content | Place::Nowhere => None,
        };
        turn.message(content, thought, |_, call| {
            let arguments = call.arguments.as_deref().unwrap_or_default();
            self.object(arguments).unwrap_or_else(|| arguments.into())
        })
    }
}
