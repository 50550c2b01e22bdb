//! The messages of a form, as templates read them.

use asap_kernels::tags;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::{Change, Form, MARK, Place};
use crate::text::conversation::Call;

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
        let mut fields: Vec<(&str, Value)> = vec![("role", turn.role.into())];
        let content = match (text, change, thought) {
            (_, Change::Says, _) => Some([MARK, text.unwrap_or_default()].concat()),
            (_, _, Some(thought)) if self.thinks.place == Place::Content => {
                Some(tags::wrap(thought, text.unwrap_or_default()))
            }
            (None, ..) if self.has_none && turn.role == "assistant" => None,
            _ => Some(text.unwrap_or_default().to_string()),
        };
        fields.push(("content", content.map_or(().into(), |content| self.template.content(&content))));
        if let (Some(thought), Place::Field(field)) = (thought, self.thinks.place) {
            fields.push((field, thought.into()));
        }
        if !turn.calls.is_empty() {
            fields.push(("tool_calls", turn.calls.iter().map(|call| self.call(call)).collect()));
        }
        for (name, held) in [("tool_call_id", &turn.call_id), ("name", &turn.name)] {
            fields.extend(held.as_deref().map(|text| (name, text.into())));
        }
        fields.into_iter().collect()
    }

    fn call(&self, call: &Call) -> Value {
        let arguments = call.arguments.as_deref().unwrap_or_default();
        let arguments = self.object(arguments).unwrap_or_else(|| arguments.into());
        let function = [("name", call.name.as_deref().map_or(().into(), Value::from)), ("arguments", arguments)];
        let id = call.id.as_deref().map(|id| ("id", id.into()));
        let others = [("type", Value::from("function")), ("function", function.into_iter().collect())];
        id.into_iter().chain(others).collect()
    }
}
