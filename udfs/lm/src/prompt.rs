//! What stands before a chain's first step or before an answer: a prompt, or a conversation by the model's chat template.

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::{Environment, Error, ErrorKind};
use serde_json::Value;

use super::{LmError, Result, Tokenizer};

const TAGS: [&str; 2] = ["<think>", "</think>"];
const THINKS: [&str; 2] = ["enable_thinking", "thinking"];
/// What stands before the first step where the model has no template of its own.
const WITHOUT_TEMPLATE: &str = "{question}\n<think>\n";
const CHAT: &str = "chat";

/// How a question becomes the text before a chain's first step.
#[derive(Debug)]
pub enum PromptTemplate {
    /// The model's own chat template: the question is the user's turn, the generation prompt of a model that is to think
    /// follows, then `<think>` and a line end unless the text ends in them already. The template writes special tokens itself.
    Chat {
        /// Holds the compiled template.
        environment: Box<Environment<'static>>,
        /// What templates know as `bos_token` and `eos_token`.
        special_tokens: [Option<String>; 2],
    },
    /// A text in which `{question}` is replaced, by the system prompt too where there is one, a blank line between them. The tokenizer's own special tokens are added.
    Plain(String),
}

/// One turn of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Message<'a> {
    /// Who says it: `system`, `user` or `assistant`.
    pub role: &'a str,
    /// What is said.
    pub content: &'a str,
}

/// What a model is asked: a question, and the system prompt that stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The system prompt.
    pub system: Option<&'a str>,
    /// What the user says.
    pub question: &'a str,
}

impl<'a> From<&'a str> for Asked<'a> {
    fn from(question: &'a str) -> Self {
        Self { system: None, question }
    }
}

impl PromptTemplate {
    /// Reads the setting for the model in `folder`: `chat`, a plain template in which `\n` and `\t` are escapes, or, if
    /// it is not set, the chat template where the model has one, else `{question}\n<think>\n`.
    ///
    /// # Errors
    /// If a file of the model cannot be read, if it has no chat template and one is asked for, or if the template is
    /// not valid.
    pub fn load(folder: &Path, setting: Option<&str>) -> Result<Self> {
        match setting {
            Some(plain) if plain != CHAT => Ok(Self::Plain(plain.replace("\\n", "\n").replace("\\t", "\t"))),
            _ => {
                let config = read_json(&folder.join("tokenizer_config.json"))?;
                match chat_template(folder, &config)? {
                    Some(template) => Self::compile(folder, template, &config),
                    None if setting.is_some() => Err(LmError::Unsupported {
                        path: folder.to_path_buf(),
                        found: "asap.scorer.prompt is 'chat', and the model has no chat template: neither \
                            chat_template.jinja nor chat_template in tokenizer_config.json"
                            .to_string(),
                    }),
                    None => Ok(Self::Plain(WITHOUT_TEMPLATE.to_string())),
                }
            }
        }
    }

    fn compile(folder: &Path, template: String, config: &Value) -> Result<Self> {
        let mut environment = Environment::new();
        // As transformers compiles them.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> std::result::Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| fixed_date(&format));
        environment
            .add_template_owned(CHAT, as_jinja_reads(&template))
            .map_err(|error| unsupported(folder, "the chat template is not valid", &error))?;
        let special_tokens = ["bos_token", "eos_token"].map(|name| special_token(&config[name]));
        Ok(Self::Chat { environment: Box::new(environment), special_tokens })
    }

    /// The text before the first step of a chain that answers what was asked.
    ///
    /// # Errors
    /// If the chat template fails on it.
    pub fn render(&self, asked: Asked) -> Result<String> {
        let mut text = self.render_generation(asked)?;
        if matches!(self, Self::Chat { .. }) {
            match text.trim_end().strip_suffix(TAGS[0]) {
                None => text += &[TAGS[0], "\n"].concat(),
                Some(before) if before.len() + TAGS[0].len() == text.len() => text.push('\n'),
                Some(_) => {}
            }
        }
        Ok(text)
    }

    /// The text before what a model generates: as [`PromptTemplate::render`], but a chat template alone says
    /// whether the chain is opened. A thought that it closes itself is left out: the model is to write one.
    pub(crate) fn render_generation(&self, Asked { system, question }: Asked) -> Result<String> {
        let system = system.map(|content| Message { role: "system", content });
        let messages: Vec<Message> = system.into_iter().chain([Message { role: "user", content: question }]).collect();
        match self {
            Self::Plain(template) => Ok(template.replace("{question}", &self.render_messages(&messages)?)),
            Self::Chat { .. } => {
                let mut text = self.render_chat(&messages, true, true)?;
                text.truncate(before_closed_thought(&text));
                Ok(text)
            }
        }
    }

    /// The text before the answer to a conversation: by the chat template, else the messages joined by a blank line.
    pub(crate) fn render_messages(&self, messages: &[Message]) -> Result<String> {
        match self {
            Self::Plain(_) => Ok(messages.iter().map(|message| message.content).collect::<Vec<_>>().join("\n\n")),
            Self::Chat { .. } => self.render_chat(messages, true, false),
        }
    }

    /// A conversation of turns that were said, by the chat template; nothing without one.
    pub(super) fn render_turns(&self, messages: &impl serde::Serialize) -> Result<String> {
        self.render_chat(messages, false, true)
    }

    fn render_chat(
        &self,
        messages: &(impl serde::Serialize + ?Sized),
        add_generation_prompt: bool,
        thinks: bool,
    ) -> Result<String> {
        let Self::Chat { environment, special_tokens: [bos_token, eos_token] } = self else {
            return Ok(String::new());
        };
        let failed = |error: Error| LmError::Prompt(format!("{error:#}"));
        let template = environment.get_template(CHAT).map_err(failed)?;
        // What is none is defined; a special token that the model lacks is not.
        let none = minijinja::Value::from(());
        let mut values: BTreeMap<&str, minijinja::Value> = BTreeMap::from([
            ("messages", minijinja::Value::from_serialize(messages)),
            ("add_generation_prompt", add_generation_prompt.into()),
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

/// Where a prompt would end if it did not close a thought; its length if it does not.
fn before_closed_thought(text: &str) -> usize {
    let Some(open) = text.trim_end().strip_suffix(TAGS[1]) else { return text.len() };
    open.trim_end().strip_suffix(TAGS[0]).unwrap_or(open).len()
}

/// A template as Jinja reads it with transformers' extensions: line ends are line feeds, and `generation` blocks, which mark
/// what a trainer learns, are nothing here.
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

/// Today's date as templates ask for it. It is the one that Llama's own templates fall back to: scores must not change from
/// day to day.
fn fixed_date(format: &str) -> String {
    const DATE: [(&str, &str); 12] = [
        ("%Y", "2024"),
        ("%y", "24"),
        ("%m", "07"),
        ("%B", "July"),
        ("%b", "Jul"),
        ("%d", "26"),
        ("%-d", "26"),
        ("%A", "Friday"),
        ("%a", "Fri"),
        ("%H", "00"),
        ("%M", "00"),
        ("%S", "00"),
    ];
    DATE.iter().fold(format.to_string(), |text, (part, value)| text.replace(part, value))
}

fn unsupported(folder: &Path, what: &str, error: &Error) -> LmError {
    LmError::Unsupported { path: folder.to_path_buf(), found: format!("{what}: {error:#}") }
}

fn read_optional(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LmError::Read { path: path.to_path_buf(), source }),
    }
}

pub(super) fn read_json(path: &Path) -> Result<Value> {
    let Some(text) = read_optional(path)? else { return Ok(Value::Null) };
    serde_json::from_str(&text)
        .map_err(|error| LmError::Unsupported { path: path.to_path_buf(), found: format!("not JSON: {error}") })
}

/// The template in a file of its own, else the one in the tokenizer's config; of several, the one named `default`.
fn chat_template(folder: &Path, config: &Value) -> Result<Option<String>> {
    if let Some(template) = read_optional(&folder.join("chat_template.jinja"))? {
        return Ok(Some(template));
    }
    let named_default = |templates: &Vec<Value>| {
        let found = templates.iter().find(|template| template["name"] == "default")?;
        found["template"].as_str().map(str::to_string)
    };
    Ok(match &config["chat_template"] {
        Value::String(template) => Some(template.clone()),
        Value::Array(templates) => named_default(templates),
        _ => None,
    })
}

/// A special token is written as a text, or as an object with its content.
pub(super) fn special_token(found: &Value) -> Option<String> {
    found.as_str().or_else(|| found["content"].as_str()).map(str::to_string)
}

/// The token that begins a text: the tokenizer's BOS, else `<|endoftext|>`, as GPT-2 and Qwen have it.
pub(super) fn start(folder: &Path, tokenizer: &Tokenizer) -> Result<Option<u32>> {
    let config = read_json(&folder.join("tokenizer_config.json"))?;
    let begins = special_token(&config["bos_token"]).and_then(|token| tokenizer.id(&token));
    Ok(begins.or_else(|| tokenizer.id("<|endoftext|>")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(config: &Value) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        folder
    }

    fn rendered(config: &Value, setting: Option<&str>) -> Result<String> {
        PromptTemplate::load(folder(config).path(), setting)?.render("1 + 1 = {{ 2 }}?".into())
    }

    const CHAT_ML: &str = "{% for message in messages %}\n{{- '<|im_start|>' + message['role'] + '\n' + \
        message['content'].strip() + '<|im_end|>' + '\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n\
        {{- '<|im_start|>assistant\n' }}\n{%- endif %}";

    #[test]
    fn plain_templates_replace_the_question_and_two_escapes_alone() {
        let config = Value::Null;
        assert_eq!(rendered(&config, Some("{question}")).unwrap(), "1 + 1 = {{ 2 }}?");
        assert_eq!(rendered(&config, Some("Q:\\t{question}\\n{x}\\r")).unwrap(), "Q:\t1 + 1 = {{ 2 }}?\n{x}\\r");
        assert_eq!(rendered(&config, None).unwrap(), "1 + 1 = {{ 2 }}?\n<think>\n");
        assert!(PromptTemplate::load(folder(&config).path(), None).unwrap().adds_special());
    }

    #[test]
    fn a_chat_template_is_the_default_where_there_is_one() {
        let config = serde_json::json!({ "chat_template": CHAT_ML });
        let expected = "<|im_start|>user\n1 + 1 = {{ 2 }}?<|im_end|>\n<|im_start|>assistant\n<think>\n";
        assert_eq!(rendered(&config, None).unwrap(), expected);
        assert_eq!(rendered(&config, Some("chat")).unwrap(), expected);
        assert!(!PromptTemplate::load(folder(&config).path(), None).unwrap().adds_special());
    }

    #[test]
    fn a_template_that_opens_the_chain_is_not_opened_twice() {
        let template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}<think>\n\n{% if false %}{% endif %}";
        let config = serde_json::json!({
            "bos_token": { "content": "<s>" }, "eos_token": "</s>",
            "chat_template": [{ "name": "tool", "template": "x" }, { "name": "default", "template": template }],
        });
        let folder = folder(&config);
        let by_config = PromptTemplate::load(folder.path(), None).unwrap().render("q".into()).unwrap();
        assert_eq!(by_config, "<s>q</s><think>\n\n");
        std::fs::write(folder.path().join("chat_template.jinja"), "{{ messages[0].content }}<think>{{ '\\n' }}")
            .unwrap();
        assert_eq!(PromptTemplate::load(folder.path(), None).unwrap().render("q".into()).unwrap(), "q<think>\n");
    }

    #[test]
    fn templates_are_read_as_transformers_reads_them() {
        let cases = [
            // A special token that the model lacks is nothing, tools that are not given are none.
            ("{{ bos_token }}{% if tools is not none and tools|length %}t{% endif %}{{ documents is none }}", "True"),
            ("{% if tools is defined %}d{% endif %}", "d"),
            ("a\r\nb{{ '\r\n' }}c", "a\nb\nc"),
            ("{% generation %}g{% endgeneration %}{%- generation -%} h {%- endgeneration %}", "gh"),
            ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
        ];
        for (template, expected) in cases {
            let config = serde_json::json!({ "bos_token": null, "chat_template": template });
            let rendered = PromptTemplate::load(folder(&config).path(), None).unwrap();
            let messages = [Message { role: "user", content: "q" }];
            assert_eq!(rendered.render_messages(&messages).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_is_an_error_that_says_why() {
        let error = rendered(&Value::Null, Some("chat")).unwrap_err().to_string();
        assert!(error.contains("no chat template"), "{error}");
        let error = rendered(&serde_json::json!({ "chat_template": "{% if" }), None).unwrap_err().to_string();
        assert!(error.contains("not valid"), "{error}");
        let raising = serde_json::json!({ "chat_template": "{{ raise_exception('only two turns') }}" });
        let error = rendered(&raising, None).unwrap_err().to_string();
        assert!(error.contains("only two turns"), "{error}");
    }
}
