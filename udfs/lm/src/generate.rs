//! Text by a local model: the prompt in one pass, then a token at a time, each after the keys and values of those before.

use std::path::Path;
use std::sync::Arc;

use super::decoder::Decoder;
use super::layer::IsWanted;
use super::output::Output;
use super::pass::KvCache;
use super::sampling::{GenerationConfig, Sampler, Sampling};
use super::{LmError, Message, PromptTemplate, Result, Tokenizer};
use crate::memo::{Memo, Memory, share};

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
    config: GenerationConfig,
    /// Prompts that samples were drawn for: more of them may be asked for.
    read: Memo<Vec<u32>, ReadPrompt>,
}

/// A prompt that has gone through the model.
#[derive(Debug, Clone)]
struct ReadPrompt {
    /// Of the token that follows it.
    logits: Vec<f32>,
    kv_cache: KvCache,
}

impl Generator {
    /// Loads a folder in Hugging Face's layout. Prompts are remembered within `memory`.
    ///
    /// # Errors
    /// If a file is missing or is not what it should be.
    pub fn load(folder: &Path, memory: &Arc<Memory>) -> Result<Self> {
        let decoder = Decoder::load(folder)?;
        let output = Output::new(decoder.weights.output().clone());
        let tokenizer = Arc::new(Tokenizer::load_within(folder, memory)?);
        let prompt = PromptTemplate::load(folder, None)?;
        let config = GenerationConfig::load(folder, &tokenizer)?;
        Ok(Self { decoder, output, tokenizer, prompt, config, read: Memo::new(memory, share::PROMPTS) })
    }

    /// Answers a conversation; None as soon as `is_wanted` says that nobody waits for the answer.
    ///
    /// # Errors
    /// [`LmError::TooLong`] if the conversation fills the model's window; if template, tokenizer or model fails.
    pub fn answer(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        is_wanted: &IsWanted,
    ) -> Result<Option<Generated>> {
        let text = self.prompt.render_messages(messages)?;
        let prompt = self.tokenizer.encode(&text, self.prompt.adds_special())?.ids;
        let Some((mut ids, finish)) = self.continue_ids(&prompt, sampling, is_wanted)? else { return Ok(None) };
        let tokens_out = ids.len();
        if finish == Finish::Stop {
            ids.pop();
        }
        Ok(Some(Generated { text: self.tokenizer.decode(&ids)?, tokens_in: prompt.len(), tokens_out, finish }))
    }

    /// The tokens that follow `prompt`, with the one that ended them.
    fn continue_ids(
        &mut self,
        prompt: &[u32],
        sampling: Sampling,
        is_wanted: &IsWanted,
    ) -> Result<Option<(Vec<u32>, Finish)>> {
        let window = self.decoder.config.max_position_embeddings;
        if prompt.is_empty() || prompt.len() >= window {
            return Err(LmError::TooLong { tokens: prompt.len(), window });
        }
        let most = sampling.max_tokens.min(window - prompt.len());
        let table = self.decoder.rope_table(prompt.len() + most);
        let mut sampler = Sampler::new(sampling, self.config.clone(), prompt);
        let (mut logits, mut kv_cache) = match self.read(prompt, sampling, is_wanted) {
            Ok(ReadPrompt { logits, kv_cache }) => (logits, kv_cache),
            Err(LmError::Abandoned) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut ids = Vec::new();
        while is_wanted() && ids.len() < most {
            let id = sampler.next(&mut logits);
            ids.push(id);
            if self.config.ends.contains(&id) {
                return Ok(Some((ids, Finish::Stop)));
            }
            if ids.len() < most {
                logits = self.output.logits(&self.decoder.next(id, &mut kv_cache, &table)?)?;
            }
        }
        Ok((ids.len() == most).then_some((ids, Finish::Length)))
    }

    /// Puts a prompt through the model, unless that was done for an earlier sample.
    fn read(&mut self, prompt: &[u32], sampling: Sampling, is_wanted: &IsWanted) -> Result<ReadPrompt> {
        if let Some(read) = self.read.get(&prompt.to_vec()) {
            return Ok(ReadPrompt::clone(&read));
        }
        let (hidden, kv_cache) = self.decoder.prefill(prompt, is_wanted)?;
        let logits = self.output.logits(&hidden.narrow(0, prompt.len() - 1, 1)?)?;
        let read = ReadPrompt { logits, kv_cache };
        if sampling.temperature > 0.0 {
            let config = &self.decoder.config;
            let floats = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim;
            let bytes = prompt.len() * (floats + 1) * size_of::<f32>();
            self.read.insert(prompt.to_vec(), Arc::new(read.clone()), bytes);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing::{chains, golden};

    const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0, max_tokens: 24 };

    fn answer(generator: &mut Generator, messages: &[Message], sampling: Sampling) -> Generated {
        generator.answer(messages, sampling, &|| true).unwrap().unwrap()
    }

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
            let (_, mut before) = decoder.prefill(&ids[..first], &|| true).unwrap();
            for (place, id) in ids.iter().enumerate().skip(first) {
                let hidden = decoder.next(*id, &mut before, &table).unwrap();
                let found = output.logits(&hidden).unwrap();
                let expected = output.logits(&whole.narrow(0, place, 1).unwrap()).unwrap();
                let furthest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(furthest < 1e-4, "{model}, token {place}: {furthest}");
            }
        }
    }

    /// A line of `tests/goldens/greedy_*.jsonl` and `penalised_*.jsonl`.
    #[derive(serde::Deserialize)]
    struct Greedy {
        prompt: String,
        /// The tokens that follow it.
        ids: Vec<u32>,
    }

    fn assert_follows(generator: &mut Generator, file: &str, max_tokens: usize) {
        let goldens = std::fs::read_to_string(golden(file)).unwrap();
        for line in goldens.lines() {
            let greedy: Greedy = serde_json::from_str(line).unwrap();
            let prompt = generator.tokenizer.encode(&greedy.prompt, true).unwrap().ids;
            let sampling = Sampling { max_tokens, ..GREEDY };
            let (ids, _) = generator.continue_ids(&prompt, sampling, &|| true).unwrap().unwrap();
            assert_eq!(ids, greedy.ids, "{file} {}", greedy.prompt);
        }
    }

    #[test]
    fn greedy_answers_agree_with_transformers() {
        for model in ["qwen2", "llama"] {
            let mut generator = Generator::load(&golden(model), &Arc::default()).unwrap();
            assert_follows(&mut generator, &format!("greedy_{model}.jsonl"), 32);
            generator.config.repetition_penalty = 1.3;
            generator.config.length_penalty = Some((12, 1.2));
            assert_follows(&mut generator, &format!("penalised_{model}.jsonl"), 64);
        }
    }

    #[test]
    fn a_seed_fixes_what_is_drawn() {
        let mut generator = Generator::load(&golden("qwen2"), &Arc::default()).unwrap();
        let messages = [Message { role: "user", content: "What is 17 + 25?" }];
        let mut drawn = |seed, temperature, top_p| {
            let sampling = Sampling { temperature, top_p, seed, ..GREEDY };
            answer(&mut generator, &messages, sampling)
        };
        assert_eq!(drawn(1, 1.0, 1.0), drawn(1, 1.0, 1.0));
        assert_ne!(drawn(1, 1.0, 1.0), drawn(2, 1.0, 1.0));
        // The most likely token alone makes up any nucleus of no probability.
        let nearly_greedy = drawn(3, 1.0, 0.0);
        let greedy = answer(&mut generator, &messages, GREEDY);
        assert_eq!(nearly_greedy, greedy);
        assert!(greedy.tokens_out <= 24 && greedy.tokens_in > 0);
    }

    #[test]
    fn a_prompt_is_read_once_for_all_its_samples() {
        let messages = [Message { role: "user", content: "What is 17 + 25?" }];
        let sampling = |seed| Sampling { temperature: 1.0, seed, ..GREEDY };
        let fresh =
            |seed| answer(&mut Generator::load(&golden("qwen2"), &Arc::default()).unwrap(), &messages, sampling(seed));
        let mut generator = Generator::load(&golden("qwen2"), &Arc::default()).unwrap();
        for seed in 1..4 {
            assert_eq!(answer(&mut generator, &messages, sampling(seed)), fresh(seed));
        }
        // A row of the output layer for each token, and one for the prompt: the prompt's is there once.
        let tokens = (1..4).map(|seed| fresh(seed).tokens_out as u64 - 1).sum::<u64>();
        assert_eq!(generator.output.rows().load(Ordering::Relaxed), tokens + 1);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_not_finished() {
        let mut generator = Generator::load(&golden("qwen2"), &Arc::default()).unwrap();
        let messages = [Message { role: "user", content: "What is 17 + 25?" }];
        // The prompt is read in two blocks a layer, and then it is asked before each token.
        let blocks = 2 * generator.decoder.config.num_hidden_layers;
        for enough in [blocks - 1, blocks + 2] {
            let asked = AtomicUsize::new(0);
            let is_wanted = || asked.fetch_add(1, Ordering::Relaxed) < enough;
            assert_eq!(generator.answer(&messages, GREEDY, &is_wanted).unwrap(), None);
            assert_eq!(asked.into_inner(), enough + 1);
        }
    }

    #[test]
    fn the_end_token_ends_an_answer_and_is_not_in_its_text() {
        let mut generator = Generator::load(&golden("llama"), &Arc::default()).unwrap();
        assert_eq!(generator.config.ends, [1999]);
        let messages = [Message { role: "user", content: "What is 17 + 25?" }];
        let text = generator.prompt.render_messages(&messages).unwrap();
        let prompt = generator.tokenizer.encode(&text, true).unwrap().ids;
        let (ids, _) = generator.continue_ids(&prompt, GREEDY, &|| true).unwrap().unwrap();
        generator.config.ends = vec![ids[5]];
        let length = ids.iter().position(|id| *id == ids[5]).unwrap() + 1;
        let whole = answer(&mut generator, &messages, GREEDY);
        assert_eq!((whole.tokens_out, whole.finish), (length, Finish::Stop));
        assert_eq!(whole.text, generator.tokenizer.decode(&ids[..length - 1]).unwrap());
        let cut = answer(&mut generator, &messages, Sampling { max_tokens: 1, ..GREEDY });
        assert_eq!((cut.tokens_out, cut.finish == Finish::Length), (1, length > 1));
    }

    #[test]
    fn a_conversation_that_fills_the_window_says_so_in_numbers() {
        let mut generator = Generator::load(&golden("qwen2"), &Arc::default()).unwrap();
        let long = "7 ".repeat(5000);
        let messages = [Message { role: "user", content: &long }];
        let error = generator.answer(&messages, GREEDY, &|| true).unwrap_err().to_string();
        assert!(error.contains("tokens with the chat template, the model's window is 4096"), "{error}");
    }
}
