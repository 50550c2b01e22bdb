//! A conversation with several exchanges or tools as a model reads it: its chat template prints marks once, and texts, thoughts
//! and arguments take the places of the marks.
//!
//! ```text
//!   turns ── messages with marks ── chat template ── fill ── the text, with the bytes of each step
//! ```
//!
//! Templates drop thoughts of earlier exchanges, and old ones drop calls. A dropped thought stands in think tags before the
//! content of its message, and dropped calls stand in tool call tags after it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use asap_kernels::steps::{separator, without_line_breaks};
use minijinja::Value;
use serde::de::IgnoredAny;

use super::prompt::PromptTemplate;
use super::prompt::chat_template::ChatTemplate;
use crate::{LmError, Result};

/// How marks end: a template that writes JSON escapes it.
const MARK_END: &str = "\"e";
const OPENING: &str = "<think>\n";
const CLOSING: &str = "\n</think>\n\n";

/// A turn of a conversation, without its thought.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Turn<'a> {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'a str,
    pub text: Option<Cow<'a, str>>,
    pub calls: Vec<Call<'a>>,
    /// Of a result: the call that it answers.
    pub call_id: Option<Cow<'a, str>>,
    /// Of a result: the tool.
    pub name: Option<Cow<'a, str>>,
    /// How many of the conversation's steps are those of its thought.
    pub steps: usize,
}

impl Turn<'_> {
    /// The message in OpenAI's form, as templates read it. A thought has the name of its field.
    pub(super) fn message(
        &self,
        content: Value,
        thought: Option<(&str, &str)>,
        arguments: impl Fn(usize, &Call) -> Value,
    ) -> Value {
        let mut fields = vec![("role", self.role.into()), ("content", content)];
        fields.extend(thought.map(|(field, text)| (field, text.into())));
        if !self.calls.is_empty() {
            let call = |(place, call): (usize, &Call)| -> Value {
                let name = call.name.as_deref().map_or(().into(), Value::from);
                let function = [("name", name), ("arguments", arguments(place, call))];
                let id = call.id.as_deref().map(|id| ("id", id.into()));
                let others = [("type", Value::from("function")), ("function", function.into_iter().collect())];
                id.into_iter().chain(others).collect()
            };
            fields.push(("tool_calls", self.calls.iter().enumerate().map(call).collect()));
        }
        for (name, held) in [("tool_call_id", &self.call_id), ("name", &self.name)] {
            fields.extend(held.as_deref().map(|text| (name, text.into())));
        }
        fields.into_iter().collect()
    }
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Call<'a> {
    pub id: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    /// JSON text, as it came.
    pub arguments: Option<Cow<'a, str>>,
}

/// What a model reads of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub text: String,
    /// The bytes of each step.
    pub steps: Vec<Range<usize>>,
    /// Where the last text of the assistant begins; the end if it says nothing.
    pub answer: usize,
}

/// How messages are written, because templates differ: the content of a message without a text, and whether arguments are text.
#[derive(Clone, Copy)]
struct Form {
    content: Content,
    has_text_arguments: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Empty,
    Null,
    /// A mark, so that what the template drops has a place.
    Marked,
}

/// The forms to try: the first in which nothing is lost counts.
fn forms() -> impl Iterator<Item = Form> {
    let contents = [Content::Empty, Content::Null, Content::Marked];
    [true, false]
        .into_iter()
        .flat_map(move |has_text_arguments| contents.map(|content| Form { content, has_text_arguments }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mark {
    Text(usize),
    Thought(usize),
    /// The turn, and its call.
    Arguments(usize, usize),
}

impl PromptTemplate {
    /// Renders a conversation whose thoughts have these steps, up to the end of its last turn.
    ///
    /// # Errors
    /// [`LmError::Prompt`] if the chat template fails, or loses a text or a thought; it names the template.
    pub(crate) fn render_conversation(&self, turns: &[Turn], steps: &[&str]) -> Result<Rendered> {
        let conversation = Conversation::new(turns, steps);
        let template = match self {
            Self::Plain(_) => return conversation.fill(&conversation.plain(), true, false).map_err(LmError::Prompt),
            Self::Chat(template) => template,
        };
        let mut refusal = None;
        for form in forms() {
            let rendered = template.render_tooled(&conversation.messages(form, template), &().into(), false);
            let fill = |text: String| conversation.fill(&text, form.has_text_arguments, template.drops_system());
            match rendered.and_then(fill) {
                Ok(rendered) => return Ok(rendered),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        let why = refusal.unwrap_or_default();
        Err(LmError::Prompt(format!("the chat template of {} {why}", template.name())))
    }
}

/// A mark in a text, and whether it is in JSON.
struct Place {
    bytes: Range<usize>,
    mark: Mark,
    is_escaped: bool,
}

struct Conversation<'c> {
    turns: &'c [Turn<'c>],
    /// The steps of each turn's thought.
    thoughts: Vec<&'c [&'c str]>,
    /// How marks begin, as no call does.
    prefix: String,
}

impl<'c> Conversation<'c> {
    fn new(turns: &'c [Turn<'c>], steps: &'c [&'c str]) -> Self {
        let mut rest = steps;
        let thoughts = turns.iter().map(|turn| rest.split_off(..turn.steps).unwrap_or_default()).collect();
        let calls = || turns.iter().flat_map(|turn| &turn.calls);
        let printed = || calls().flat_map(|call| [&call.id, &call.name, &call.arguments]).flatten();
        let mut prefix = "zq".to_string();
        while printed().any(|text| text.contains(&prefix)) {
            prefix.push('q');
        }
        Self { turns, thoughts, prefix }
    }

    fn mark(&self, mark: Mark) -> String {
        let (kind, turn, call) = match mark {
            Mark::Text(turn) => ('t', turn, 0),
            Mark::Thought(turn) => ('c', turn, 0),
            Mark::Arguments(turn, call) => ('a', turn, call),
        };
        format!("{}{kind}{turn}x{call}{MARK_END}", self.prefix)
    }

    /// The messages, with marks.
    fn messages(&self, form: Form, template: &ChatTemplate) -> Vec<Value> {
        let each = self.turns.iter().enumerate();
        each.map(|(number, turn)| {
            let content = match (&turn.text, form.content) {
                (Some(_), _) | (None, Content::Marked) => template.content(&self.mark(Mark::Text(number))),
                (None, Content::Null) if turn.role == "assistant" => ().into(),
                (None, _) => template.content(""),
            };
            let thought = (turn.steps > 0).then(|| self.mark(Mark::Thought(number)));
            let thought = thought.as_deref().map(|mark| ("reasoning_content", mark));
            turn.message(content, thought, |place, call| {
                let text = call.arguments.as_deref().unwrap_or("{}");
                let has_text = form.has_text_arguments && call.arguments.is_some();
                let object = if has_text { None } else { serde_json::from_str(text).ok() };
                object.unwrap_or_else(|| self.mark(Mark::Arguments(number, place)).into())
            })
        })
        .collect()
    }

    /// The turns of a model without a chat template, joined by blank lines.
    fn plain(&self) -> String {
        let turn = |(number, _): (usize, &Turn)| self.mark(Mark::Text(number));
        let each: Vec<String> = self.turns.iter().enumerate().map(turn).collect();
        each.join("\n\n")
    }

    /// The marks of a text, with their places.
    fn marks(&self, text: &str) -> Vec<Place> {
        let found = text.match_indices(&self.prefix).filter_map(|(start, _)| {
            let after = &text[start + self.prefix.len()..];
            let (name, _) = after.split_once(MARK_END)?;
            let (numbers, is_escaped) = match name.strip_suffix('\\') {
                Some(numbers) => (numbers, true),
                None => (name, false),
            };
            let (kind, numbers) = numbers.split_at_checked(1)?;
            let (turn, call) = numbers.split_once('x')?;
            let (turn, call): (usize, usize) = (turn.parse().ok()?, call.parse().ok()?);
            let mark = match kind {
                "t" => Mark::Text(turn),
                "c" if !is_escaped => Mark::Thought(turn),
                "a" => Mark::Arguments(turn, call),
                _ => return None,
            };
            let end = start + self.prefix.len() + name.len() + MARK_END.len();
            self.turns.get(turn).map(|_| Place { bytes: start..end, mark, is_escaped })
        });
        found.collect()
    }

    /// Puts texts, thoughts and arguments in the places of the marks. Fails with what the template loses.
    fn fill(
        &self,
        marked: &str,
        has_text_arguments: bool,
        drops_system: bool,
    ) -> std::result::Result<Rendered, String> {
        let marks = self.marks(marked);
        let held: HashSet<Mark> = marks.iter().map(|place| place.mark).collect();
        let has = |mark| held.contains(&mark);
        let lacks_calls = |number: usize| {
            let is_printed = |(place, call): (usize, &Call)| match &call.arguments {
                Some(_) if has_text_arguments => has(Mark::Arguments(number, place)),
                _ => call.name.as_ref().is_none_or(|name| marked.contains(&**name)),
            };
            !self.turns[number].calls.iter().enumerate().all(is_printed)
        };
        for (number, turn) in self.turns.iter().enumerate() {
            let lost = match has(Mark::Text(number)) {
                true => None,
                false if turn.text.is_some() && !(drops_system && turn.role == "system") => Some("the text"),
                false if turn.steps > 0 && !has(Mark::Thought(number)) => Some("the thought"),
                false if lacks_calls(number) => Some("the calls"),
                false => None,
            };
            if let Some(lost) = lost {
                return Err(format!("loses {lost} of turn {} ({})", number + 1, turn.role));
            }
        }
        let last = self.turns.iter().rposition(|turn| turn.role == "assistant" && turn.text.is_some());
        let mut filled = Rendered { text: String::with_capacity(marked.len()), steps: vec![], answer: 0 };
        let (mut from, mut thought_of) = (0, 0);
        for Place { bytes, mark, is_escaped } in marks {
            filled.text.push_str(&marked[from..bytes.start]);
            from = bytes.end;
            match mark {
                Mark::Thought(turn) => {
                    if turn < thought_of {
                        return Err(format!("prints turn {} after a later one", turn + 1));
                    }
                    thought_of = turn + 1;
                    filled.think(self.thoughts[turn]);
                }
                Mark::Text(turn) => {
                    let held = &self.turns[turn];
                    if held.steps > 0 && !has(Mark::Thought(turn)) && turn >= thought_of {
                        thought_of = turn + 1;
                        filled.text.push_str(OPENING);
                        filled.think(self.thoughts[turn]);
                        filled.text.push_str(CLOSING);
                    }
                    if last == Some(turn) {
                        filled.answer = filled.text.len();
                    }
                    filled.put(held.text.as_deref().unwrap_or_default(), is_escaped);
                    if lacks_calls(turn) {
                        held.calls.iter().for_each(|call| filled.call(call));
                    }
                }
                Mark::Arguments(turn, call) => {
                    let arguments = self.turns[turn].calls.get(call).and_then(|call| call.arguments.as_deref());
                    let arguments = arguments.unwrap_or_default();
                    let is_json = serde_json::from_str::<IgnoredAny>(arguments).is_ok();
                    // Of JSON in a text in JSON, only the inner one is written.
                    if is_json && is_escaped && filled.text.ends_with('"') && marked[from..].starts_with('"') {
                        filled.text.pop();
                        from += 1;
                    }
                    filled.put(arguments, is_escaped && !is_json);
                }
            }
        }
        filled.text.push_str(&marked[from..]);
        if last.is_none() {
            filled.answer = filled.text.len();
        }
        Ok(filled)
    }
}

impl Rendered {
    fn put(&mut self, text: &str, is_escaped: bool) {
        match is_escaped {
            true => {
                let quoted = serde_json::Value::from(text).to_string();
                self.text.push_str(&quoted[1..quoted.len() - 1]);
            }
            false => self.text.push_str(text),
        }
    }

    fn think(&mut self, steps: &[&str]) {
        for (place, step) in steps.iter().enumerate() {
            let next = steps.get(place + 1);
            let step = if next.is_some() { step } else { without_line_breaks(step) };
            self.steps.push(self.text.len()..self.text.len() + step.len());
            self.text.push_str(step);
            self.text.push_str(next.map_or("", |next| separator(step, next)));
        }
    }

    fn call(&mut self, call: &Call) {
        let name = serde_json::Value::from(call.name.as_deref().unwrap_or_default());
        let arguments = call.arguments.as_deref().unwrap_or("{}");
        self.text.push_str(&format!("\n<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::cases;

    /// A line of `tests/conversations.jsonl`: a chat template, and what it makes of [`turns`]. The texts are those of Jinja in
    /// Python, with what the template drops in tags.
    #[derive(serde::Deserialize)]
    struct Case {
        why: String,
        template: Option<String>,
        rendered: Option<String>,
        /// A text of the error.
        refused: Option<String>,
    }

    const ARGUMENTS: &str = r#"{"a": 8, "b": 5.0}"#;
    const STEPS: [&str; 5] = ["A sum.", "The tool adds.", "So 13.", "13 and 2.", "So 15."];

    fn turns() -> Vec<Turn<'static>> {
        let said = |role, text: &'static str, steps| Turn { role, text: Some(text.into()), steps, ..Turn::default() };
        let [id, name] = ["c1", "add"].map(|text| Some(Cow::Borrowed(text)));
        let call = Call { id: id.clone(), name: name.clone(), arguments: Some(ARGUMENTS.into()) };
        vec![
            said("system", "Be brief.", 0),
            said("user", "8 + 5?", 0),
            Turn { role: "assistant", calls: vec![call], steps: 2, ..Turn::default() },
            Turn { call_id: id, name, ..said("tool", "\"13\"\n", 0) },
            said("assistant", "It is 13.", 1),
            said("user", "And 2?", 0),
            said("assistant", "15", 2),
        ]
    }

    fn prompt(template: Option<&str>) -> PromptTemplate {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({ "chat_template": template, "bos_token": "<s>", "eos_token": "</s>" });
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        PromptTemplate::load(folder.path(), None).unwrap()
    }

    #[test]
    fn templates_print_conversations_as_jinja_does_and_lose_no_thought() {
        for Case { why, template, rendered, refused } in cases("conversations.jsonl") {
            let prompt = prompt(template.as_deref());
            match (prompt.render_conversation(&turns(), &STEPS), rendered, refused) {
                (Ok(found), Some(rendered), None) => {
                    assert_eq!(found.text, rendered, "{why}");
                    let steps: Vec<&str> = found.steps.iter().map(|own| &found.text[own.clone()]).collect();
                    assert_eq!(steps, STEPS, "{why}");
                    assert!(found.text[found.answer..].starts_with("15"), "{why}");
                }
                (Err(error), None, Some(refused)) => {
                    let error = error.to_string();
                    assert!(error.starts_with("the chat template of /") && error.contains(&refused), "{why}: {error}");
                }
                (found, ..) => panic!("{why}: {found:?}"),
            }
        }
    }

    #[test]
    fn texts_stay_as_they_are_whatever_they_contain() {
        let template =
            "{% for message in messages %}[{{ message.content | trim }}]{{ message.tool_calls }}{% endfor %}";
        let mut turns = turns();
        let nasty = "zqt0x0\"e {{ x }} </think> zqq\n";
        turns[1].text = Some(nasty.into());
        turns[2].calls[0].arguments = Some("zqc1x0\"e, no JSON".into());
        let found = prompt(Some(template)).render_conversation(&turns, &STEPS).unwrap();
        assert!(found.text.contains(&format!("[{nasty}]")), "{}", found.text);
        let kept = [&STEPS[..2], &STEPS[4..]].concat();
        for (place, steps) in [(2, 2), (4, 0), (6, 1)] {
            turns[place].steps = steps;
        }
        let fewer = prompt(Some(template)).render_conversation(&turns, &kept).unwrap();
        let without = found.text.replace("<think>\nSo 13.\n</think>\n\n", "").replace("13 and 2.\n\n", "");
        assert_eq!(fewer.text, without);
    }
}
