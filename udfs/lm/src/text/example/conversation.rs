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
mod printed;
mod tools;

use std::borrow::Cow;
use std::ops::Range;

use minijinja::Value;

use super::{Encoded, Example, ExampleTemplate, Long, SAID, THOUGHT, tokens_of};
use crate::text::conversation::{Call, Turn};
use crate::text::prompt::PromptTemplate;
use crate::text::prompt::chat_template::ChatTemplate;
use crate::{LmError, Result, Tokenizer};
use printed::escaped;
pub use tools::tools_of_openai;

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
#[derive(Debug, PartialEq, Eq)]
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

    /// The texts of the examples. Fails with what the template does. The template prints all earlier messages before each
    /// response: what it prints of them may depend on any message, so that no shorter text proves a prompt.
    fn texts(&self, fits: &dyn Fn(&str) -> bool) -> Tried<Vec<Draft>> {
        let is_said = |turn: &Turn| turn.role == "assistant" && (turn.text.is_some() || !turn.calls.is_empty());
        let turns = self.conversation.turns.iter().enumerate();
        let said = turns.filter(|(place, turn)| is_said(turn) || self.thought(*place).is_some());
        let mut drafts: Vec<Draft> = vec![];
        for (place, _) in said.rev() {
            let prompt = self.prompt(place)?;
            let response = self.response(place, &prompt)?;
            let own = drafts.last().and_then(|draft| self.held(place, &draft.text, &prompt, &response));
            match (own, drafts.last_mut()) {
                (Some(own), Some(draft)) => draft.responses.insert(0, (own, place)),
                _ => {
                    self.check_context(place, &prompt)?;
                    let own = prompt.len()..prompt.len() + response.len();
                    drafts.push(Draft { text: prompt + &response, responses: vec![(own, place)] });
                    if drafts.len() == 1 && !fits(&drafts[0].text) {
                        return Ok(drafts);
                    }
                }
            }
        }
        drafts.reverse();
        Ok(drafts)
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
                None if found(0).is_some() || prompt.contains(&escaped(text)) => {}
                None => return Err(self.loses(number, "the text")),
            }
        }
        Ok(())
    }

    fn loses(&self, place: usize, lost: &str) -> String {
        format!("{LOSES} {lost} of turn {} ({})", place + 1, self.conversation.turns[place].role)
    }
}

#[cfg(test)]
mod tests;
