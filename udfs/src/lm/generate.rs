//! Text by a local model: the prompt in one pass, then a token at a time, each after the keys and values of those before.

use std::path::Path;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::decoder::Decoder;
use super::output::Output;
use super::prompt::{read_json, special_token};
use super::{LmError, Message, PromptTemplate, Result, Tokenizer};

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// What logits are divided by; at 0 the most likely token is taken, and seed and `top_p` say nothing.
    pub temperature: f64,
    /// Only the most likely tokens that together have this probability are drawn from, from 0 to 1.
    pub top_p: f64,
    /// The same seed gives the same text.
    pub seed: u64,
    /// The most tokens of an answer; the model's window may end it before.
    pub max_tokens: usize,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    Stop,
    /// It has as many tokens as it may have.
    Length,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The text without special tokens.
    pub text: String,
    /// Tokens of the prompt.
    pub tokens_in: usize,
    /// Tokens of the answer, with the one that ended it.
    pub tokens_out: usize,
    /// Why it ended.
    pub finish: Finish,
}

/// A model that answers.
#[derive(Debug)]
pub struct Generator {
    decoder: Decoder,
    output: Output,
    tokenizer: Arc<Tokenizer>,
    prompt: PromptTemplate,
    /// Tokens that end an answer.
    ends: Vec<u32>,
}

impl Generator {
    /// Loads a folder in Hugging Face's layout. Answers end at the `eos_token_id` of generation_config.json, else of
    /// config.json, and at the tokenizer's `eos_token`.
    ///
    /// # Errors
    /// If a file is missing or is not what it should be.
    pub fn load(folder: &Path) -> Result<Self> {
        let decoder = Decoder::load(folder)?;
        let output = Output::new(decoder.weights.output().clone());
        let tokenizer = Arc::new(Tokenizer::load(folder)?);
        let prompt = PromptTemplate::load(folder, None)?;
        let ends = ends(folder, &tokenizer)?;
        Ok(Self { decoder, output, tokenizer, prompt, ends })
    }

    /// Answers a conversation.
    ///
    /// # Errors
    /// [`LmError::TooLong`] if the conversation fills the model's window; if template, tokenizer or model fails.
    pub fn answer(&self, messages: &[Message], sampling: Sampling) -> Result<Generated> {
        let text = self.prompt.render_messages(messages)?;
        let prompt = self.tokenizer.encode(&text, self.prompt.adds_special())?.ids;
        let (mut ids, finish) = self.continue_ids(&prompt, sampling)?;
        let tokens_out = ids.len();
        if finish == Finish::Stop {
            ids.pop();
        }
        Ok(Generated { text: self.tokenizer.decode(&ids)?, tokens_in: prompt.len(), tokens_out, finish })
    }

    /// The tokens that follow `prompt`, with the one that ended them.
    fn continue_ids(&self, prompt: &[u32], sampling: Sampling) -> Result<(Vec<u32>, Finish)> {
        let window = self.decoder.config.max_position_embeddings;
        if prompt.is_empty() || prompt.len() >= window {
            return Err(LmError::TooLong { tokens: prompt.len(), window });
        }
        let most = sampling.max_tokens.min(window - prompt.len());
        let table = self.decoder.rope_table(prompt.len() + most);
        let mut random = ChaCha8Rng::seed_from_u64(sampling.seed);
        let (hidden, mut before) = self.decoder.prefill(prompt)?;
        let mut hidden = hidden.narrow(0, prompt.len() - 1, 1)?;
        let mut ids = Vec::new();
        while ids.len() < most {
            let id = choose(&self.output.logits(&hidden)?, sampling, &mut random);
            ids.push(id);
            if self.ends.contains(&id) {
                return Ok((ids, Finish::Stop));
            }
            if ids.len() < most {
                hidden = self.decoder.next(id, &mut before, &table)?;
            }
        }
        Ok((ids, Finish::Length))
    }
}

/// The tokens that end an answer.
fn ends(folder: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let mut ends = Vec::new();
    for file in ["generation_config.json", "config.json"] {
        let config = read_json(&folder.join(file))?;
        let found = match &config["eos_token_id"] {
            Value::Array(ids) => ids.clone(),
            Value::Null => continue,
            one => vec![one.clone()],
        };
        for id in found {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| LmError::Unsupported {
                path: folder.join(file),
                found: format!("eos_token_id is a token's id or a list of them, found {id}"),
            })?;
            ends.push(id);
        }
        break;
    }
    let config = read_json(&folder.join("tokenizer_config.json"))?;
    ends.extend(special_token(&config["eos_token"]).and_then(|token| tokenizer.id(&token)));
    Ok(ends)
}

/// The next token.
fn choose(logits: &[f32], sampling: Sampling, random: &mut ChaCha8Rng) -> u32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // Of equal logits the first counts as the larger, as argmax takes it.
    let larger_first = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    if sampling.temperature == 0.0 {
        return order.into_iter().min_by(larger_first).unwrap_or_default() as u32;
    }
    order.sort_unstable_by(larger_first);
    let highest = order.first().map_or(0.0, |id| f64::from(logits[*id]));
    let weight = |id: &usize| ((f64::from(logits[*id]) - highest) / sampling.temperature).exp();
    let total: f64 = order.iter().map(weight).sum();
    let mut nucleus = 0.0;
    let mut count = 0;
    while count < order.len() && (count == 0 || nucleus < sampling.top_p * total) {
        nucleus += weight(&order[count]);
        count += 1;
    }
    let mut left = random.random::<f64>() * nucleus;
    for id in &order[..count] {
        left -= weight(id);
        if left < 0.0 {
            return *id as u32;
        }
    }
    order.get(count.saturating_sub(1)).copied().unwrap_or_default() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lm::testing::{chains, golden};

    const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0, max_tokens: 24 };

    #[test]
    fn tokens_one_at_a_time_give_the_logits_of_the_whole_pass() {
        for model in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
            let folder = golden(model);
            let decoder = Decoder::load(&folder).unwrap();
            let output = Output::new(decoder.weights.output().clone());
            let tokenizer = Tokenizer::load(&folder).unwrap();
            let texts: Vec<String> = chains(model).iter().take(4).map(|chain| chain.steps.join("\n\n")).collect();
            // Longer than the keys that attention reads at once.
            let ids = tokenizer.encode(&texts.join("\n\n").repeat(3), true).unwrap().ids;
            let ids = &ids[..ids.len().min(700)];
            let whole = decoder.hidden(ids, &[ids.len()]).unwrap();
            let table = decoder.rope_table(ids.len());
            let first = ids.len().saturating_sub(300).max(1);
            let (_, mut before) = decoder.prefill(&ids[..first]).unwrap();
            for (place, id) in ids.iter().enumerate().skip(first) {
                let hidden = decoder.next(*id, &mut before, &table).unwrap();
                let found = output.logits(&hidden).unwrap();
                let expected = output.logits(&whole.narrow(0, place, 1).unwrap()).unwrap();
                let furthest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(furthest < 1e-4, "{model}, token {place}: {furthest}");
            }
        }
    }

    /// A line of `tests/goldens/greedy_*.jsonl`.
    #[derive(serde::Deserialize)]
    struct Greedy {
        prompt: String,
        /// The tokens that follow it.
        ids: Vec<u32>,
    }

    #[test]
    fn greedy_answers_agree_with_transformers() {
        for model in ["qwen2", "llama"] {
            let generator = Generator::load(&golden(model)).unwrap();
            let goldens = std::fs::read_to_string(golden(&format!("greedy_{model}.jsonl"))).unwrap();
            for line in goldens.lines() {
                let greedy: Greedy = serde_json::from_str(line).unwrap();
                let prompt = generator.tokenizer.encode(&greedy.prompt, true).unwrap().ids;
                let sampling = Sampling { max_tokens: 32, ..GREEDY };
                assert_eq!(
                    generator.continue_ids(&prompt, sampling).unwrap().0,
                    greedy.ids,
                    "{model} {}",
                    greedy.prompt
                );
            }
        }
    }

    #[test]
    fn a_seed_fixes_what_is_drawn() {
        let generator = Generator::load(&golden("qwen2")).unwrap();
        let messages = [Message { role: "user", content: "What is 17 + 25?" }];
        let drawn = |seed, temperature, top_p| {
            let sampling = Sampling { temperature, top_p, seed, ..GREEDY };
            generator.answer(&messages, sampling).unwrap()
        };
        assert_eq!(drawn(1, 1.0, 1.0), drawn(1, 1.0, 1.0));
        assert_ne!(drawn(1, 1.0, 1.0), drawn(2, 1.0, 1.0));
        let greedy = generator.answer(&messages, GREEDY).unwrap();
        // The most likely token alone makes up any nucleus of no probability.
        assert_eq!(drawn(3, 1.0, 0.0), greedy);
        assert!(greedy.tokens_out <= 24 && greedy.tokens_in > 0);
    }

    #[test]
    fn tokens_are_drawn_by_their_probability_within_the_nucleus() {
        let logits = [0.5_f32, 0.3, 0.15, 0.05].map(f32::ln);
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut shares = |top_p| {
            let sampling = Sampling { temperature: 1.0, top_p, ..GREEDY };
            let mut counts = [0.0; 4];
            (0..20_000).for_each(|_| counts[choose(&logits, sampling, &mut random) as usize] += 1.0 / 20_000.0);
            counts
        };
        let near = |found: [f64; 4], expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.02), "{found:?} against {expected:?}");
        };
        near(shares(1.0), [0.5, 0.3, 0.15, 0.05]);
        near(shares(0.7), [0.625, 0.375, 0.0, 0.0]);
        near(shares(0.4), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_end_token_ends_an_answer_and_is_not_in_its_text() {
        let mut generator = Generator::load(&golden("llama")).unwrap();
        assert_eq!(generator.ends, [1999, 1999]);
        let messages = [Message { role: "user", content: "What is 17 + 25?" }];
        let text = generator.prompt.render_messages(&messages).unwrap();
        let prompt = generator.tokenizer.encode(&text, true).unwrap().ids;
        let (ids, _) = generator.continue_ids(&prompt, GREEDY).unwrap();
        generator.ends = vec![ids[5]];
        let length = ids.iter().position(|id| *id == ids[5]).unwrap() + 1;
        let answer = generator.answer(&messages, GREEDY).unwrap();
        assert_eq!((answer.tokens_out, answer.finish), (length, Finish::Stop));
        assert_eq!(answer.text, generator.tokenizer.decode(&ids[..length - 1]).unwrap());
        let cut = generator.answer(&messages, Sampling { max_tokens: 1, ..GREEDY }).unwrap();
        assert_eq!((cut.tokens_out, cut.finish == Finish::Length), (1, length > 1));
    }

    #[test]
    fn a_conversation_that_fills_the_window_says_so_in_numbers() {
        let generator = Generator::load(&golden("qwen2")).unwrap();
        let long = "7 ".repeat(5000);
        let error = generator.answer(&[Message { role: "user", content: &long }], GREEDY).unwrap_err().to_string();
        assert!(error.contains("tokens with the chat template, the model's window is 4096"), "{error}");
    }
}
