//! A model's chat template: what it prints is found out once, and checked in each conversation.
//!
//! ```text
//!   load ── compile ── render marked texts ──┬── which form a message's content has: a text, or a list of parts
//!                                            ├── what becomes of a system prompt
//!                                            └── an error, if the question is lost
//! ```

mod json;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Message, TAGS, read_json, read_optional, special_token};
use crate::{LmError, Result};

const THINKS: [&str; 2] = ["enable_thinking", "thinking"];
const NAME: &str = "chat";
const FILE: &str = "chat_template.jinja";
const SYSTEM: &str = "system";
const USER: &str = "user";
/// A template's message may quote a whole row.
const SHOWN_CHARACTERS: usize = 200;

#[derive(Debug)]
pub struct ChatTemplate {
    folder: PathBuf,
    environment: Environment<'static>,
    /// Values of `bos_token` and `eos_token` in templates.
    special_tokens: [Option<String>; 2],
    reads_parts: bool,
    /// Whether it prints a question that has no system prompt.
    prints_alone: bool,
    system: SystemTurn,
}

/// What a chat template does with a system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SystemTurn {
    Printed,
    /// No word of it is printed; the question is.
    Dropped,
    /// The prompt fails, or has other words: what the template does.
    Refused(String),
}

impl ChatTemplate {
    /// Reads the chat template in `folder`, and renders marked texts with it; None without one.
    ///
    /// # Errors
    /// If a file cannot be read, the template is not valid, or it does not print a question as it is.
    pub(super) fn load(folder: &Path) -> Result<Option<Self>> {
        let config = read_json(&folder.join("tokenizer_config.json"))?;
        let Some(text) = found(folder, &config)? else { return Ok(None) };
        let mut environment = Environment::new();
        // The same options as transformers.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |message: minijinja::Value| -> std::result::Result<String, Error> {
                let raised = Raised(message.to_string());
                Err(Error::new(ErrorKind::InvalidOperation, "raise_exception was called").with_source(raised))
            },
        );
        // In Jinja, none is not iterable, so that templates ask for its length only after this test.
        environment.add_test("iterable", |value: &minijinja::Value| !value.is_none() && value.try_iter().is_ok());
        environment.add_filter("tojson", json::as_python_writes);
        environment.add_function("strftime_now", |format: String| fixed_date(&format));
        let not_valid = |error| LmError::unsupported(folder, format!("the chat template is not valid: {error:#}"));
        environment.add_template_owned(NAME, as_jinja_reads(&text)).map_err(not_valid)?;
        let special_tokens = ["bos_token", "eos_token"].map(|name| special_token(&config[name]));
        let system = SystemTurn::Printed;
        let folder_of = folder.to_path_buf();
        let mut template =
            Self { folder: folder_of, environment, special_tokens, reads_parts: false, prints_alone: true, system };
        template.try_marked_texts().map_err(|what| {
            LmError::unsupported(
                folder,
                format!(
                    "the chat template {what}: expected a template that prints the question of a user's turn as it is, \
                     from a text or from a list of parts; correct {FILE}, or chat_template in tokenizer_config.json"
                ),
            )
        })?;
        Ok(Some(template))
    }

    /// Chooses the form of contents in which more texts are printed. Fails with what becomes of the question.
    fn try_marked_texts(&mut self) -> std::result::Result<(), String> {
        let [as_texts, as_parts] = [false, true].map(|reads_parts| {
            self.reads_parts = reads_parts;
            Tried::of(self)
        });
        self.reads_parts = as_parts.printed() > as_texts.printed();
        let tried = if self.reads_parts { as_parts } else { as_texts };
        if tried.printed() == 0 {
            return Err(tried.alone.of_text(QUESTION));
        }
        self.prints_alone = tried.alone == Outcome::Whole;
        self.system = tried.system_turn();
        Ok(())
    }

    /// Renders the text before an answer. With `thinks`, a thought that the template closes is removed, since the model
    /// should write one.
    ///
    /// # Errors
    /// [`LmError::Prompt`] if the template fails, or if a question or a system prompt is not in the text as it is.
    pub(super) fn render_prompt(&self, messages: &[Message], thinks: bool) -> Result<String> {
        let has_system = messages.iter().any(|message| message.role == SYSTEM);
        let mut text = self.render(&messages, true, thinks).map_err(|failure| {
            let of = match (has_system, &self.system) {
                (true, SystemTurn::Refused(_)) => A_SYSTEM_PROMPT,
                (true, _) => "this conversation",
                (false, _) if self.prints_alone => QUESTION,
                (false, _) => "a question without a system prompt",
            };
            LmError::Prompt(format!("the chat template {}", failure.of(of)))
        })?;
        if thinks {
            // A tag that ends the question itself is not the template's.
            let question = messages.last().map_or("", |message| message.content.trim());
            let after = text.find(question).map_or(0, |start| start + question.len());
            text.truncate(after + before_closed_thought(&text[after..]));
        }
        let is_lost = |message: &&Message| match message.role {
            SYSTEM if self.system == SystemTurn::Dropped => false,
            SYSTEM | USER => !text.contains(message.content.trim()),
            _ => false,
        };
        match messages.iter().find(is_lost) {
            None => Ok(text),
            Some(Message { role: SYSTEM, .. }) => Err(lost(A_SYSTEM_PROMPT)),
            Some(_) if has_system && self.prints_alone => Err(lost("a question after a system prompt")),
            Some(_) => Err(lost(QUESTION)),
        }
    }

    /// Renders finished turns. Their texts are not checked: templates delete thoughts of an assistant.
    pub(super) fn render_turns(&self, turns: &[Value]) -> Result<String> {
        let failed = |failure: Failure| LmError::Prompt(format!("the chat template {}", failure.of("a conversation")));
        if self.prints_alone || turns.first().is_some_and(|turn| turn["role"] == SYSTEM) {
            return self.render(&turns, false, true).map_err(failed);
        }
        let system = json!({ "role": SYSTEM, "content": "?" });
        let turns: Vec<&Value> = [&system].into_iter().chain(turns).collect();
        self.render(&turns, false, true).map_err(failed)
    }

    /// Renders messages with the schemas of tools, up to the end of the last one, or with `generates`, the text before an
    /// answer. Fails with what the template does with them.
    pub(in crate::text) fn render_tooled(
        &self,
        messages: &[minijinja::Value],
        tools: &minijinja::Value,
        generates: bool,
    ) -> std::result::Result<String, String> {
        let messages = messages.iter().cloned().collect();
        self.render_value(messages, tools.clone(), generates, true).map_err(|failure| failure.of("this conversation"))
    }

    /// The content of a message, in the form that the template reads.
    pub(in crate::text) fn content(&self, text: &str) -> minijinja::Value {
        match self.reads_parts {
            true => minijinja::Value::from_serialize(json!([{ "type": "text", "text": text }])),
            false => text.into(),
        }
    }

    /// Which template it is: its folder.
    pub(in crate::text) fn name(&self) -> impl Display {
        self.folder.display()
    }

    pub(super) fn needs_system(&self) -> bool {
        !self.prints_alone
    }

    pub(in crate::text) fn drops_system(&self) -> bool {
        self.system == SystemTurn::Dropped
    }

    /// How it reads messages, if that is not as texts with a system prompt: a line for each thing to know.
    pub(super) fn remarks(&self) -> Vec<String> {
        let parts = self.reads_parts.then(|| "reads contents as lists of parts, so asap passes parts".to_string());
        let alone = (!self.prints_alone).then(|| "needs a system prompt: rows without one are rejected".to_string());
        let system = match &self.system {
            SystemTurn::Printed => None,
            SystemTurn::Dropped => Some(format!("does not print {A_SYSTEM_PROMPT}: models do not read it")),
            SystemTurn::Refused(what) => Some(format!("{what}: rows with one are rejected")),
        };
        parts.into_iter().chain(alone).chain(system).collect()
    }

    fn render(&self, messages: &impl Serialize, generates: bool, thinks: bool) -> std::result::Result<String, Failure> {
        let messages = match self.reads_parts {
            true => minijinja::Value::from_serialize(with_parts(messages)),
            false => minijinja::Value::from_serialize(messages),
        };
        self.render_value(messages, ().into(), generates, thinks)
    }

    fn render_value(
        &self,
        messages: minijinja::Value,
        tools: minijinja::Value,
        generates: bool,
        thinks: bool,
    ) -> std::result::Result<String, Failure> {
        let template = self.environment.get_template(NAME)?;
        // Optional values are defined as none; a missing special token is undefined.
        let mut values: BTreeMap<&str, minijinja::Value> = BTreeMap::from([
            ("messages", messages),
            ("add_generation_prompt", generates.into()),
            ("tools", tools),
            ("documents", ().into()),
        ]);
        for (name, token) in ["bos_token", "eos_token"].into_iter().zip(&self.special_tokens) {
            values.extend(token.as_deref().map(|token| (name, token.into())));
        }
        if thinks {
            values.extend(THINKS.map(|name| (name, true.into())));
        }
        Ok(template.render(values)?)
    }
}

const QUESTION: &str = "the question";
const A_SYSTEM_PROMPT: &str = "a system prompt";

fn lost(what: &str) -> LmError {
    LmError::Prompt(format!("the chat template does not print {what} as it is"))
}

/// What `raise_exception` was called with.
#[derive(Debug)]
struct Raised(String);

impl std::error::Error for Raised {}

impl Display for Raised {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a template printed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    message: String,
    is_raised: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let raised = error.source().and_then(|source| source.downcast_ref::<Raised>());
        let message = raised.map_or_else(|| format!("{error:#}"), Raised::to_string);
        let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut message: String = words.chars().take(SHOWN_CHARACTERS).collect();
        if message.len() < words.len() {
            message.push('…');
        }
        Self { message, is_raised: raised.is_some() }
    }
}

impl Failure {
    /// What the template does with a text: the message is the template's own if it raised one.
    fn of(&self, what: &str) -> String {
        let Self { message, is_raised } = self;
        if *is_raised { format!("refuses {what}: \"{message}\"") } else { format!("fails on {what}: {message}") }
    }
}

/// What becomes of a marked text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Whole,
    /// Only some of its words are printed, or it is printed otherwise.
    Changed,
    Nothing,
    Failed(Failure),
}

impl Outcome {
    fn of(rendered: &std::result::Result<String, Failure>, marked: &Marked) -> Self {
        let text = match rendered {
            Ok(text) => text,
            Err(failure) => return Self::Failed(failure.clone()),
        };
        match text.contains(&marked.text) {
            true => Self::Whole,
            false if text.to_lowercase().contains(marked.mark) => Self::Changed,
            false => Self::Nothing,
        }
    }

    fn of_text(&self, what: &str) -> String {
        match self {
            Self::Whole => format!("prints {what}"),
            Self::Changed => format!("cuts or changes {what}"),
            Self::Nothing => format!("does not print {what}"),
            Self::Failed(failure) => failure.of(what),
        }
    }
}

/// What becomes of marked texts in one form of contents.
struct Tried {
    /// A question without a system prompt.
    alone: Outcome,
    question: Outcome,
    system: Outcome,
}

impl Tried {
    fn of(template: &ChatTemplate) -> Self {
        let [system, question] = [SYSTEM, USER].map(Marked::new);
        let [first, second] = [(SYSTEM, &system), (USER, &question)]
            .map(|(role, marked): (_, &Marked)| Message { role, content: &marked.text });
        let alone = template.render(&[second], true, true);
        let both = template.render(&[first, second], true, true);
        Self {
            alone: Outcome::of(&alone, &question),
            question: Outcome::of(&both, &question),
            system: Outcome::of(&both, &system),
        }
    }

    /// How many of the two conversations are printed whole.
    fn printed(&self) -> usize {
        let both = self.question == Outcome::Whole && self.system == Outcome::Whole;
        usize::from(self.alone == Outcome::Whole) + usize::from(both)
    }

    fn system_turn(&self) -> SystemTurn {
        match (&self.question, &self.system) {
            (Outcome::Whole, Outcome::Whole) => SystemTurn::Printed,
            (Outcome::Whole, Outcome::Nothing) => SystemTurn::Dropped,
            (Outcome::Whole, system) => SystemTurn::Refused(system.of_text(A_SYSTEM_PROMPT)),
            (Outcome::Failed(failure), _) => SystemTurn::Refused(failure.of(A_SYSTEM_PROMPT)),
            (question, _) => SystemTurn::Refused(question.of_text("a question after a system prompt")),
        }
    }
}

/// A text of many lines with upper case, signs and white space, so that a cut or an edit of it shows.
struct Marked {
    text: String,
    /// How each of its words begins in lower case, as no word of a template does.
    mark: &'static str,
}

impl Marked {
    fn new(role: &str) -> Self {
        let mark = if role == SYSTEM { "zqsy" } else { "zqus" };
        let line = |line| {
            let word = format!("{}-{line:02}", mark.to_uppercase());
            format!("{word}: \"1\"  < 2 & 'é' \\ {{{{ x }}}}\t[数] # {mark} *{word}")
        };
        Self { text: (0..40).map(line).collect::<Vec<_>>().join("\n\n"), mark }
    }
}

/// Messages whose contents are lists of one part.
fn with_parts(messages: &impl Serialize) -> Value {
    let mut messages = serde_json::to_value(messages).unwrap_or_default();
    for message in messages.as_array_mut().into_iter().flatten() {
        if let Some(content) = message.get_mut("content").filter(|content| content.is_string()) {
            *content = json!([{ "type": "text", "text": content.take() }]);
        }
    }
    messages
}

/// The length of a prompt without a thought that it closes; the whole length if it closes none.
pub(in crate::text) fn before_closed_thought(text: &str) -> usize {
    let Some(open) = text.trim_end().strip_suffix(TAGS[1]) else { return text.len() };
    open.trim_end().strip_suffix(TAGS[0]).unwrap_or(open).len()
}

/// Rewrites a template for Jinja with transformers' extensions: line ends become line feeds, and `generation` blocks,
/// which mark what a trainer learns, become plain blocks.
fn as_jinja_reads(template: &str) -> String {
    let mut read = String::with_capacity(template.len());
    let text = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut rest = text.as_str();
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length + 2];
        read.push_str(&rest[..start]);
        match tag.trim_matches(['{', '}', '%', '-', '+']).trim() {
            "generation" => read.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => read.push_str(&tag.replace("endgeneration", "endif")),
            _ => read.push_str(tag),
        }
        rest = &rest[start + length + 2..];
    }
    read + rest
}

/// A fixed date, so that scores do not change from day to day: the default of Llama's own templates.
fn fixed_date(format: &str) -> String {
    const DATE: &str = "%Y 2024 %y 24 %m 07 %B July %b Jul %d 26 %-d 26 %A Friday %a Fri %H 00 %M 00 %S 00";
    let parts: Vec<&str> = DATE.split(' ').collect();
    parts.as_chunks().0.iter().fold(format.to_string(), |text, [part, value]| text.replace(part, value))
}

/// The template in its own file, otherwise the one in the tokenizer's config; of several, the one named `default`, or
/// the only one.
fn found(folder: &Path, config: &Value) -> Result<Option<String>> {
    if let Some(template) = read_optional(&folder.join(FILE))? {
        return Ok(Some(template));
    }
    let named: Vec<(&str, &str)> = match &config["chat_template"] {
        Value::Null => return Ok(None),
        Value::String(template) => return Ok(Some(template.clone())),
        Value::Array(none) if none.is_empty() => return Ok(None),
        Value::Array(templates) => {
            templates.iter().filter_map(|one| one["name"].as_str().zip(one["template"].as_str())).collect()
        }
        Value::Object(templates) => {
            templates.iter().filter_map(|(name, template)| Some((name.as_str(), template.as_str()?))).collect()
        }
        _ => vec![],
    };
    let default = named.iter().find(|(name, _)| *name == "default");
    match (default, named.as_slice()) {
        (Some((_, template)), _) | (None, [(_, template)]) => Ok(Some(template.to_string())),
        (None, []) => Err(LmError::unsupported(
            &folder.join("tokenizer_config.json"),
            "chat_template has no template: expected a text, or a list of objects with name and template",
        )),
        (None, all) => {
            let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(LmError::unsupported(
                &folder.join("tokenizer_config.json"),
                format!(
                    "chat_template has the templates {names}, and none is named default: write the one to use to {FILE} \
                     in this folder"
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests;
