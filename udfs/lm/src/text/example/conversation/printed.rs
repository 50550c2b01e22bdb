//! What a template prints before a message, and of it.

use asap_kernels::tags;

use super::{Change, Form, MARK, Tried};
use crate::text::conversation::{Call, Turn};
use crate::text::example::opening;
use crate::text::prompt::chat_template::before_closed_thought;
use crate::text::prompt::opens_thought;

impl Form<'_> {
    /// What a message begins with, besides its thought: its text, or the name of a tool.
    pub(super) fn content(&self, place: usize) -> Option<&str> {
        let Turn { text, calls, .. } = &self.conversation.turns[place];
        let name = calls.first().and_then(|call| call.name.as_deref());
        text.as_deref().or(name).map(str::trim)
    }

    pub(super) fn thought(&self, place: usize) -> Option<&str> {
        let held = self.conversation.thoughts[place].as_ref().map(|thought| &*thought.text);
        held.filter(|text| !text.trim().is_empty())
    }

    /// The text before a message.
    pub(super) fn prompt(&self, place: usize) -> Tried<String> {
        let before = &self.messages[..place];
        let mut text = self.template.render_tooled(before, self.tools, true)?;
        // A tag that ends a message is not the template's.
        let last = self.conversation.turns[..place].last().and_then(|turn| turn.text.as_deref());
        let last = last.map(str::trim).filter(|last| !last.is_empty());
        let after = last.and_then(|last| Some(text.rfind(last)? + last.len())).unwrap_or(0);
        text.truncate(after + before_closed_thought(&text[after..]));
        Ok(text)
    }

    /// The messages up to this one, as a template prints them.
    fn finished(&self, place: usize, change: Change) -> Tried<String> {
        let last = match change {
            Change::None => self.messages[place].clone(),
            _ => self.message(place, change),
        };
        self.template.render_tooled(&[&self.messages[..place], &[last]].concat(), self.tools, false)
    }

    /// What a model should write after a prompt: as the template prints the message, if nothing is lost.
    pub(super) fn response(&self, place: usize, prompt: &str) -> Tried<String> {
        if let Some(response) = self.as_printed(place, prompt) {
            return Ok(response);
        }
        let thought = self.thought(place);
        if thought.is_none()
            && let Ok(printed) = self.finished(place, Change::Thinks)
            && let Some(response) = printed.strip_prefix(prompt).map(|response| response.replace(MARK, ""))
            && self.lost(place, &response).is_none()
        {
            return Ok(response);
        }
        let printed = self.finished(place, Change::Says)?;
        let Some((_, content)) = printed.rsplit_once(MARK) else {
            return Err(self.loses(place, self.lost(place, &printed).unwrap_or("the text")));
        };
        let response = match (thought, &self.thinks.around) {
            (None, _) if !opens_thought(prompt) => content.to_string(),
            (Some(thought), Some([before, after])) => [before, thought, after, content].concat(),
            (thought, _) => {
                let said = tags::continuation(thought.unwrap_or_default(), self.before_answer, content);
                [opening(prompt), &said].concat()
            }
        };
        match self.lost(place, &response) {
            Some(lost) => Err(self.loses(place, lost)),
            None => Ok(response),
        }
    }

    /// What the template prints of a message after the prompt before it, if nothing is lost. If it prints earlier messages
    /// otherwise, a response begins after the last generation prompt.
    pub(super) fn as_printed(&self, place: usize, prompt: &str) -> Option<String> {
        let printed = self.finished(place, Change::None).ok()?;
        let whole = |response: &str| self.lost(place, response).is_none().then(|| response.to_string());
        if let Some(response) = printed.strip_prefix(prompt) {
            return whole(response);
        }
        let before = self.template.render_tooled(&self.messages[..place], self.tools, false).ok()?;
        let begin = prompt.strip_prefix(before.as_str()).filter(|begin| !begin.is_empty())?;
        let content = printed.rfind(self.thought(place).map(str::trim).or_else(|| self.content(place))?)?;
        let own = printed[..content].rfind(begin)? + begin.len();
        whole(&printed[own..])
    }

    /// What a response lacks of a message.
    pub(super) fn lost(&self, place: usize, response: &str) -> Option<&'static str> {
        let Turn { text, calls, .. } = &self.conversation.turns[place];
        let after =
            |from: usize, text: &str| response[from..].find(text.trim()).map(|at| from + at + text.trim().len());
        let Some(thought) = after(0, self.thought(place).unwrap_or_default()) else { return Some("the thought") };
        let Some(said) = after(thought, text.as_deref().unwrap_or_default()) else { return Some("the text") };
        // Some templates print calls before the text.
        let (count, rest) = (|text: &str, held: &str| text.matches(held).count(), &response[thought..]);
        let is_printed = |call: &Call| {
            let Some(name) = call.name.as_deref().filter(|name| !name.is_empty()) else { return false };
            let same = calls.iter().filter(|call| call.name.as_deref() == Some(name)).count();
            let in_text = count(&response[thought..said], name).min(count(text.as_deref().unwrap_or_default(), name));
            count(rest, name) - in_text >= same && self.prints_arguments(rest, call)
        };
        (!calls.iter().all(is_printed)).then_some("the calls")
    }

    fn prints_arguments(&self, printed: &str, call: &Call) -> bool {
        let arguments = call.arguments.as_deref().unwrap_or_default();
        match self.object(arguments).map(|object| {
            object.try_iter().map(|mut keys| keys.all(|key| key.as_str().is_some_and(|key| printed.contains(key))))
        }) {
            Some(are_printed) => are_printed.unwrap_or(false),
            None => printed.contains(arguments.trim()) || printed.contains(&escaped(arguments)),
        }
    }
}

/// A text within a text in JSON.
pub(super) fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text.trim()).to_string();
    quoted[1..quoted.len() - 1].to_string()
}
