//! Turns rows into training examples.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use asap_kernels::tags;
use serde_json::{Value, json};

use crate::text::prompt::{Asked, PromptTemplate, named_token, read_json};
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
        f.write_str(&format!("{self:?}").to_lowercase())
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
    is_reported: AtomicBool,
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
        Ok(Self { prompt, end, before_answer, is_reported: AtomicBool::new(false) })
    }

    /// Returns whether the chat template keeps the chain of a row: what a trainer learns from the row's messages if it
    /// applies the template itself. None if the model has no chat template, or if the template rejects the row.
    pub fn keeps_chain(&self, Asked { system, question }: Asked, [cot, answer]: [&str; 2]) -> Option<bool> {
        let PromptTemplate::Chat(_) = self.prompt else { return None };
        let said = format!("{OPENING}\n{}", tags::continuation(cot, tags::BEFORE_ANSWER, answer));
        let turn = |role: &str, content: &str| json!({ "role": role, "content": content });
        let system = system.map(|system| turn("system", system));
        let turns: Vec<Value> = system.into_iter().chain([turn("user", question), turn("assistant", &said)]).collect();
        Some(self.prompt.render_turns(&turns).ok()?.contains(cot.trim()))
    }

    /// Whether the chat template prints nothing of a system prompt, so that no model reads it.
    pub fn drops_system(&self) -> bool {
        self.prompt.drops_system()
    }

    /// Whether this is the first row whose system prompt the chat template does not print, so that a caller without a
    /// count reports it once.
    pub fn drops_first_system(&self, asked: Asked) -> bool {
        asked.system.is_some() && self.drops_system() && !self.is_reported.swap(true, Ordering::Relaxed)
    }

    /// Encodes a row to at most `max_length` tokens.
    ///
    /// # Errors
    /// [`LmError::Prompt`] as [`PromptTemplate::render`], and if the tokenizer fails.
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

/// The first special token that a chat template writes after an assistant's answer; None if it writes no answer.
fn end_of_turn(prompt: &PromptTemplate, tokenizer: &Tokenizer) -> Result<Option<u32>> {
    let Some(rendered) = answered(prompt, json!({ "role": "assistant", "content": SAID }))? else { return Ok(None) };
    let Some(said) = rendered.rfind(SAID) else { return Ok(None) };
    let after = tokenizer.encode(&rendered[said + SAID.len()..], false)?.ids;
    Ok(after.into_iter().find(|id| tokenizer.is_special(*id)))
}

/// The text that a chat template writes between the closing tag and the answer; None if it writes no thought.
fn before_answer(prompt: &PromptTemplate) -> Result<Option<String>> {
    let assistant = json!({ "role": "assistant", "content": SAID, "reasoning_content": THOUGHT });
    let Some(rendered) = answered(prompt, assistant)? else { return Ok(None) };
    let Some(said) = rendered.rfind(SAID) else { return Ok(None) };
    let between = rendered[..said].rfind(CLOSING).map(|tag| &rendered[tag + CLOSING.len()..said]);
    Ok(between.filter(|between| between.trim().is_empty()).map(str::to_string))
}

/// A question with an assistant's turn by the chat template; None if it supports no such turn.
fn answered(prompt: &PromptTemplate, assistant: Value) -> Result<Option<String>> {
    let PromptTemplate::Chat(_) = prompt else { return Ok(None) };
    match prompt.render_turns(&[json!({ "role": "user", "content": "?" }), assistant]) {
        Ok(rendered) => Ok(Some(rendered)),
        Err(LmError::Prompt(_)) => Ok(None),
        Err(error) => Err(error),
    }
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
    use crate::testing::{cases, golden};

    /// A line of `tests/examples.jsonl`: a chat template, a row, and what a model learns from the row.
    #[derive(serde::Deserialize)]
    struct Case {
        /// The kind of template or row.
        why: String,
        tokenizer_config: Value,
        system: Option<String>,
        question: String,
        cot: String,
        answer: String,
        prompt: String,
        learned: String,
        end: u32,
        keeps_chain: Option<bool>,
        /// The prompt of the same row for scores.
        scored: Option<String>,
    }

    /// The template of a model with the golden tokenizer and these two configs.
    fn load(tokenizer_config: &Value, config: &Value) -> Result<(Tokenizer, ExampleTemplate)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(golden("qwen2").join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), tokenizer_config.to_string()).unwrap();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let tokenizer = Tokenizer::load(folder.path())?;
        let template = ExampleTemplate::load(folder.path(), None, &tokenizer)?;
        Ok((tokenizer, template))
    }

    #[test]
    fn the_chain_and_the_end_are_learned_and_nothing_else() {
        for case in cases::<Case>("examples.jsonl") {
            let Case { why, question, cot, answer, prompt, learned, end, .. } = &case;
            let (tokenizer, template) = load(&case.tokenizer_config, &json!({ "eos_token_id": [1700, 1702] })).unwrap();
            let (asked, row) = (Asked { system: case.system.as_deref(), question }, [cot.as_str(), answer]);
            let found = template.encode(&tokenizer, asked, row, 1_000, Long::Drop).unwrap();
            // No token reaches from the prompt into the response.
            let [prompt, learned] = [prompt, learned].map(|text| tokenizer.encode(text, false).unwrap().ids);
            let example = Example { prompt: prompt.len(), ids: [prompt, learned, vec![*end]].concat() };
            assert_eq!(found, Encoded::Whole(example), "{why}");
            assert_eq!((template.end, template.keeps_chain(asked, row)), (*end, case.keeps_chain), "{why}");
            if let Some(scored) = &case.scored {
                assert_eq!(template.prompt.render(asked).unwrap(), *scored, "{why}");
            }
        }
        let error = load(&json!({}), &json!({})).unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("eos_token_id"), "{error}");
    }

    #[test]
    fn what_is_too_long_is_left_out_or_cut_but_never_to_nothing() {
        let (tokenizer, template) = load(&json!({ "eos_token": "<|im_end|>" }), &json!({})).unwrap();
        let encode = |most, long| template.encode(&tokenizer, "2 + 2?".into(), ["It is 4.", "4"], most, long).unwrap();
        let Encoded::Whole(whole) = encode(1_000, Long::Drop) else { panic!("expected a whole example") };
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
