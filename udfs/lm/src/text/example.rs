//! Turns rows into training examples.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::str::FromStr;

use asap_kernels::tags;
use serde_json::{Value, json};

use crate::text::prompt::{Asked, Message, PromptTemplate, named_token, read_json};
use crate::{LmError, Result, Tokenizer};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    pub ids: Vec<u32>,
    /// Number of prompt tokens, which are not learned; at least 1.
    pub prompt: usize,
}

/// Label of a token that is not learned; PyTorch's cross-entropy ignores it.
const IGNORED: i32 = -100;

impl Example {
    pub fn response(&self) -> &[u32] {
        &self.ids[self.prompt..]
    }

    /// The token ids in the type that trainers read.
    pub fn input_ids(&self) -> impl Iterator<Item = i32> {
        self.ids.iter().map(|id| *id as i32)
    }

    /// The label of each token: its id in the response, -100 in the prompt.
    pub fn labels(&self) -> impl Iterator<Item = i32> {
        std::iter::repeat_n(IGNORED, self.prompt).chain(self.response().iter().map(|id| *id as i32))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// Drop it: truncated chains teach a model not to end.
    Drop,
    /// Truncate it; drop it if nothing to learn remains.
    Cut,
}

impl FromStr for Long {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let named = [Self::Drop, Self::Cut].into_iter().find(|long| long.to_string() == text);
        named.ok_or_else(|| "expected drop or cut".to_string())
    }
}

impl Display for Long {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drop => "drop",
            Self::Cut => "cut",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoded {
    Whole(Example),
    /// The row truncated to `max_length`.
    Cut(Example),
    /// The row was dropped; it has this many tokens.
    TooLong(usize),
}

/// Turns rows of a corpus into examples for one model.
///
/// The question is the user's turn in the model's chat template, after its system prompt and before the generation
/// prompt. The response is what the model should generate from there: the opening think tag unless the template writes
/// it, the chain, the closing tag, the answer and the end-of-turn token. Prompt and response are tokenized separately,
/// as in generation: no token spans both.
#[derive(Debug)]
pub struct ExampleTemplate {
    prompt: PromptTemplate,
    /// The token that ends an example.
    pub end: u32,
    before_answer: String,
}

/// Markers for an assistant's answer and thought, to inspect a template.
const SAID: &str = "asap-said-this";
const THOUGHT: &str = "asap-thought-this";
const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";

impl ExampleTemplate {
    /// Reads the chat template of the model in `folder`, or a plain one, as [`PromptTemplate::load`]. The end token is
    /// the first special token that the template writes after an assistant's turn, otherwise the model's `eos_token`.
    pub fn load(folder: &Path, setting: Option<&str>, tokenizer: &Tokenizer) -> Result<Self> {
        let prompt = PromptTemplate::load(folder, setting)?;
        let after = end_of_turn(&prompt, tokenizer)?;
        let end = match after {
            Some(end) => end,
            None => end_of_text(folder, tokenizer)?,
        };
        let before_answer = before_answer(&prompt)?.unwrap_or_else(|| tags::BEFORE_ANSWER.to_string());
        Ok(Self { prompt, end, before_answer })
    }

    /// Returns whether the chat template keeps the chain of a row: what a trainer learns from the row's messages if it
    /// applies the template itself. None if the model has no chat template, or if the template rejects the row.
    pub fn keeps_chain(&self, Asked { system, question }: Asked, [cot, answer]: [&str; 2]) -> Option<bool> {
        let PromptTemplate::Chat { .. } = self.prompt else { return None };
        let said = format!("{OPENING}\n{}", tags::continuation(cot, tags::BEFORE_ANSWER, answer));
        let system = system.map(|content| Message { role: "system", content });
        let turns = [Message { role: "user", content: question }, Message { role: "assistant", content: &said }];
        let messages: Vec<Message> = system.into_iter().chain(turns).collect();
        Some(self.prompt.render_turns(&messages).ok()?.contains(cot.trim()))
    }

    /// Encodes a row to at most `max_length` tokens.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        asked: Asked,
        [cot, answer]: [&str; 2],
        max_length: usize,
        long: Long,
    ) -> Result<Encoded> {
        let prompt = self.prompt.render_generation(asked)?;
        let opened = prompt.rfind(OPENING).map(|tag| &prompt[tag + OPENING.len()..]);
        let continuation = tags::continuation(cot, &self.before_answer, answer);
        let response = match opened.filter(|after| after.trim().is_empty()) {
            Some("") => format!("\n{continuation}"),
            Some(_) => continuation,
            None => format!("{OPENING}\n{continuation}"),
        };
        let mut ids = tokenizer.encode(&prompt, self.prompt.adds_special())?.ids;
        // A token without a preceding token cannot be learned.
        let prompt = ids.len().max(1);
        ids.extend(tokenizer.encode(&response, false)?.ids);
        ids.push(self.end);
        let tokens = ids.len();
        if tokens <= max_length {
            return Ok(Encoded::Whole(Example { ids, prompt }));
        }
        if long == Long::Drop || prompt >= max_length {
            return Ok(Encoded::TooLong(tokens));
        }
        ids.truncate(max_length);
        Ok(Encoded::Cut(Example { ids, prompt }))
    }
}

/// The first special token that a chat template writes after an assistant's answer.
fn end_of_turn(prompt: &PromptTemplate, tokenizer: &Tokenizer) -> Result<Option<u32>> {
    let messages = [Message { role: "user", content: "?" }, Message { role: "assistant", content: SAID }];
    let PromptTemplate::Chat { .. } = prompt else { return Ok(None) };
    let rendered = prompt.render_turns(&messages)?;
    let Some(said) = rendered.rfind(SAID) else { return Ok(None) };
    let after = tokenizer.encode(&rendered[said + SAID.len()..], false)?.ids;
    Ok(after.into_iter().find(|id| tokenizer.is_special(*id)))
}

/// The text that a chat template writes between the closing tag and the answer; None if it writes no thought.
fn before_answer(prompt: &PromptTemplate) -> Result<Option<String>> {
    let PromptTemplate::Chat { .. } = prompt else { return Ok(None) };
    let assistant = json!({ "role": "assistant", "content": SAID, "reasoning_content": THOUGHT });
    let rendered = match prompt.render_turns(&[json!({ "role": "user", "content": "?" }), assistant]) {
        Ok(rendered) => rendered,
        // The template does not support reasoning.
        Err(LmError::Prompt(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(said) = rendered.rfind(SAID) else { return Ok(None) };
    let between = rendered[..said].rfind(CLOSING).map(|tag| &rendered[tag + CLOSING.len()..said]);
    Ok(between.filter(|between| between.trim().is_empty()).map(str::to_string))
}

fn end_of_text(folder: &Path, tokenizer: &Tokenizer) -> Result<u32> {
    if let Some(id) = named_token(folder, tokenizer, "eos_token")? {
        return Ok(id);
    }
    let path = folder.join("config.json");
    let numbered = match &read_json(&path)?["eos_token_id"] {
        Value::Array(ids) => ids.first().and_then(Value::as_u64),
        id => id.as_u64(),
    };
    let none = "found no end-of-text token: expected eos_token_id, or eos_token in tokenizer_config.json, or a chat \
                template that writes a special token after an assistant's turn";
    numbered.and_then(|id| u32::try_from(id).ok()).ok_or_else(|| LmError::unsupported(&path, none))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    /// Like R1-Distill: the generation prompt opens the chain, and an assistant's turn loses its own.
    const OPENS: &str = "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}<|im_start|>\
        {{ message['content'] }}{% else %}{{ message['content'].split('</think>')[-1] }}<|im_end|>{% endif %}{% endfor %}\
        {% if add_generation_prompt %}[bot]<think>\n{% endif %}";
    /// Like Qwen3: the assistant opens the chain, and turns end in a line end.
    const LEAVES_OPEN: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n\
        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

    const ROW: [&str; 3] = ["What is 2 + 2?", "2 and 2 is 4.\n\nSo 4.", "It is 4."];

    /// A model folder with the golden tokenizer and these two configs.
    fn folder(tokenizer_config: &Value, config: &Value) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(golden("qwen2").join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), tokenizer_config.to_string()).unwrap();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        folder
    }

    /// The tokenizer and the template of a model with this config.
    fn load(tokenizer_config: &Value) -> (Tokenizer, ExampleTemplate) {
        let folder = folder(tokenizer_config, &json!({ "eos_token_id": [1700, 1702] }));
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        let template = ExampleTemplate::load(folder.path(), None, &tokenizer).unwrap();
        (tokenizer, template)
    }

    fn whole((tokenizer, template): &(Tokenizer, ExampleTemplate), asked: Asked, texts: [&str; 2]) -> Example {
        match template.encode(tokenizer, asked, texts, 1_000, Long::Drop).unwrap() {
            Encoded::Whole(example) => example,
            other => panic!("{other:?}"),
        }
    }

    fn plain(tokenizer: &Tokenizer, ids: &[u32]) -> String {
        ids.iter().map(|id| tokenizer.decode(&[*id]).unwrap()).collect()
    }

    fn texts(tokenizer_config: &Value, [question, cot, answer]: [&str; 3]) -> (String, String, u32) {
        let loaded = load(tokenizer_config);
        let example = whole(&loaded, question.into(), [cot, answer]);
        let (end, learned) = example.response().split_last().unwrap();
        assert_eq!(*end, loaded.1.end);
        (plain(&loaded.0, &example.ids[..example.prompt]), plain(&loaded.0, learned), *end)
    }

    #[test]
    fn the_chain_and_the_end_are_learned_and_nothing_else() {
        let opens = json!({ "chat_template": OPENS, "bos_token": null, "eos_token": "<|endoftext|>" });
        let (prompt, learned, end) = texts(&opens, ROW);
        assert_eq!(prompt, "What is 2 + 2?[bot]<think>\n");
        assert_eq!(learned, "2 and 2 is 4.\n\nSo 4.\n</think>\n\nIt is 4.");
        // The token that the template writes after a turn takes precedence over eos_token.
        assert_eq!(end, 1702);
        let keeps = |config: &Value| load(config).1.keeps_chain(ROW[0].into(), [ROW[1], ROW[2]]);
        assert_eq!(keeps(&opens), Some(false));
        assert_eq!(keeps(&json!({ "chat_template": LEAVES_OPEN })), Some(true));
        assert_eq!(keeps(&json!({ "eos_token": "<|endoftext|>" })), None);

        let (prompt, learned, end) = texts(&json!({ "chat_template": LEAVES_OPEN, "eos_token": "<|endoftext|>" }), ROW);
        assert_eq!(prompt, "user\nWhat is 2 + 2?\nassistant\n");
        assert_eq!(learned, "<think>\n2 and 2 is 4.\n\nSo 4.\n</think>\n\nIt is 4.");
        assert_eq!(end, 1702);

        let half_open = OPENS.replace("<think>\n", "<think>");
        let (prompt, learned, _) = texts(&json!({ "chat_template": half_open }), ROW);
        assert!(prompt.ends_with("<think>") && learned.starts_with("\n2 and 2"), "{prompt}|{learned}");

        // A question that ends in a tag does not open the chain.
        let (_, learned, _) = texts(&json!({ "chat_template": LEAVES_OPEN }), ["<think>\n", ROW[1], ROW[2]]);
        assert!(learned.starts_with("<think>\n2 and 2"), "{learned}");
    }

    #[test]
    fn what_stands_between_chain_and_answer_is_what_the_template_writes() {
        // Like Qwen3, with any number of line ends, and like DeepSeek-V3.1, with none.
        let writes = |between: &str| {
            LEAVES_OPEN.replace("{{ message['content'] }}", &format!(
                "{{% if message.reasoning_content is defined %}}<think>\n{{{{ message.reasoning_content }}}}\n</think>{between}\
                 {{% endif %}}{{{{ message['content'] }}}}"
            ))
        };
        for (template, between) in [
            (writes("\n\n"), "\n\n"),
            (writes("\n"), "\n"),
            (writes(""), ""),
            // The template does not write thoughts of other assistants.
            (OPENS.to_string(), "\n\n"),
            (LEAVES_OPEN.to_string(), "\n\n"),
            (writes("<answer>"), "\n\n"),
        ] {
            let (_, learned, _) = texts(&json!({ "chat_template": template }), ROW);
            assert!(learned.ends_with(&format!("So 4.\n</think>{between}It is 4.")), "{template}|{learned}");
        }
    }

    #[test]
    fn a_thought_that_a_template_closes_unless_it_is_asked_to_think_is_opened_once() {
        let template = |variable: &str, thinks: &str, closes: &str| {
            LEAVES_OPEN.replace("assistant\n{% endif %}", &format!(
                "assistant\n{{% if {variable} is defined and {variable} %}}{thinks}{{% else %}}{closes}{{% endif %}}{{% endif %}}"
            ))
        };
        for (template, opened) in [
            (template("enable_thinking", "", "<think>\n\n</think>\n\n"), false),
            (template("thinking", "<think>", "</think>"), true),
            (template("never", "", "<think>\n\n</think>\n\n"), false),
            (template("never", "", "</think>"), false),
        ] {
            let (prompt, learned, _) = texts(&json!({ "chat_template": template }), ROW);
            assert_eq!(prompt, ["user\nWhat is 2 + 2?\nassistant\n", if opened { "<think>" } else { "" }].concat());
            let all = prompt + &learned;
            assert_eq!((all.matches("<think>").count(), all.matches("</think>").count()), (1, 1), "{all}");
            let folder = folder(&json!({ "chat_template": template }), &json!({}));
            let scored = PromptTemplate::load(folder.path(), None).unwrap().render("q".into()).unwrap();
            assert!(scored.ends_with("assistant\n<think>\n") && !scored.contains("</think>"), "{scored}");
        }
    }

    #[test]
    fn without_a_template_the_end_is_the_one_that_is_named() {
        let (prompt, _, end) = texts(&json!({ "eos_token": { "content": "<|im_end|>" } }), ROW);
        assert_eq!((prompt.as_str(), end), ("What is 2 + 2?\n<think>\n", 1702));
        assert_eq!(texts(&json!({}), ROW).2, 1700);
        let nothing = folder(&json!({}), &json!({}));
        let tokenizer = Tokenizer::load(nothing.path()).unwrap();
        let error = ExampleTemplate::load(nothing.path(), None, &tokenizer).unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("eos_token_id"), "{error}");
    }

    #[test]
    fn a_system_prompt_is_part_of_the_prompt() {
        for (config, expected) in [
            (json!({ "chat_template": LEAVES_OPEN }), "system\nBe brief.\nuser\n2?\nassistant\n"),
            (json!({ "eos_token": "<|im_end|>" }), "Be brief.\n\n2?\n<think>\n"),
        ] {
            let loaded = load(&config);
            let example = whole(&loaded, Asked { system: Some("Be brief."), question: "2?" }, ["a", "4"]);
            assert_eq!(plain(&loaded.0, &example.ids[..example.prompt]), expected);
        }
    }

    #[test]
    fn no_token_reaches_from_the_prompt_into_the_response() {
        let loaded = load(&json!({ "chat_template": OPENS }));
        // An empty chain: tokenized together, the two line ends would be one token, which generation never sees.
        let example = whole(&loaded, "2?".into(), ["", "4"]);
        let (tokenizer, template) = loaded;
        let prompt = tokenizer.encode("<|im_start|>2?[bot]<think>\n", false).unwrap().ids;
        let response = tokenizer.encode("\n</think>\n\n4", false).unwrap().ids;
        assert_eq!(example.ids, [prompt.clone(), response, vec![template.end]].concat());
        assert_eq!(example.prompt, prompt.len());
    }

    #[test]
    fn what_is_too_long_is_left_out_or_cut_but_never_to_nothing() {
        let loaded = load(&json!({ "chat_template": OPENS }));
        let [question, cot, answer] = ROW;
        let encode = |most, long| loaded.1.encode(&loaded.0, question.into(), [cot, answer], most, long).unwrap();
        let whole = whole(&loaded, question.into(), [cot, answer]);
        let (all, prompt) = (whole.ids.len(), whole.prompt);
        assert_eq!(encode(all, Long::Drop), Encoded::Whole(whole.clone()));
        assert_eq!(encode(all - 1, Long::Drop), Encoded::TooLong(all));
        for most in prompt + 1..all {
            let cut = Example { ids: whole.ids[..most].to_vec(), prompt };
            assert_eq!(encode(most, Long::Cut), Encoded::Cut(cut));
        }
        assert_eq!(encode(prompt, Long::Cut), Encoded::TooLong(all));
    }
}
