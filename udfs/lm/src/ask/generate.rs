//! Text generation with a local model: a prompt in one forward pass, then one token at a time with the KV cache. Many
//! texts are generated in one batch, since reading the weights takes longest. A text does not depend on the others.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use crate::ask::sampling::{GenerationConfig, Sampler, Sampling};
use crate::backend::IsWanted;
use crate::model::config::ModelConfig;
use crate::model::decoder::Decoder;
use crate::model::pass::KvCache;
use crate::model::weights::Weights;
use crate::ops::StoredMatrix;
use crate::text::prompt::opens_thought;
use crate::{LmError, Message, PromptTemplate, Result, Tokenizer};
use asap_kernels::memo::{Memo, Memory, share};

/// The most texts of a batch.
pub const TEXTS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// An end token or a stop string.
    Stop,
    /// The maximum of tokens, or the end of the model's window.
    Length,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Text without special tokens, up to the stop string that ended it.
    pub text: String,
    pub tokens_in: usize,
    /// Number of `ids`.
    pub tokens_out: usize,
    /// Answer tokens, including the end token or the stop string that ended it.
    pub ids: Vec<u32>,
    /// Whether the prompt ends in an opened `<think>`, so that the text has no opening tag.
    pub opens_thought: bool,
    pub finish: Finish,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleIndex {
    /// Index of the question, from 0.
    pub question: u64,
    /// Index of the sample among the answers to this question, from 0.
    pub sample: u64,
}

/// A question, and the system prompt before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub system: Option<String>,
    pub text: String,
}

/// The tokens before an answer.
#[derive(Debug, Clone)]
pub struct Prompt {
    ids: Vec<u32>,
    opens_thought: bool,
}

#[derive(Debug)]
pub struct Generator {
    decoder: Decoder<StoredMatrix>,
    tokenizer: Arc<Tokenizer>,
    prompt: PromptTemplate,
    config: GenerationConfig,
    read: Memo<Vec<u32>, ReadPrompt>,
}

#[derive(Debug, Clone)]
struct ReadPrompt {
    logits: Vec<f32>,
    kv_cache: KvCache,
}

impl Generator {
    /// Loads a folder in Hugging Face's layout. The KV caches of prompts are kept within `memory`.
    pub fn load(folder: &Path, memory: &Arc<Memory>) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        let weights = Weights::load(folder, &config)?;
        let decoder = Decoder::new(config, weights);
        let tokenizer = Arc::new(Tokenizer::load_within(folder, memory)?);
        let prompt = PromptTemplate::load(folder, None)?;
        let config = GenerationConfig::load(folder, &tokenizer)?;
        Ok(Self { decoder, tokenizer, prompt, config, read: Memo::new(memory, share::PROMPTS) })
    }

    /// Whether the chat template prints nothing of a system prompt, so that the model does not read it.
    pub fn drops_system(&self) -> bool {
        self.prompt.drops_system()
    }

    /// Renders and tokenizes a conversation. With `thinks`, the template may open a thought, and one that it closes is
    /// removed.
    ///
    /// # Errors
    /// If the template or the tokenizer fails.
    pub fn prompt(&self, messages: &[Message], thinks: bool) -> Result<Prompt> {
        let text =
            if thinks { self.prompt.render_thinking(messages)? } else { self.prompt.render_messages(messages)? };
        let ids = self.tokenizer.encode(&text, self.prompt.adds_special())?.ids;
        Ok(Prompt { ids, opens_thought: opens_thought(&text) })
    }

    /// Answers prompts while `next` returns some, in batches of [`TEXTS`]. `next` receives whether the batch is empty:
    /// only then may it wait for a prompt, and only then does None end the work. `each` receives every finished answer,
    /// or its error: [`LmError::TooLong`] if the prompt fills the model's window. A prompt that is no longer wanted has
    /// no answer.
    pub fn serve<T: Sync>(
        &mut self,
        mut next: impl FnMut(&Self, bool) -> Option<(T, Result<Prompt>, Sampling)>,
        is_wanted: impl Fn(&T) -> bool + Sync,
        mut each: impl FnMut(T, Result<Generated>),
    ) {
        let begin = |generator: &mut Self, is_empty| {
            let (asking, prompt, sampling) = next(generator, is_empty)?;
            let text = prompt.and_then(|prompt| {
                let read = generator.read_or_recall(&prompt.ids, &sampling, &|| is_wanted(&asking))?;
                generator.begin(&prompt, read, sampling)
            });
            Some((asking, text))
        };
        let each = |asking, answer| {
            each(asking, answer);
            true
        };
        self.run(begin, &is_wanted, each);
    }

    /// Answers questions, `samples` times each, in batches of [`TEXTS`]. Each question is prefilled once. `each`
    /// receives every finished answer, or its error, and returns whether to continue. The random numbers of an answer
    /// depend only on the seed and its place.
    pub fn answer_all(
        &mut self,
        questions: impl Iterator<Item = Question>,
        samples: u64,
        sampling: Sampling,
        each: impl FnMut(SampleIndex, Result<Generated>) -> bool,
        is_wanted: &IsWanted,
    ) {
        let mut questions = (0..).zip(questions);
        let (mut read, mut sample): (Option<(u64, Prompt, ReadPrompt)>, u64) = (None, samples);
        let next = |generator: &mut Self, _| {
            if !is_wanted() {
                return None;
            }
            if sample == samples {
                let (question, Question { system, text }) = questions.next()?;
                let system = system.as_deref().map(|content| Message { role: "system", content });
                let messages: Vec<Message> =
                    system.into_iter().chain([Message { role: "user", content: &text }]).collect();
                let prompt = generator.prompt(&messages, true);
                match prompt.and_then(|prompt| Ok((generator.read_prompt(&prompt.ids, is_wanted)?, prompt))) {
                    Ok((of_prompt, prompt)) => (read, sample) = (Some((question, prompt, of_prompt)), 0),
                    Err(error) => return Some((SampleIndex { question, sample: 0 }, Err(error))),
                }
            }
            let is_last = sample + 1 == samples;
            // The KV cache of a prompt is large: the last sample takes it instead of a copy.
            let (question, prompt, of_prompt) = if is_last { read.take()? } else { read.clone()? };
            let place = SampleIndex { question, sample };
            sample += 1;
            let sampling = Sampling { seed: place.seed(sampling.seed), ..sampling.clone() };
            Some((place, generator.begin(&prompt, of_prompt, sampling)))
        };
        self.run(next, |_| is_wanted(), each);
    }

    /// Generates the texts that `next` begins; it receives whether the batch is empty.
    fn run<T>(
        &mut self,
        mut next: impl FnMut(&mut Self, bool) -> Option<(T, Result<Text>)>,
        is_wanted: impl Fn(&T) -> bool,
        mut each: impl FnMut(T, Result<Generated>) -> bool,
    ) {
        let mut texts: Vec<(T, Text)> = Vec::new();
        loop {
            while texts.len() < TEXTS
                && let Some((place, text)) = next(self, texts.is_empty())
            {
                match text {
                    Ok(text) => texts.push((place, text)),
                    Err(LmError::Abandoned) => {}
                    Err(error) => {
                        if !each(place, Err(error)) {
                            return;
                        }
                    }
                }
            }
            if texts.is_empty() {
                return;
            }
            texts.retain(|(place, _)| is_wanted(place));
            let unfinished = texts.iter_mut().map(|(_, text)| text).filter(|text| text.finish.is_none());
            let failed = self.go_on(unfinished.collect()).err().map(Arc::new);
            let is_over = |(_, text): &mut (T, Text)| failed.is_some() || text.finish.is_some();
            for (place, text) in texts.extract_if(.., is_over) {
                let answer = match &failed {
                    Some(error) => Err(LmError::Shared(Arc::clone(error))),
                    None => self.generated(text),
                };
                if !each(place, answer) {
                    return;
                }
            }
        }
    }

    fn read_or_recall(&mut self, prompt: &Vec<u32>, sampling: &Sampling, is_wanted: &IsWanted) -> Result<ReadPrompt> {
        if let Some(held) = self.read.get(prompt) {
            return Ok(held.as_ref().clone());
        }
        let read = self.read_prompt(prompt, is_wanted)?;
        if sampling.temperature > 0.0 {
            let bytes = read.kv_cache.bytes() + size_of_val(read.logits.as_slice());
            self.read.insert(prompt.clone(), Arc::new(read.clone()), bytes);
        }
        Ok(read)
    }

    fn read_prompt(&self, prompt: &[u32], is_wanted: &IsWanted) -> Result<ReadPrompt> {
        let window = self.decoder.config.max_position_embeddings;
        if prompt.is_empty() || prompt.len() >= window {
            return Err(LmError::TooLong { tokens: prompt.len(), window });
        }
        let (last, kv_cache) = self.decoder.prefill(prompt, &[prompt.len() as u32 - 1], is_wanted)?;
        let logits = self.decoder.logits(&last)?;
        Ok(ReadPrompt { logits, kv_cache })
    }

    fn begin(&mut self, prompt: &Prompt, read: ReadPrompt, mut sampling: Sampling) -> Result<Text> {
        let ReadPrompt { mut logits, kv_cache } = read;
        let (tokens_in, opens_thought) = (prompt.ids.len(), prompt.opens_thought);
        let most = sampling.max_tokens.min(self.decoder.config.max_position_embeddings - tokens_in);
        let stop = std::mem::take(&mut sampling.stop);
        let sampler = Sampler::new(sampling, self.config.clone(), &prompt.ids);
        let finish = (most == 0).then_some(Finish::Length);
        let mut text = Text { sampler, kv_cache, tokens_in, opens_thought, ids: Vec::new(), most, stop, finish };
        if finish.is_none() {
            text.take(&mut logits, &self.config.ends, &self.tokenizer)?;
        }
        Ok(text)
    }

    fn go_on(&self, mut texts: Vec<&mut Text>) -> Result<()> {
        let last: Vec<Vec<u32>> = texts.iter().filter_map(|text| Some(vec![*text.ids.last()?])).collect();
        if last.is_empty() {
            return Ok(());
        }
        let mut before: Vec<&mut KvCache> = texts.iter_mut().map(|text| &mut text.kv_cache).collect();
        let hidden = self.decoder.append(&last, &mut before, &|| true)?;
        let mut logits = self.decoder.logits(&hidden)?;
        let vocabulary = logits.len() / last.len();
        let texts = texts.par_iter_mut().zip(logits.par_chunks_exact_mut(vocabulary));
        texts.map(|(text, logits)| text.take(logits, &self.config.ends, &self.tokenizer)).collect()
    }

    fn generated(&self, text: Text) -> Result<Generated> {
        let said = text.decode(&self.config.ends, &self.tokenizer)?;
        let Text { ids, tokens_in, opens_thought, finish, .. } = text;
        let finish = finish.unwrap_or(Finish::Length);
        Ok(Generated { text: said, tokens_in, tokens_out: ids.len(), ids, opens_thought, finish })
    }
}

/// Tokens that are decoded along with those that may hold a stop string, since the first ones may begin within a
/// character.
const BEFORE_STOP: usize = 8;

#[derive(Debug)]
struct Text {
    sampler: Sampler,
    kv_cache: KvCache,
    tokens_in: usize,
    opens_thought: bool,
    ids: Vec<u32>,
    most: usize,
    stop: Vec<String>,
    finish: Option<Finish>,
}

impl Text {
    fn take(&mut self, logits: &mut [f32], ends: &[u32], tokenizer: &Tokenizer) -> Result<()> {
        let id = self.sampler.next(logits);
        self.ids.push(id);
        if ends.contains(&id) || self.has_stop(tokenizer)? {
            self.finish = Some(Finish::Stop);
        } else if self.ids.len() == self.most {
            self.finish = Some(Finish::Length);
        }
        Ok(())
    }

    /// Returns whether the last token completes a stop string. The whole text is decoded only if its end has one.
    fn has_stop(&self, tokenizer: &Tokenizer) -> Result<bool> {
        let Some(longest) = self.stop.iter().map(String::len).max() else { return Ok(false) };
        // No token is shorter than a byte, except special ones, which are not in the text.
        let last = self.ids.iter().rev().filter(|id| !tokenizer.is_special(**id)).take(longest + BEFORE_STOP);
        let mut last: Vec<u32> = last.copied().collect();
        last.reverse();
        let has = |ids: &[u32]| tokenizer.decode(ids).map(|text| first_stop(&text, &self.stop).is_some());
        Ok(has(&last)? && has(&self.ids)?)
    }

    /// Returns the text without special tokens, cut before its first stop string.
    fn decode(&self, ends: &[u32], tokenizer: &Tokenizer) -> Result<String> {
        let is_ended = self.ids.last().is_some_and(|id| ends.contains(id));
        let mut text = tokenizer.decode(&self.ids[..self.ids.len() - usize::from(is_ended)])?;
        text.truncate(first_stop(&text, &self.stop).unwrap_or(text.len()));
        Ok(text)
    }
}

fn first_stop(text: &str, stop: &[String]) -> Option<usize> {
    stop.iter().filter_map(|stop| text.find(stop)).min()
}

impl SampleIndex {
    fn seed(self, seed: u64) -> u64 {
        let place = self.question.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.sample << 32 | self.sample);
        seed.wrapping_add(place)
    }
}

#[cfg(test)]
mod tests;
