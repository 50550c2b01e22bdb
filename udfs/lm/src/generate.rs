//! Text generation with a local model: a prompt in one forward pass, then one token at a time with the KV cache. Many
//! texts are generated in one batch, since reading the weights takes longest.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::config::ModelConfig;
use super::decoder::Decoder;
use super::layer::IsWanted;
use super::ops::{RopeTable, StoredMatrix};
use super::output::Output;
use super::pass::KvCache;
use super::sampling::{GenerationConfig, Sampler, Sampling};
use super::weights::Weights;
use super::{LmError, Message, PromptTemplate, Result, Tokenizer};
use crate::memo::{Memo, Memory, share};

pub(crate) const TEXTS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Text without special tokens.
    pub text: String,
    pub tokens_in: usize,
    /// Number of answer tokens, including the one that ended it.
    pub tokens_out: usize,
    pub finish: Finish,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the question, from 0.
    pub question: u64,
    /// Index of the sample among the answers to this question, from 0.
    pub sample: u64,
}

#[derive(Debug)]
pub struct Generator {
    decoder: Decoder<StoredMatrix>,
    output: Output,
    tokenizer: Arc<Tokenizer>,
    prompt: PromptTemplate,
    config: GenerationConfig,
    table: RopeTable,
    read: Memo<Vec<u32>, ReadPrompt>,
}

#[derive(Debug, Clone)]
struct ReadPrompt {
    logits: Vec<f32>,
    kv_cache: KvCache,
}

#[derive(Debug)]
struct Text {
    sampler: Sampler,
    kv_cache: KvCache,
    tokens_in: usize,
    ids: Vec<u32>,
    most: usize,
    finish: Option<Finish>,
}

impl Text {
    fn take(&mut self, logits: &mut [f32], ends: &[u32]) {
        let id = self.sampler.next(logits);
        self.ids.push(id);
        if ends.contains(&id) {
            self.finish = Some(Finish::Stop);
        } else if self.ids.len() == self.most {
            self.finish = Some(Finish::Length);
        }
    }
}

impl Generator {
    /// Loads a folder in Hugging Face's layout. The KV caches of prompts are kept within `memory`.
    pub fn load(folder: &Path, memory: &Arc<Memory>) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        let weights = Weights::load(folder, &config)?;
        let output = Output::new(weights.output().clone());
        let decoder = Decoder::new(config, weights);
        let tokenizer = Arc::new(Tokenizer::load_within(folder, memory)?);
        let prompt = PromptTemplate::load(folder, None)?;
        let config = GenerationConfig::load(folder, &tokenizer)?;
        let table = decoder.rope_table(0);
        Ok(Self { decoder, output, tokenizer, prompt, config, table, read: Memo::new(memory, share::PROMPTS) })
    }

    /// Answers a conversation; None as soon as `is_wanted` returns false.
    ///
    /// # Errors
    /// [`LmError::TooLong`] if the conversation fills the model's window; any error of template, tokenizer or model.
    pub fn answer(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        is_wanted: &IsWanted,
    ) -> Result<Option<Generated>> {
        let text = self.prompt.render_messages(messages)?;
        let prompt = self.tokenizer.encode(&text, self.prompt.adds_special())?.ids;
        let text = self.continue_prompt(&prompt, sampling, is_wanted)?;
        text.map(|text| self.generated(text)).transpose()
    }

    /// Answers questions, `samples` times each, in batches of [`TEXTS`]. Each question is prefilled once. `each`
    /// receives every finished answer, or its error, and returns whether to continue. The random numbers of an answer
    /// depend only on the seed and its place.
    pub fn answer_all(
        &mut self,
        questions: impl Iterator<Item = String>,
        samples: u64,
        sampling: Sampling,
        mut each: impl FnMut(Place, Result<Generated>) -> bool,
        is_wanted: &IsWanted,
    ) -> Result<()> {
        let mut questions =
            Questions { questions: (0..).zip(questions), samples, sampling, read: None, sample: samples };
        let mut texts: Vec<(Place, Text)> = Vec::new();
        loop {
            while texts.len() < TEXTS
                && let Some((place, text)) = questions.next(self, is_wanted)
            {
                match text {
                    Ok(text) => texts.push((place, text)),
                    Err(LmError::Abandoned) => return Ok(()),
                    Err(error) => {
                        if !each(place, Err(error)) {
                            return Ok(());
                        }
                    }
                }
            }
            if texts.is_empty() || !is_wanted() {
                return Ok(());
            }
            self.go_on(&mut texts.iter_mut().map(|(_, text)| text).collect::<Vec<_>>())?;
            for (place, text) in texts.extract_if(.., |(_, text)| text.finish.is_some()) {
                if !each(place, self.generated(text)) {
                    return Ok(());
                }
            }
        }
    }

    /// Generates the text after `prompt`; None as soon as `is_wanted` returns false.
    fn continue_prompt(&mut self, prompt: &[u32], sampling: Sampling, is_wanted: &IsWanted) -> Result<Option<Text>> {
        let read = match self.read.get(&prompt.to_vec()) {
            Some(held) => held.as_ref().clone(),
            None => match self.read_prompt(prompt, is_wanted) {
                Err(LmError::Abandoned) => return Ok(None),
                read => self.remember(prompt, read?, sampling),
            },
        };
        let mut text = self.begin(prompt, read, sampling);
        while text.finish.is_none() {
            if !is_wanted() {
                return Ok(None);
            }
            self.go_on(&mut [&mut text])?;
        }
        Ok(Some(text))
    }

    fn remember(&mut self, prompt: &[u32], read: ReadPrompt, sampling: Sampling) -> ReadPrompt {
        if sampling.temperature > 0.0 {
            let bytes = read.kv_cache.bytes() + size_of_val(read.logits.as_slice());
            self.read.insert(prompt.to_vec(), Arc::new(read.clone()), bytes);
        }
        read
    }

    fn read_prompt(&self, prompt: &[u32], is_wanted: &IsWanted) -> Result<ReadPrompt> {
        let window = self.decoder.config.max_position_embeddings;
        if prompt.is_empty() || prompt.len() >= window {
            return Err(LmError::TooLong { tokens: prompt.len(), window });
        }
        let (last, kv_cache) = self.decoder.prefill(prompt, &[prompt.len() as u32 - 1], is_wanted)?;
        let logits = self.output.logits(&last)?;
        Ok(ReadPrompt { logits, kv_cache })
    }

    fn begin(&mut self, prompt: &[u32], read: ReadPrompt, sampling: Sampling) -> Text {
        let ReadPrompt { mut logits, kv_cache } = read;
        let window = self.decoder.config.max_position_embeddings;
        let most = sampling.max_tokens.min(window - prompt.len());
        if self.table.positions() < prompt.len() + most {
            self.table = self.decoder.rope_table(prompt.len() + most);
        }
        let sampler = Sampler::new(sampling, self.config.clone(), prompt);
        let finish = (most == 0).then_some(Finish::Length);
        let mut text = Text { sampler, kv_cache, tokens_in: prompt.len(), ids: Vec::new(), most, finish };
        if finish.is_none() {
            text.take(&mut logits, &self.config.ends);
        }
        text
    }

    fn go_on(&self, texts: &mut [&mut Text]) -> Result<()> {
        let mut texts: Vec<&mut Text> =
            texts.iter_mut().map(|text| &mut **text).filter(|text| text.finish.is_none()).collect();
        let last: Vec<u32> = texts.iter().filter_map(|text| text.ids.last().copied()).collect();
        if last.is_empty() {
            return Ok(());
        }
        let mut before: Vec<&mut KvCache> = texts.iter_mut().map(|text| &mut text.kv_cache).collect();
        let hidden = self.decoder.next(&last, &mut before, &self.table)?;
        let mut logits = self.output.logits(&hidden)?;
        let vocabulary = logits.len() / last.len();
        let texts = texts.par_iter_mut().zip(logits.par_chunks_exact_mut(vocabulary));
        texts.for_each(|(text, logits)| text.take(logits, &self.config.ends));
        Ok(())
    }

    fn generated(&self, Text { mut ids, tokens_in, finish, .. }: Text) -> Result<Generated> {
        let tokens_out = ids.len();
        let finish = finish.unwrap_or(Finish::Length);
        if finish == Finish::Stop {
            ids.pop();
        }
        Ok(Generated { text: self.tokenizer.decode(&ids)?, tokens_in, tokens_out, finish })
    }
}

struct Questions<Q> {
    questions: Q,
    samples: u64,
    sampling: Sampling,
    read: Option<(u64, Vec<u32>, ReadPrompt)>,
    sample: u64,
}

impl<Q: Iterator<Item = (u64, String)>> Questions<Q> {
    fn next(&mut self, generator: &mut Generator, is_wanted: &IsWanted) -> Option<(Place, Result<Text>)> {
        if self.sample == self.samples {
            let (question, text) = self.questions.next()?;
            let prompt = generator.prompt.render_generation(text.as_str().into());
            let ids = prompt.and_then(|text| generator.tokenizer.encode(&text, generator.prompt.adds_special()));
            match ids.and_then(|tokens| Ok((generator.read_prompt(&tokens.ids, is_wanted)?, tokens.ids))) {
                Ok((read, ids)) => (self.read, self.sample) = (Some((question, ids, read)), 0),
                Err(error) => return Some((Place { question, sample: 0 }, Err(error))),
            }
        }
        let is_last = self.sample + 1 == self.samples;
        // The KV cache of a prompt is large: the last sample takes it instead of a copy.
        let (question, ids, read) = if is_last { self.read.take()? } else { self.read.clone()? };
        let place = Place { question, sample: self.sample };
        self.sample += 1;
        let sampling = Sampling { seed: place.seed(self.sampling.seed), ..self.sampling };
        Some((place, Ok(generator.begin(&ids, read, sampling))))
    }
}

impl Place {
    fn seed(self, seed: u64) -> u64 {
        let place = self.question.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.sample << 32 | self.sample);
        seed.wrapping_add(place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing::{chains, golden, lines};

    const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0, max_tokens: 24 };
    const QUESTION: [Message; 1] = [Message { role: "user", content: "What is 17 + 25?" }];

    fn generator(model: &str) -> Generator {
        Generator::load(&golden(model), &Arc::default()).unwrap()
    }

    fn answer(generator: &mut Generator, messages: &[Message], sampling: Sampling) -> Generated {
        generator.answer(messages, sampling, &|| true).unwrap().unwrap()
    }

    #[test]
    fn tokens_one_at_a_time_give_the_logits_of_the_whole_pass() {
        for model in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
            let folder = golden(model);
            let decoder: Decoder = Decoder::load(&folder).unwrap();
            let output = Output::new(decoder.weights.output().clone());
            let tokenizer = Tokenizer::load(&folder).unwrap();
            let texts: Vec<String> = chains(model).iter().take(4).map(|chain| chain.steps.join("\n\n")).collect();
            // Longer than the block of keys in attention.
            let ids = tokenizer.encode(&texts.join("\n\n").repeat(3), true).unwrap().ids;
            let ids = &ids[..ids.len().min(700)];
            let whole = decoder.hidden(ids, &[ids.len()]).unwrap();
            let table = decoder.rope_table(ids.len());
            let first = ids.len().saturating_sub(300).max(1);
            let (_, mut before) = decoder.prefill(&ids[..first], &[], &|| true).unwrap();
            for (place, id) in ids.iter().enumerate().skip(first) {
                let hidden = decoder.next(&[*id], &mut [&mut before], &table).unwrap();
                let found = output.logits(&hidden).unwrap();
                let expected = output.logits(&whole.narrow(0, place, 1).unwrap()).unwrap();
                let furthest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(furthest < 1e-4, "{model}, token {place}: {furthest}");
            }
        }
    }

    #[derive(serde::Deserialize)]
    struct Greedy {
        prompt: String,
        ids: Vec<u32>,
    }

    fn assert_follows(generator: &mut Generator, file: &str, max_tokens: usize) {
        for greedy in lines::<Greedy>(golden(file)) {
            let prompt = generator.tokenizer.encode(&greedy.prompt, true).unwrap().ids;
            let sampling = Sampling { max_tokens, ..GREEDY };
            let text = generator.continue_prompt(&prompt, sampling, &|| true).unwrap().unwrap();
            assert_eq!(text.ids, greedy.ids, "{file} {}", greedy.prompt);
        }
    }

    #[test]
    fn greedy_answers_agree_with_transformers() {
        for model in ["qwen2", "llama"] {
            let mut generator = generator(model);
            assert_follows(&mut generator, &format!("greedy_{model}.jsonl"), 32);
            generator.config.repetition_penalty = 1.3;
            generator.config.length_penalty = Some((12, 1.2));
            assert_follows(&mut generator, &format!("penalised_{model}.jsonl"), 64);
        }
    }

    #[test]
    fn a_seed_fixes_what_is_drawn() {
        let mut generator = generator("qwen2");
        let mut drawn = |seed, temperature, top_p| {
            let sampling = Sampling { temperature, top_p, seed, ..GREEDY };
            answer(&mut generator, &QUESTION, sampling)
        };
        assert_eq!(drawn(1, 1.0, 1.0), drawn(1, 1.0, 1.0));
        assert_ne!(drawn(1, 1.0, 1.0), drawn(2, 1.0, 1.0));
        // The most likely token is the whole nucleus if `top_p` is 0.
        let nearly_greedy = drawn(3, 1.0, 0.0);
        let greedy = answer(&mut generator, &QUESTION, GREEDY);
        assert_eq!(nearly_greedy, greedy);
        assert!(greedy.tokens_out <= 24 && greedy.tokens_in > 0);
    }

    #[test]
    fn a_prompt_is_read_once_for_all_its_samples() {
        let sampling = |seed| Sampling { temperature: 1.0, seed, ..GREEDY };
        let fresh = |seed| answer(&mut self::generator("qwen2"), &QUESTION, sampling(seed));
        let mut generator = generator("qwen2");
        for seed in 1..4 {
            assert_eq!(answer(&mut generator, &QUESTION, sampling(seed)), fresh(seed));
        }
        // One row of the output layer per token, and one for the prompt, which is read once.
        let tokens = (1..4).map(|seed| fresh(seed).tokens_out - 1).sum::<usize>();
        assert_eq!(generator.output.rows(), tokens + 1);
    }

    #[test]
    fn an_answer_that_no_one_waits_for_is_not_finished() {
        let mut generator = generator("qwen2");
        // The prompt is read in two blocks per layer; then `is_wanted` is called before each token.
        let blocks = 2 * generator.decoder.config.num_hidden_layers;
        for enough in [blocks - 1, blocks + 2] {
            let asked = AtomicUsize::new(0);
            let is_wanted = || asked.fetch_add(1, Ordering::Relaxed) < enough;
            assert_eq!(generator.answer(&QUESTION, GREEDY, &is_wanted).unwrap(), None);
            assert_eq!(asked.into_inner(), enough + 1);
        }
    }

    #[test]
    fn the_end_token_ends_an_answer_and_is_not_in_its_text() {
        let mut generator = generator("llama");
        assert_eq!(generator.config.ends, [1999]);
        let text = generator.prompt.render_messages(&QUESTION).unwrap();
        let prompt = generator.tokenizer.encode(&text, true).unwrap().ids;
        let ids = generator.continue_prompt(&prompt, GREEDY, &|| true).unwrap().unwrap().ids;
        generator.config.ends = vec![ids[5]];
        let length = ids.iter().position(|id| *id == ids[5]).unwrap() + 1;
        let whole = answer(&mut generator, &QUESTION, GREEDY);
        assert_eq!((whole.tokens_out, whole.finish), (length, Finish::Stop));
        assert_eq!(whole.text, generator.tokenizer.decode(&ids[..length - 1]).unwrap());
        let cut = answer(&mut generator, &QUESTION, Sampling { max_tokens: 1, ..GREEDY });
        assert_eq!((cut.tokens_out, cut.finish == Finish::Length), (1, length > 1));
    }

    #[test]
    fn a_conversation_that_fills_the_window_says_so_in_numbers() {
        let mut generator = generator("qwen2");
        let long = "7 ".repeat(5000);
        let messages = [Message { role: "user", content: &long }];
        let error = generator.answer(&messages, GREEDY, &|| true).unwrap_err().to_string();
        assert!(error.contains("tokens with the chat template, the model's window is 4096"), "{error}");
    }

    #[test]
    fn texts_that_go_on_together_are_those_that_go_on_alone() {
        let mut generator = generator("llama");
        let question = |i: usize| format!("What is {i} + {}?{}", i * i, " Say why.".repeat(i % 7));
        let sampling = Sampling { temperature: 1.0, max_tokens: 40, ..GREEDY };
        // Answers end at different times: more texts than fit a batch, of several lengths.
        generator.config.ends.extend(0..300);
        let mut found = std::collections::BTreeMap::new();
        let each = |place: Place, answer: Result<Generated>| found.insert(place, answer.unwrap()).is_none();
        generator.answer_all((0..30).map(question), 3, sampling, each, &|| true).unwrap();
        let places: Vec<Place> =
            (0..30).flat_map(|question| (0..3).map(move |sample| Place { question, sample })).collect();
        assert!(found.keys().eq(&places));
        let lengths: std::collections::BTreeSet<usize> = found.values().map(|answer| answer.tokens_out).collect();
        assert!(lengths.len() > 5, "{lengths:?}");
        for place in [0, 1, 2, 40, 89].map(|place| places[place]) {
            let prompt = generator.prompt.render_generation(question(place.question as usize).as_str().into()).unwrap();
            let prompt = generator.tokenizer.encode(&prompt, generator.prompt.adds_special()).unwrap().ids;
            let sampling = Sampling { seed: place.seed(sampling.seed), ..sampling };
            let alone = generator.continue_prompt(&prompt, sampling, &|| true).unwrap().unwrap();
            assert_eq!(found[&place], generator.generated(alone).unwrap(), "{place:?}");
        }
    }

    #[test]
    fn a_question_that_does_not_fit_is_said_and_the_others_are_answered() {
        let mut generator = generator("qwen2");
        let questions = ["What is 17 + 25?".to_string(), "7 ".repeat(5000), "2?".to_string()];
        let mut found = Vec::new();
        let each = |place: Place, answer: Result<Generated>| {
            found.push((place.question, answer.is_ok()));
            true
        };
        generator.answer_all(questions.into_iter(), 1, GREEDY, each, &|| true).unwrap();
        found.sort_unstable();
        assert_eq!(found, [(0, true), (1, false), (2, true)]);
    }
}
