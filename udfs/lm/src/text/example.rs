//! Turns rows into training examples.

mod conversation;

use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use asap_kernels::tags;
use serde_json::{Value, json};

use conversation::Thinks;

use crate::text::prompt::{Asked, PromptTemplate, named_token, read_json};
use crate::{LmError, Result, Tokenizer};

pub use conversation::{Conversation, Thought, tools_of_openai};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Example {
    pub ids: Vec<u32>,
    /// Places of the tokens to learn, in ascending ranges: one for each learned piece of the response. The first token
    /// is not among them, since no token predicts it.
    pub learned: Vec<Range<usize>>,
}

/// Label of a token that is not learned; PyTorch's cross-entropy ignores it.
const IGNORED: i32 = -100;

impl Example {
    /// An example that teaches all tokens after the first `prompt`.
    pub fn new(ids: Vec<u32>, prompt: usize) -> Self {
        let learned = std::iter::once(prompt..ids.len()).collect();
        Self { ids, learned }
    }

    /// The places of the tokens to learn.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.learned.iter().cloned().flatten()
    }

    /// The number of tokens to learn.
    pub fn learned_tokens(&self) -> usize {
        self.learned.iter().map(ExactSizeIterator::len).sum()
    }

    /// This example with at most `max_length` tokens.
    fn fitted(mut self, max_length: usize, long: Long) -> Encoded {
        let tokens = self.ids.len();
        if tokens <= max_length {
            return Encoded::Whole(self);
        }
        self.ids.truncate(max_length);
        self.learned.retain(|own| own.start < own.end.min(max_length));
        match self.learned.last_mut().filter(|_| long == Long::Cut) {
            Some(last) => last.end = last.end.min(max_length),
            None => return Encoded::TooLong(tokens),
        }
        Encoded::Cut(self)
    }

    /// The token ids in the type that trainers read.
    pub fn input_ids(&self) -> impl Iterator<Item = i32> {
        self.ids.iter().map(|id| *id as i32)
    }

    /// The label of each token: its id if it is learned, otherwise -100.
    pub fn labels(&self) -> impl Iterator<Item = i32> {
        let mut learned = self.learned.iter().peekable();
        self.input_ids().enumerate().map(move |(place, id)| {
            while learned.next_if(|range| range.end <= place).is_some() {}
            if learned.peek().is_some_and(|range| range.start <= place) { id } else { IGNORED }
        })
    }
}

/// What follows the question of an example.
#[derive(Debug, Clone)]
pub struct Response<'a> {
    pub cot: &'a str,
    pub answer: &'a str,
    /// The bytes of `cot` that each step spans, and whether the step is learned. None: the whole chain is learned.
    pub steps: Option<Vec<(Range<usize>, bool)>>,
}

impl<'a> From<[&'a str; 2]> for Response<'a> {
    fn from([cot, answer]: [&'a str; 2]) -> Self {
        Self { cot, answer, steps: None }
    }
}

impl Response<'_> {
    /// The pieces of this response after `opening`, in a text of `length` bytes, and whether each is learned. Line
    /// breaks between pieces belong to none.
    fn pieces(&self, opening: &str, length: usize) -> Vec<(Range<usize>, bool)> {
        let begin = opening.len();
        let Some(steps) = &self.steps else { return vec![(0..length, true)] };
        let steps = steps.iter().map(|(span, learned)| (begin + span.start..begin + span.end, *learned));
        let closing = (begin + self.cot.len() + 1..length, true);
        let tag = (begin > 0).then_some((0..begin, true));
        tag.into_iter().chain(steps).chain([closing]).collect()
    }
}

/// The tokens of each piece; the end token belongs to the last one. A token belongs to the last piece of which it covers
/// a character. A token that covers only what separates two pieces belongs to the second.
fn tokens_of(pieces: &[(Range<usize>, bool)], offsets: &[(u32, u32)]) -> Vec<Range<usize>> {
    let mut end = 0;
    let tokens = |(number, (own, _)): (usize, &(Range<usize>, bool))| {
        let begin = end;
        match pieces.get(number + 1) {
            Some((next, _)) => {
                let is_own = |(from, to): &&(u32, u32)| (*from as usize) < own.end && *to as usize <= next.start;
                end += offsets[begin..].iter().take_while(is_own).count();
            }
            None => end = offsets.len() + 1,
        }
        begin..end
    };
    pieces.iter().enumerate().map(tokens).collect()
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

/// A row as one example, or as several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoded<E = Example> {
    Whole(E),
    /// The row truncated to `max_length`.
    Cut(E),
    /// The row was dropped; it has this many tokens.
    TooLong(usize),
}

impl<E> Encoded<E> {
    pub fn map<T>(self, change: impl FnOnce(E) -> T) -> Encoded<T> {
        match self {
            Self::Whole(example) => Encoded::Whole(change(example)),
            Self::Cut(example) => Encoded::Cut(change(example)),
            Self::TooLong(tokens) => Encoded::TooLong(tokens),
        }
    }
}

/// Turns rows of a corpus into examples for one model.
///
/// The question is the user's turn in the model's chat template, after its system prompt and before the generation
/// prompt. The response is what the model should generate from there: the opening think tag unless the template writes
/// it, the chain, the closing tag, the answer and the end-of-turn token. Prompt and response are tokenized separately,
/// as in generation: no token spans both. If only some steps of the chain are learned, the others stay as context.
#[derive(Debug)]
pub struct ExampleTemplate {
    prompt: PromptTemplate,
    /// The token that ends an example.
    pub end: u32,
    before_answer: String,
    thinks: Thinks,
    is_reported: AtomicBool,
}

/// Markers for an assistant's answer and thought, to inspect a template.
const SAID: &str = "asap-said-this";
const THOUGHT: &str = "asap-thought-this";
const OPENING: &str = "<think>";
const OPENING_LINE: &str = "<think>\n";
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
        let thinks = Thinks::of(&prompt, &before_answer);
        Ok(Self { prompt, end, before_answer, thinks, is_reported: AtomicBool::new(false) })
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
        response: &Response,
        max_length: usize,
        long: Long,
    ) -> Result<Encoded> {
        let prompt = self.prompt.render_generation(asked)?;
        let opening = opening(&prompt);
        let text = [opening, &tags::continuation(response.cot, &self.before_answer, response.answer)].concat();
        let mut ids = tokenizer.encode(&prompt, self.prompt.adds_special())?.ids;
        let encoded = tokenizer.encode(&text, false)?;
        let pieces = response.pieces(opening, text.len());
        let tokens = tokens_of(&pieces, &encoded.offsets).into_iter().zip(&pieces);
        // A token without a preceding token cannot be learned.
        let place = |token: usize| (ids.len() + token).max(1);
        let learned: Vec<Range<usize>> = tokens
            .filter(|(_, (_, is_learned))| *is_learned)
            .map(|(own, _)| place(own.start)..place(own.end))
            .collect();
        ids.extend(encoded.ids);
        ids.push(self.end);
        Ok(Example { ids, learned }.fitted(max_length, long))
    }
}

/// What opens a thought after a prompt.
fn opening(prompt: &str) -> &'static str {
    let opened = prompt.rfind(OPENING).map(|tag| &prompt[tag + OPENING.len()..]);
    match opened.filter(|after| after.trim().is_empty()) {
        Some("") => "\n",
        Some(_) => "",
        None => OPENING_LINE,
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
    use asap_kernels::steps::Separator;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::testing::{cases, chains, golden, golden_tokenizer, sentence_piece, tokenizer};

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
            let found = template.encode(&tokenizer, asked, &row.into(), 1_000, Long::Drop).unwrap();
            // No token reaches from the prompt into the response.
            let [prompt, learned] = [prompt, learned].map(|text| tokenizer.encode(text, false).unwrap().ids);
            let example = Example::new([&prompt, &learned, [*end].as_slice()].concat(), prompt.len());
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
        let row = Response::from(["It is 4.", "4"]);
        let encode = |most, long| template.encode(&tokenizer, "2 + 2?".into(), &row, most, long).unwrap();
        let Encoded::Whole(whole) = encode(1_000, Long::Drop) else { panic!("expected a whole example") };
        let (all, prompt) = (whole.ids.len(), whole.learned[0].start);
        assert_eq!(encode(all, Long::Drop), Encoded::Whole(whole.clone()));
        assert_eq!(encode(all - 1, Long::Drop), Encoded::TooLong(all));
        for most in prompt + 1..all {
            let cut = Example::new(whole.ids[..most].to_vec(), prompt);
            assert_eq!(encode(most, Long::Cut), Encoded::Cut(cut));
        }
        assert_eq!(encode(prompt, Long::Cut), Encoded::TooLong(all));
    }

    /// A chain, and its steps with whether they are kept.
    type MaskedRow = (String, Vec<(Range<usize>, bool)>);

    /// Random choices of steps: of chains with code, of steps that begin within a token, of texts that change.
    fn masked_rows(draw: &mut StdRng) -> Vec<MaskedRow> {
        let mut chains: Vec<String> = chains("qwen2").iter().map(|chain| chain.steps.join("\n\n")).collect();
        chains.extend(
            [
                "First.\n\n```py\nx = [1,\n\n     2]\n```\n\n    y = 3\n\nDone.  ",
                "(a)\n\n\n\n(b)\r\n\r\n½ é e\u{301}\n\n🙂🙂\n\n   所以\n \n\n.",
                "\n\nOnly one step, after blank lines",
                "",
            ]
            .map(str::to_string),
        );
        let mut rows = Vec::new();
        while rows.len() < 350 {
            let chain = &chains[rows.len() % chains.len()];
            let mut spans = [Separator::BlankLine, Separator::Line][rows.len() % 2].spans(chain);
            if rows.len() % 3 == 0 {
                // Steps that begin and end anywhere.
                let mut cuts: Vec<usize> = (0..9).map(|_| draw.random_range(0..=chain.len())).collect();
                cuts.iter_mut().for_each(|cut| *cut = chain.ceil_char_boundary(*cut));
                cuts.sort_unstable();
                cuts.dedup();
                spans = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
            }
            let steps: Vec<_> = spans.into_iter().map(|span| (span, draw.random_bool(0.5))).collect();
            rows.push((chain.clone(), steps));
        }
        rows
    }

    /// Each token of 1,050 examples, by the bytes that it covers. Of at least 1,000, what is decoded before and up to the end of
    /// each learned piece, too: the learned text is its bytes.
    #[test]
    fn of_a_chain_with_masked_steps_the_kept_ones_are_learned() {
        let (mut draw, mut exact) = (StdRng::seed_from_u64(5), 0);
        let mut llama_2 = sentence_piece();
        llama_2["decoder"] = json!({ "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }, { "type": "ByteFallback" },
            { "type": "Fuse" }, { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
        ] });
        for json in [golden_tokenizer("qwen2"), golden_tokenizer("llama"), llama_2] {
            let tokenizer = tokenizer(&json);
            let template = ExampleTemplate {
                prompt: PromptTemplate::Plain("{question}".to_string()),
                end: 1,
                before_answer: "\n".to_string(),
                thinks: Thinks::default(),
                is_reported: AtomicBool::new(false),
            };
            for (chain, steps) in masked_rows(&mut draw) {
                let row = Response { cot: &chain, answer: "4", steps: Some(steps.clone()) };
                let found = template.encode(&tokenizer, "Why?".into(), &row, usize::MAX, Long::Drop).unwrap();
                let Encoded::Whole(example) = found else { panic!("expected a whole example") };
                let text = format!("<think>\n{chain}\n</think>\n4");
                let tokens = tokenizer.encode(&text, false).unwrap();
                let prompt = example.ids.len() - tokens.ids.len() - 1;
                let labels: Vec<i32> = example.labels().collect();
                // The piece of each byte: tags and answer are learned, and blank lines belong to none.
                let mut owners = vec![None; text.len()];
                owners[..8].fill(Some((0, true)));
                owners[8 + chain.len() + 1..].fill(Some((steps.len() + 1, true)));
                for (number, (span, is_kept)) in steps.iter().enumerate() {
                    owners[8 + span.start..8 + span.end].fill(Some((number + 1, *is_kept)));
                }
                for (place, (from, to)) in tokens.offsets.iter().enumerate() {
                    let (from, to) = (*from as usize, *to as usize);
                    let own = owners[from..to].iter().flatten().max();
                    let (_, is_learned) = own.or_else(|| owners[from..].iter().flatten().next()).unwrap();
                    let label = if *is_learned { tokens.ids[place] as i32 } else { IGNORED };
                    assert_eq!(labels[prompt + place], label, "{text:?} {steps:?} {from}..{to}");
                }
                assert_eq!(labels.last(), Some(&1));
                assert!(labels[..prompt].iter().all(|label| *label == IGNORED));
                assert_eq!(example.places().count(), example.learned_tokens());
                // A tokenizer may compose accents.
                let text_of = |tokens_before: usize| tokenizer.text(&tokens.ids[..tokens_before]).unwrap();
                let is_exact = text_of(tokens.ids.len()) == text;
                exact += usize::from(is_exact);
                for own in example.learned.iter().filter(|own| is_exact && !own.is_empty()) {
                    let last = (own.end - prompt).min(tokens.offsets.len()) - 1;
                    let (from, to) = (tokens.offsets[own.start - prompt].0 as usize, tokens.offsets[last].1 as usize);
                    assert_eq!([text_of(own.start - prompt), text_of(last + 1)], [&text[..from], &text[..to]]);
                }
            }
        }
        assert!(exact >= 1_000, "{exact}");
    }

    /// What a model learns of a chain whose tokens end with its steps.
    #[test]
    fn learned_tokens_decode_to_the_kept_steps() {
        let (tokenizer, template) = load(&json!({ "eos_token": "<|im_end|>" }), &json!({})).unwrap();
        let learned = |chain: &str, kept: &[bool]| {
            let steps = Separator::BlankLine.spans(chain).into_iter().zip(kept.iter().copied()).collect();
            let row = Response { cot: chain, answer: "4", steps: Some(steps) };
            let found = template.encode(&tokenizer, "2 + 2?".into(), &row, 1_000, Long::Drop).unwrap();
            let Encoded::Whole(Example { ids, learned }) = found else { panic!("expected a whole example") };
            learned.into_iter().map(|own| tokenizer.text(&ids[own]).unwrap()).collect::<Vec<_>>()
        };
        let found = learned("Well a\n\nNow b\n\nThen c\n\nSo d", &[true, false, true, true]);
        let end = "\n</think>\n\n4<|im_end|>";
        assert_eq!(found, ["Well a", "\n\nThen c", "\n\nSo d", end]);
        assert_eq!(learned("Well a\n\nNow b", &[false, false]), [end]);
        assert_eq!(learned("", &[]), [end]);
    }
}
