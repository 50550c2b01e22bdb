//! Conversations with several exchanges or tools as training examples.
//!
//! ```text
//!   each message of the assistant ── the prompt before it, and what follows this prompt: its response
//!   an example                    ── the prompt and the response of its last message; the messages before it are learned
//!                                    too, as long as their prompts and responses are in this text as they are
//! ```
//!
//! A template that keeps thoughts gives one example, and one that drops the thoughts of earlier exchanges an example for each
//! exchange. A response whose first token would join the end of its prompt has an example of its own. So a model learns each
//! response after exactly what it is given before it writes this response.

mod messages;
mod tools;

use std::borrow::Cow;
use std::ops::Range;

use asap_kernels::tags;
use minijinja::Value;

use super::{Encoded, Example, ExampleTemplate, Long, SAID, THOUGHT, opening, tokens_of};
use crate::text::conversation::{Call, Turn};
use crate::text::prompt::chat_template::{ChatTemplate, before_closed_thought};
use crate::text::prompt::{PromptTemplate, opens_thought};
use crate::{LmError, Result, Tokenizer};

type Tried<T> = std::result::Result<T, String>;

/// A conversation to learn.
#[derive(Debug, Clone, Default)]
pub struct Conversation<'a> {
    pub turns: Vec<Turn<'a>>,
    /// The thought of each turn.
    pub thoughts: Vec<Option<Thought<'a>>>,
    /// The schemas of its tools: a list in JSON.
    pub tools: Option<&'a str>,
}

/// What an assistant thinks before a text or a call.
#[derive(Debug, Clone)]
pub struct Thought<'a> {
    pub text: Cow<'a, str>,
    /// The bytes of `text` that each step spans, and whether the step is learned. None: the whole thought is learned.
    pub steps: Option<Vec<(Range<usize>, bool)>>,
}

/// How a chat template reads thoughts.
#[derive(Debug, Default)]
pub(super) struct Thinks {
    place: Place,
    /// What a response has before a thought, and between the thought and the content. None if this is not known.
    around: Option<[String; 2]>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    Field(&'static str),
    /// In tags before the text: the template has no field, and prints contents as they are.
    Content,
    /// The template prints no thought.
    #[default]
    Nowhere,
}

/// A text, and what is learned of it.
struct Draft {
    text: String,
    /// The responses, each with its turn, in order.
    responses: Vec<(Range<usize>, usize)>,
}

/// A conversation in a form that a template may accept.
struct Form<'f> {
    template: &'f ChatTemplate,
    conversation: &'f Conversation<'f>,
    thinks: &'f Thinks,
    before_answer: &'f str,
    tools: &'f Value,
    /// Whether arguments are passed as JSON text. Templates of vLLM and transformers get objects.
    has_text_arguments: bool,
    /// Whether a message without a text has the content none instead of an empty text.
    has_none: bool,
    /// The messages as they are.
    messages: Vec<Value>,
}

/// A change of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    /// A mark is its thought.
    Thinks,
    /// A mark begins its content, and it has no thought.
    Says,
}

const LOSES: &str = "loses";
/// A mark as no text has it.
const MARK: &str = "zq-asap-mark";

impl Thinks {
    /// Finds out how a chat template reads thoughts, by a message of the assistant with a text, and by one that also calls a tool:
    /// some templates print only thoughts before calls.
    pub(super) fn of(prompt: &PromptTemplate, before_answer: &str) -> Self {
        let PromptTemplate::Chat(template) = prompt else { return Self::default() };
        let call = Call { id: Some("functions.f:0".into()), name: Some("f".into()), arguments: Some("{}".into()) };
        let turn = |role, text: &'static str| Turn { role, text: Some(text.into()), ..Turn::default() };
        let tries = ["reasoning_content", "thinking"].map(Place::Field);
        let tries = [vec![], vec![call]].into_iter().flat_map(|calls| tries.map(|place| (calls.clone(), place)));
        for (calls, place) in tries.chain([(vec![], Place::Content)]) {
            let said = Turn { calls, ..turn("assistant", SAID) };
            let thought = Thought { text: THOUGHT.into(), steps: None };
            let conversation =
                Conversation { turns: vec![turn("user", "?"), said], thoughts: vec![None, Some(thought)], tools: None };
            let thinks = Self { place, around: None };
            let response = Form::of(template, &conversation, &thinks, before_answer, &().into())
                .find_map(|form| form.as_printed(1, &form.prompt(1).ok()?));
            let around = response.and_then(|response| {
                let (before, rest) = response.split_once(THOUGHT)?;
                Some([before.to_string(), rest.split_once(SAID)?.0.to_string()])
            });
            if around.is_some() {
                return Self { around, ..thinks };
            }
        }
        Self::default()
    }
}

impl ExampleTemplate {
    /// Encodes a conversation with several exchanges or tools: examples of at most `max_length` tokens.
    ///
    /// # Errors
    /// [`LmError::Prompt`] if the model has no chat template, or if the template fails, or loses a text, a thought or a call; and
    /// if the tokenizer fails.
    pub fn encode_conversation(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation,
        max_length: usize,
        long: Long,
    ) -> Result<Encoded<Vec<Example>>> {
        let PromptTemplate::Chat(template) = &self.prompt else {
            let why = "the model has no chat template, which conversations with several exchanges or tools need";
            return Err(LmError::Prompt(why.to_string()));
        };
        let tools = conversation.tools.map_or(Ok(().into()), tools::read).map_err(LmError::Prompt)?;
        // Of a conversation that is too long, no earlier message is looked at.
        let fits = |text: &str| {
            let may_be_long = long == Long::Drop && text.len() > max_length;
            !may_be_long || tokenizer.count(text).is_ok_and(|tokens| tokens <= max_length)
        };
        let mut refusal = None;
        for form in Form::of(template, conversation, &self.thinks, &self.before_answer, &tools) {
            match form.texts(&fits) {
                Ok(texts) => return self.tokenized(tokenizer, conversation, texts, max_length, long),
                // What is lost says more than the type that a form has and the template does not read.
                Err(why) => refusal = refusal.filter(|held: &String| held.starts_with(LOSES)).or(Some(why)),
            }
        }
        Err(LmError::Prompt(format!("the chat template {}", refusal.unwrap_or_default())))
    }

    fn tokenized(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation,
        mut texts: Vec<Draft>,
        max_length: usize,
        long: Long,
    ) -> Result<Encoded<Vec<Example>>> {
        let (mut examples, mut longest, mut is_cut) = (Vec::with_capacity(texts.len()), 0, false);
        texts.reverse();
        while let Some(draft) = texts.pop() {
            let (example, others) = self.example(tokenizer, conversation, draft)?;
            texts.extend(others);
            match example.fitted(max_length, long) {
                Encoded::Whole(example) => examples.push(example),
                Encoded::Cut(example) => {
                    is_cut = true;
                    examples.push(example);
                }
                Encoded::TooLong(tokens) => longest = longest.max(tokens),
            }
        }
        Ok(match (long, longest) {
            (Long::Drop, 1..) => Encoded::TooLong(longest),
            _ if examples.is_empty() => Encoded::TooLong(longest),
            (_, 0) if !is_cut => Encoded::Whole(examples),
            _ => Encoded::Cut(examples),
        })
    }

    /// The tokens of a text, and the texts of its responses that do not begin with a token of their own. The prompt and the last
    /// response are tokenized separately, as in generation.
    fn example(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation,
        draft: Draft,
    ) -> Result<(Example, Vec<Draft>)> {
        let Draft { text, responses } = draft;
        let last = responses.last().map_or(text.len(), |(own, _)| own.start);
        let mut tokens = tokenizer.encode(&text[..last], false)?;
        let of_prompt = tokens.ids.len();
        let response = tokenizer.encode(&text[last..], false)?;
        let shifted = response.offsets.iter().map(|(from, to)| (from + last as u32, to + last as u32));
        tokens.ids.extend(response.ids);
        tokens.offsets.extend(shifted);
        let (mut learned, mut others, mut end) = (vec![], vec![], 0);
        for (own, turn) in responses {
            let (begin, stop) = (own.start as u32, own.end as u32);
            let is_last = own.start == last;
            let before = tokens.offsets.partition_point(|(from, _)| *from < begin);
            let from = if is_last { of_prompt } else { before };
            let is_apart = from == 0 || tokens.offsets[from - 1].1 <= begin;
            // The last response begins the second part that is tokenized, whatever its first token covers.
            if !is_last && (!is_apart || tokens.offsets.get(from).is_none_or(|(from, _)| *from != begin)) {
                others.push(Draft { text: text[..own.end].to_string(), responses: vec![(own, turn)] });
                continue;
            }
            let is_special = |token: &usize| tokenizer.is_special(tokens.ids[*token]);
            let said = from + tokens.offsets[from..].iter().take_while(|(_, to)| *to <= stop).count();
            let ends = |token: &usize| text[tokens.offsets[*token].1 as usize..own.end].trim().is_empty();
            // Some templates end a turn only by the token that begins the next one, which a model writes to stop.
            end = match (from..said).rev().find(is_special).filter(ends) {
                Some(token) => token + 1,
                None => said + usize::from(said < tokens.ids.len() && is_special(&said)),
            };
            let offsets: Vec<(u32, u32)> = tokens.offsets[from..end]
                .iter()
                .map(|each| (each.0.saturating_sub(begin), each.1.saturating_sub(begin)))
                .collect();
            let pieces = pieces(&text[own], conversation.thoughts[turn].as_ref());
            let places =
                tokens_of(&pieces, &offsets).into_iter().zip(&pieces).filter(|(_, (_, is_learned))| *is_learned);
            let places = places.map(|(own, _)| from + own.start..(from + own.end).min(end));
            learned.extend(places.filter(|own| !own.is_empty()));
        }
        tokens.ids.truncate(end);
        if !tokens.ids.last().is_some_and(|last| tokenizer.is_special(*last)) {
            tokens.ids.push(self.end);
            learned.push(end..end + 1);
        }
        Ok((Example { ids: tokens.ids, learned }, others))
    }
}

/// The pieces of a response, and whether each is learned. White space between pieces belongs to none.
fn pieces(response: &str, thought: Option<&Thought>) -> Vec<(Range<usize>, bool)> {
    let whole = vec![(0..response.len(), true)];
    let Some(Thought { text, steps: Some(steps) }) = thought else { return whole };
    let Some(begin) = response.find(text.trim()) else { return whole };
    let (lead, end) = (text.len() - text.trim_start().len(), begin + text.trim().len());
    let place = |byte: usize| (begin + byte.saturating_sub(lead)).min(end);
    let steps = steps.iter().map(|(own, is_learned)| (place(own.start)..place(own.end), *is_learned));
    let closing = response.len() - response[end..].trim_start().len();
    let opening = (begin > 0).then_some((0..begin, true));
    opening.into_iter().chain(steps).chain([(closing..response.len(), true)]).collect()
}

impl<'f> Form<'f> {
    /// The forms to try, in order.
    fn of(
        template: &'f ChatTemplate,
        conversation: &'f Conversation<'f>,
        thinks: &'f Thinks,
        before_answer: &'f str,
        tools: &'f Value,
    ) -> impl Iterator<Item = Self> {
        [(false, false), (false, true), (true, false), (true, true)].into_iter().map(
            move |(has_text_arguments, has_none)| {
                Self {
                    template,
                    conversation,
                    thinks,
                    before_answer,
                    tools,
                    has_text_arguments,
                    has_none,
                    messages: vec![],
                }
                .with_messages()
            },
        )
    }

    /// The texts of the examples. Fails with what the template does.
    fn texts(&self, fits: &dyn Fn(&str) -> bool) -> Tried<Vec<Draft>> {
        let is_said = |turn: &Turn| turn.role == "assistant" && (turn.text.is_some() || !turn.calls.is_empty());
        let turns = self.conversation.turns.iter().enumerate();
        let said = turns.filter(|(place, turn)| is_said(turn) || self.thought(*place).is_some());
        let mut texts: Vec<Draft> = vec![];
        for (place, _) in said.rev() {
            let prompt = self.prompt(place)?;
            let response = self.response(place, &prompt)?;
            let own = texts.last().and_then(|draft| self.held(place, &draft.text, &prompt, &response));
            match (own, texts.last_mut()) {
                (Some(own), Some(draft)) => draft.responses.insert(0, (own, place)),
                _ => {
                    self.check_context(place, &prompt)?;
                    let own = prompt.len()..prompt.len() + response.len();
                    texts.push(Draft { text: prompt + &response, responses: vec![(own, place)] });
                    if texts.len() == 1 && !fits(&texts[0].text) {
                        return Ok(texts);
                    }
                }
            }
        }
        texts.reverse();
        Ok(texts)
    }

    /// Where a text holds a prompt with its response. Later on, templates may leave out the empty tags of a message without a
    /// thought.
    fn held(&self, place: usize, text: &str, prompt: &str, response: &str) -> Option<Range<usize>> {
        let rest = text.strip_prefix(prompt)?;
        let content = self.content(place).filter(|_| self.thought(place).is_none());
        let mut begins = (0..=content.and_then(|content| response.find(content)).unwrap_or(0))
            .filter(|begin| response.is_char_boundary(*begin));
        let begin = begins.find(|begin| rest.starts_with(&response[*begin..]))?;
        Some(prompt.len()..prompt.len() + response.len() - begin)
    }

    /// What a message begins with, besides its thought: its text, or the name of a tool.
    fn content(&self, place: usize) -> Option<&str> {
        let Turn { text, calls, .. } = &self.conversation.turns[place];
        let name = calls.first().and_then(|call| call.name.as_deref());
        text.as_deref().or(name).map(str::trim)
    }

    fn thought(&self, place: usize) -> Option<&str> {
        let held = self.conversation.thoughts[place].as_ref().map(|thought| &*thought.text);
        held.filter(|text| !text.trim().is_empty())
    }

    /// The text before a message.
    fn prompt(&self, place: usize) -> Tried<String> {
        let mut text = self.template.render_tooled(&self.messages[..place], self.tools, true)?;
        // A tag that ends a message is not the template's.
        let last = self.conversation.turns[..place].last().and_then(|turn| turn.text.as_deref()).unwrap_or_default();
        let last = Some(last.trim()).filter(|last| !last.is_empty());
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
    fn response(&self, place: usize, prompt: &str) -> Tried<String> {
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
    fn as_printed(&self, place: usize, prompt: &str) -> Option<String> {
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
    fn lost(&self, place: usize, response: &str) -> Option<&'static str> {
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
            None => printed.contains(arguments.trim()) || printed.contains(&as_json(arguments)),
        }
    }

    /// Whether the template prints what others say before a message.
    fn check_context(&self, place: usize, prompt: &str) -> Tried<()> {
        let mut at = 0;
        for (number, turn) in self.conversation.turns[..place].iter().enumerate() {
            let text = turn.text.as_deref().unwrap_or_default().trim();
            if turn.role == "assistant" || (turn.role == "system" && self.template.drops_system()) {
                continue;
            }
            let found = |from: usize| prompt[from..].find(text).map(|begin| from + begin + text.len());
            match found(at) {
                Some(end) => at = end,
                None if found(0).is_some() || prompt.contains(&as_json(text)) => {}
                None => return Err(self.loses(number, "the text")),
            }
        }
        Ok(())
    }

    fn loses(&self, place: usize, lost: &str) -> String {
        format!("{LOSES} {lost} of turn {} ({})", place + 1, self.conversation.turns[place].role)
    }
}

/// A text within a text in JSON.
fn as_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text.trim()).to_string();
    quoted[1..quoted.len() - 1].to_string()
}

#[cfg(test)]
mod tests;
