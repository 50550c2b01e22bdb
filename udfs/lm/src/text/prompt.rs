//! The text before a chain's first step or before an answer: a plain prompt, or the model's chat template.

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;
use serde_json::Value;

use crate::{LmError, Result, Tokenizer};

const TAGS: [&str; 2] = ["<think>", "</think>"];
const THINKS: [&str; 2] = ["enable_thinking", "thinking"];
/// Prompt of models without a chat template.
const WITHOUT_TEMPLATE: &str = "{question}\n<think>\n";
const CHAT: &str = "chat";

/// Turns a question into the text before a chain's first step.
#[derive(Debug)]
pub enum PromptTemplate {
    /// The model's chat template: the question as the user's turn, and the generation prompt of a thinking model.
    /// `<think>` and a line end follow unless the text already ends in them. The template writes special tokens itself.
    Chat {
        environment: Box<Environment<'static>>,
        /// Values of `bos_token` and `eos_token` in templates.
        special_tokens: [Option<String>; 2],
    },
    /// A text in which `{question}` is replaced by the question, or by system prompt and question, joined by a blank
    /// line. The tokenizer's special tokens are added.
    Plain(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Message<'a> {
    /// The role: `system`, `user` or `assistant`.
    pub role: &'a str,
    pub content: &'a str,
}

/// A question with an optional system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asked<'a> {
    pub system: Option<&'a str>,
    pub question: &'a str,
}

impl<'a> From<&'a str> for Asked<'a> {
    fn from(question: &'a str) -> Self {
        Self { system: None, question }
    }
}

impl PromptTemplate {
    /// Reads the setting for the model in `folder`: `chat`, or a plain template in which `\n` and `\t` are escapes.
    /// Without a setting, the model's chat template is used, or else `{question}\n<think>\n`.
    ///
    /// # Errors
    /// If a file cannot be read, the setting is `chat` without a chat template, or the template is not valid.
    pub fn load(folder: &Path, setting: Option<&str>) -> Result<Self> {
        if let Some(plain) = setting.filter(|setting| *setting != CHAT) {
            return Ok(Self::Plain(plain.replace("\\n", "\n").replace("\\t", "\t")));
        }
        let config = read_json(&folder.join("tokenizer_config.json"))?;
        match chat_template(folder, &config)? {
            Some(template) => Self::compile(folder, &template, &config),
            None if setting.is_some() => Err(LmError::unsupported(
                folder,
                "asap.scorer.prompt is 'chat', and the model has no chat template: expected chat_template.jinja, or \
                 chat_template in tokenizer_config.json",
            )),
            None => Ok(Self::Plain(WITHOUT_TEMPLATE.to_string())),
        }
    }

    fn compile(folder: &Path, template: &str, config: &Value) -> Result<Self> {
        let mut environment = Environment::new();
        // The same options as transformers.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> std::result::Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| fixed_date(&format));
        let not_valid = |error| LmError::unsupported(folder, format!("the chat template is not valid: {error:#}"));
        environment.add_template_owned(CHAT, as_jinja_reads(template)).map_err(not_valid)?;
        let special_tokens = ["bos_token", "eos_token"].map(|name| special_token(&config[name]));
        Ok(Self::Chat { environment: Box::new(environment), special_tokens })
    }

    /// Renders the text before the first step of a chain.
    pub fn render(&self, asked: Asked) -> Result<String> {
        let mut text = self.render_generation(asked)?;
        if matches!(self, Self::Chat { .. }) {
            if !opens_thought(&text) {
                text += TAGS[0];
            }
            if text.ends_with(TAGS[0]) {
                text.push('\n');
            }
        }
        Ok(text)
    }

    /// Renders the text before a generation. Unlike [`PromptTemplate::render`], only a chat template decides whether
    /// the chain is opened. A thought that the template closes is removed, since the model should write one.
    pub(crate) fn render_generation(&self, Asked { system, question }: Asked) -> Result<String> {
        let system = system.map(|content| Message { role: "system", content });
        let messages: Vec<Message> = system.into_iter().chain([Message { role: "user", content: question }]).collect();
        self.render_thinking(&messages)
    }

    /// Renders the text before a generation that follows a conversation.
    pub(crate) fn render_thinking(&self, messages: &[Message]) -> Result<String> {
        match self {
            Self::Plain(template) => Ok(template.replace("{question}", &self.render_messages(messages)?)),
            Self::Chat { .. } => {
                let mut text = self.render_chat(messages, true, true)?;
                text.truncate(before_closed_thought(&text));
                Ok(text)
            }
        }
    }

    /// Renders the text before an answer: by the chat template, or the messages joined by a blank line.
    pub(crate) fn render_messages(&self, messages: &[Message]) -> Result<String> {
        match self {
            Self::Plain(_) => Ok(messages.iter().map(|message| message.content).collect::<Vec<_>>().join("\n\n")),
            Self::Chat { .. } => self.render_chat(messages, true, false),
        }
    }

    /// Renders finished turns by the chat template; empty without one.
    pub(crate) fn render_turns(&self, messages: &impl Serialize) -> Result<String> {
        self.render_chat(messages, false, true)
    }

    fn render_chat(&self, messages: &(impl Serialize + ?Sized), generates: bool, thinks: bool) -> Result<String> {
        let Self::Chat { environment, special_tokens: [bos_token, eos_token] } = self else {
            return Ok(String::new());
        };
        let failed = |error: Error| LmError::Prompt(format!("{error:#}"));
        let template = environment.get_template(CHAT).map_err(failed)?;
        // Optional values are defined as none; a missing special token is undefined.
        let none = minijinja::Value::from(());
        let mut values: BTreeMap<&str, minijinja::Value> = BTreeMap::from([
            ("messages", minijinja::Value::from_serialize(messages)),
            ("add_generation_prompt", generates.into()),
            ("tools", none.clone()),
            ("documents", none),
        ]);
        for (name, token) in [("bos_token", bos_token), ("eos_token", eos_token)] {
            values.extend(token.as_deref().map(|token| (name, token.into())));
        }
        if thinks {
            values.extend(THINKS.map(|name| (name, true.into())));
        }
        template.render(values).map_err(failed)
    }

    pub(crate) fn adds_special(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

pub(crate) fn opens_thought(prompt: &str) -> bool {
    prompt.trim_end().ends_with(TAGS[0])
}

/// The length of a prompt without a thought that it closes; the whole length if it closes none.
fn before_closed_thought(text: &str) -> usize {
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

fn read_optional(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LmError::reading(path)(error)),
    }
}

pub(crate) fn read_json(path: &Path) -> Result<Value> {
    let Some(text) = read_optional(path)? else { return Ok(Value::Null) };
    serde_json::from_str(&text).map_err(|error| LmError::unsupported(path, format!("not JSON: {error}")))
}

/// The template in its own file, otherwise the one in the tokenizer's config; of several, the one named `default`.
fn chat_template(folder: &Path, config: &Value) -> Result<Option<String>> {
    if let Some(template) = read_optional(&folder.join("chat_template.jinja"))? {
        return Ok(Some(template));
    }
    let template = match &config["chat_template"] {
        Value::Array(templates) => templates.iter().find(|one| one["name"] == "default").map(|one| &one["template"]),
        template => Some(template),
    };
    Ok(template.and_then(Value::as_str).map(str::to_string))
}

/// A special token is a string, or an object with its content.
fn special_token(found: &Value) -> Option<String> {
    found.as_str().or_else(|| found["content"].as_str()).map(str::to_string)
}

/// The id of the token that the tokenizer's config has under a name such as `eos_token`.
pub(crate) fn named_token(folder: &Path, tokenizer: &Tokenizer, name: &str) -> Result<Option<u32>> {
    let config = read_json(&folder.join("tokenizer_config.json"))?;
    Ok(special_token(&config[name]).and_then(|token| tokenizer.id(&token)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cases;

    /// A line of `tests/prompts.jsonl`: the files of a model, a setting, and the text before a chain.
    #[derive(serde::Deserialize)]
    struct Case {
        /// tokenizer_config.json
        config: Value,
        /// chat_template.jinja
        template_file: Option<String>,
        setting: Option<String>,
        question: String,
        rendered: Option<String>,
        #[serde(default)]
        adds_special: bool,
        /// A text of the error.
        refused: Option<String>,
    }

    #[test]
    fn prompts_are_those_of_the_setting_or_the_template_or_say_why_there_is_none() {
        for Case { config, template_file, setting, question, rendered, adds_special, refused } in cases("prompts.jsonl")
        {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
            if let Some(template) = template_file {
                std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
            }
            let found = PromptTemplate::load(folder.path(), setting.as_deref())
                .and_then(|prompt| Ok((prompt.render(question.as_str().into())?, prompt.adds_special())));
            match (found, refused) {
                (Ok(found), None) => assert_eq!(Some(found), rendered.map(|text| (text, adds_special)), "{config}"),
                (Err(error), Some(why)) => assert!(error.to_string().contains(&why), "{config}: {error}"),
                (found, why) => panic!("{config}: {found:?}, expected {why:?}"),
            }
        }
    }
}
