//! The text before a chain's first step or before an answer: a plain prompt, or the model's chat template.

pub(in crate::text) mod chat_template;

use std::path::Path;

use asap_kernels::front_end::Setting;
use serde::Serialize;
use serde_json::Value;

use crate::{LmError, Result, Tokenizer};

use chat_template::ChatTemplate;

const TAGS: [&str; 2] = ["<think>", "</think>"];
/// Prompt of models without a chat template.
const WITHOUT_TEMPLATE: &str = "{question}\n<think>\n";
const CHAT: &str = "chat";

/// Turns a question into the text before a chain's first step.
#[derive(Debug)]
pub enum PromptTemplate {
    /// The model's chat template: the question as the user's turn, and the generation prompt of a thinking model.
    /// `<think>` and a line end follow unless the text already ends in them. The template writes special tokens itself.
    Chat(Box<ChatTemplate>),
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
    /// If a file cannot be read, the setting is `chat` without a chat template, or the template is not valid or loses
    /// the question.
    pub fn load(folder: &Path, setting: Option<&str>) -> Result<Self> {
        if let Some(plain) = setting.filter(|setting| *setting != CHAT) {
            return Ok(Self::Plain(plain.replace("\\n", "\n").replace("\\t", "\t")));
        }
        match ChatTemplate::load(folder)? {
            Some(template) => Ok(Self::Chat(Box::new(template))),
            None if setting.is_some() => Err(LmError::unsupported(
                folder,
                format!(
                    "{} is 'chat', and the model has no chat template: expected chat_template.jinja, or chat_template \
                     in tokenizer_config.json",
                    Setting("asap.scorer.prompt")
                ),
            )),
            None => Ok(Self::Plain(WITHOUT_TEMPLATE.to_string())),
        }
    }

    /// Renders the text before the first step of a chain.
    ///
    /// # Errors
    /// [`LmError::Prompt`] if the chat template fails, or does not print the question or the system prompt as it is. A
    /// template that prints no system prompt at all is no error: see [`PromptTemplate::drops_system`].
    pub fn render(&self, asked: Asked) -> Result<String> {
        let mut text = self.render_generation(asked)?;
        if matches!(self, Self::Chat(_)) {
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
            Self::Chat(template) => template.render_prompt(messages, true),
        }
    }

    /// Renders the text before an answer: by the chat template, or the messages joined by a blank line.
    pub(crate) fn render_messages(&self, messages: &[Message]) -> Result<String> {
        match self {
            Self::Plain(_) => Ok(messages.iter().map(|message| message.content).collect::<Vec<_>>().join("\n\n")),
            Self::Chat(template) => template.render_prompt(messages, false),
        }
    }

    /// Renders finished turns by the chat template; empty without one.
    pub(crate) fn render_turns(&self, turns: &[Value]) -> Result<String> {
        match self {
            Self::Plain(_) => Ok(String::new()),
            Self::Chat(template) => template.render_turns(turns),
        }
    }

    /// A question of the program's own, with a system prompt if the chat template needs one.
    pub fn ask<'a>(&self, question: &'a str) -> Asked<'a> {
        let needs_system = matches!(self, Self::Chat(template) if template.needs_system());
        Asked { system: needs_system.then_some("You are a helpful assistant."), question }
    }

    /// Whether the chat template prints nothing of a system prompt, so that no model reads it.
    pub fn drops_system(&self) -> bool {
        matches!(self, Self::Chat(template) if template.drops_system())
    }

    /// What to know of the chat template, each as the rest of a sentence about it.
    pub fn remarks(&self) -> Vec<String> {
        match self {
            Self::Plain(_) => vec![],
            Self::Chat(template) => template.remarks(),
        }
    }

    pub(crate) fn adds_special(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

pub(crate) fn opens_thought(prompt: &str) -> bool {
    prompt.trim_end().ends_with(TAGS[0])
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
