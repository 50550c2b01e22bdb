//! Whether a chain's answer survives in a text: how likely the model finds it, and what the model states itself.
//!
//! ```text
//!   question, steps, </think>, The final answer is \boxed{ | 42        scored: the mean ln P of the answer's tokens
//!                                                          | 41}. …    written greedily, up to the closing brace
//!   ──────────────── shared ─────────────────────────── ── tails
//! ```
//!
//! Texts of one question follow each other in the order of a walk through the tree of their tokens. One KV cache walks
//! along: it drops what the next text does not share, and reads the rest. So each token of the tree is read once, as
//! long as the cache of the question is held. The tails of several texts run as one batch.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use crate::ask::check::{STATED, in_common};
use crate::ask::sampling::{GenerationConfig, likeliest};
use crate::backend::{Continuation, Continued, IsWanted, QuestionKey, TOKENS_PER_PASS};
use crate::model::decoder::Decoder;
use crate::model::pass::KvCache;
use crate::ops::Projection;
use crate::{Result, Tokenizer};
use asap_kernels::memo::{Memo, Memory, share};

/// Most bytes of KV caches that are copied for one batch of tails; one text may exceed it.
const COPIED: usize = 1 << 30;

/// The order in which checks share most: question by question, each along its tree of tokens. It begins where texts
/// share most with what is already read; `read` is the number of these tokens.
fn walk(checks: &[&Continuation], read: impl Fn(&Continuation) -> usize) -> Vec<usize> {
    let question = |check: &Continuation| checks.iter().position(|first| first.question == check.question);
    let mut order: Vec<usize> = (0..checks.len()).collect();
    order.sort_by_cached_key(|place| {
        let check = checks[*place];
        (question(check), Reverse(read(check)), &check.shared)
    });
    order
}

/// Reads what a model writes greedily into a box.
#[derive(Debug)]
pub struct Stating {
    tokenizer: Arc<Tokenizer>,
    /// Tokens that end what the model writes.
    ends: Vec<u32>,
}

impl Stating {
    /// # Errors
    /// If the generation config or the tokenizer config of the folder is wrong.
    pub fn load(folder: &Path, tokenizer: &Arc<Tokenizer>) -> Result<Self> {
        Ok(Self { tokenizer: Arc::clone(tokenizer), ends: GenerationConfig::load(folder, tokenizer)?.ends })
    }

    /// The text in the box, once these tokens close it, end the text, or are as many as a model may write; else None.
    ///
    /// # Errors
    /// If the tokenizer cannot decode them.
    pub fn stated(&self, written: &[u32]) -> Result<Option<String>> {
        let is_end = written.last().is_some_and(|id| self.ends.contains(id));
        let text = self.tokenizer.decode(&written[..written.len() - usize::from(is_end)])?;
        let is_over = closing(&text).is_some() || is_end || written.len() == STATED;
        Ok(is_over.then(|| stated(&text).to_string()))
    }
}

/// Checks answers with a decoder. It holds the KV cache of the last text of each question within a memory limit.
#[derive(Debug)]
pub(crate) struct Checker {
    stating: Stating,
    held: Memo<QuestionKey, Held>,
}

/// The model that reads the texts of a call, as long as a caller waits.
pub(crate) struct Reader<'a, M> {
    pub decoder: &'a Decoder<M>,
    pub is_wanted: &'a IsWanted<'a>,
}

/// The tokens of a question's text that were read, and their keys and values.
#[derive(Debug)]
struct Held {
    question: QuestionKey,
    ids: Vec<u32>,
    kv_cache: KvCache,
}

/// A text whose tails are read.
struct Text<'a> {
    place: usize,
    check: &'a Continuation,
    kv_cache: KvCache,
    written: Vec<u32>,
    found: Continued,
}

impl Checker {
    pub(crate) fn new(folder: &Path, tokenizer: &Arc<Tokenizer>, memory: &Arc<Memory>) -> Result<Self> {
        Ok(Self { stating: Stating::load(folder, tokenizer)?, held: Memo::new(memory, share::PROMPTS) })
    }

    /// Returns the survival of each check, in order. What the model states is greedy: no penalties apply.
    pub(crate) fn check<M: Projection>(&self, reader: &Reader<M>, checks: &[&Continuation]) -> Result<Vec<Continued>> {
        let order =
            walk(checks, |check| self.held.get(&check.question).map_or(0, |held| in_common(&held.ids, &check.shared)));
        let mut found: Vec<(usize, Continued)> = Vec::with_capacity(checks.len());
        let mut walking: Option<Held> = None;
        let mut texts: Vec<Text> = Vec::new();
        for place in order {
            let check = checks[place];
            let mut held = match walking.take() {
                Some(held) if held.question == check.question => held,
                other => {
                    self.hold(other);
                    self.take(check, reader.decoder)
                }
            };
            let tokens_read = held.go_to(&check.shared, reader)?;
            let kv_cache = held.kv_cache.copy_with_room(check.longest() - check.shared.len());
            walking = Some(held);
            let copied = |text: &Text| text.kv_cache.bytes();
            let tokens = |text: &Text| text.check.tail();
            if texts.iter().map(copied).sum::<usize>() + kv_cache.bytes() > COPIED
                || texts.iter().map(tokens).sum::<usize>() + check.tail() > TOKENS_PER_PASS
            {
                self.finish(std::mem::take(&mut texts), reader, &mut found)?;
            }
            let found = Continued { log_probability: 0.0, stated: None, tokens_read, tokens_written: 0 };
            texts.push(Text { place, check, kv_cache, written: Vec::new(), found });
        }
        self.hold(walking);
        self.finish(texts, reader, &mut found)?;
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, survival)| survival).collect())
    }

    fn take<M: Projection>(&self, check: &Continuation, decoder: &Decoder<M>) -> Held {
        let held = self.held.take(&check.question).and_then(Arc::into_inner);
        let kv_cache = || decoder.empty_kv_cache(check.shared.len());
        held.unwrap_or_else(|| Held { question: check.question, ids: vec![], kv_cache: kv_cache() })
    }

    fn hold(&self, walked: Option<Held>) {
        if let Some(held) = walked {
            let bytes = held.kv_cache.bytes() + size_of_val(held.ids.as_slice());
            self.held.insert(held.question, Arc::new(held), bytes);
        }
    }

    /// Scores the answers of texts in one batch, then lets the model state its own.
    fn finish<M: Projection>(
        &self,
        mut texts: Vec<Text>,
        reader: &Reader<M>,
        found: &mut Vec<(usize, Continued)>,
    ) -> Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        score(&mut texts, reader)?;
        self.state(&mut texts, reader)?;
        found.extend(texts.into_iter().map(|text| (text.place, text.found)));
        Ok(())
    }

    /// Writes the likeliest tokens, one for each text at a time, until each has closed its box.
    fn state<M: Projection>(&self, texts: &mut [Text], reader: &Reader<M>) -> Result<()> {
        let mut writing: Vec<&mut Text> = texts.iter_mut().filter(|text| text.check.states).collect();
        let mut next: Vec<Vec<u32>> = writing.iter().map(|text| text.check.before_answer.clone()).collect();
        writing.iter_mut().zip(&next).for_each(|(text, next)| text.found.tokens_read += next.len());
        while !writing.is_empty() {
            let mut before: Vec<&mut KvCache> = writing.iter_mut().map(|text| &mut text.kv_cache).collect();
            let hidden = reader.decoder.append(&next, &mut before, reader.is_wanted)?;
            let mut end = 0;
            let last_of = |ids: &Vec<u32>| {
                end += ids.len() as u32;
                end - 1
            };
            let last: Vec<u32> = next.iter().map(last_of).collect();
            let mut logits = reader.decoder.logits(&hidden.index_select(&Tensor::new(last, &Device::Cpu)?, 0)?)?;
            let vocabulary = logits.len() / writing.len();
            for (text, logits) in writing.iter_mut().zip(logits.chunks_exact_mut(vocabulary)) {
                text.written.push(likeliest(logits));
                text.found.tokens_written += 1;
                text.found.stated = self.stating.stated(&text.written)?;
            }
            writing.retain(|text| text.found.stated.is_none());
            next = writing.iter().map(|text| text.written.last().copied().into_iter().collect()).collect();
        }
        Ok(())
    }
}

impl Held {
    /// Drops what a text does not share and reads the rest of it. Returns the number of tokens read.
    fn go_to<M: Projection>(&mut self, ids: &[u32], reader: &Reader<M>) -> Result<usize> {
        let common = in_common(&self.ids, ids);
        self.ids.truncate(common);
        self.kv_cache.truncate(common);
        let rest = &ids[common..];
        if !rest.is_empty() {
            reader.decoder.read_on(rest, &[], &mut self.kv_cache, reader.is_wanted)?;
            self.ids.extend_from_slice(rest);
        }
        Ok(rest.len())
    }
}

/// Scores the answers of texts, and leaves their KV caches without them.
fn score<M: Projection>(texts: &mut [Text], reader: &Reader<M>) -> Result<()> {
    let mut targets = Vec::new();
    let mut start = 0;
    for text in texts.iter_mut() {
        targets.extend(text.check.targets(start));
        start += text.check.with_answer.len();
        text.found.tokens_read += text.check.with_answer.len();
    }
    let ids: Vec<Vec<u32>> = texts.iter().map(|text| text.check.with_answer.clone()).collect();
    let mut before: Vec<&mut KvCache> = texts.iter_mut().map(|text| &mut text.kv_cache).collect();
    let hidden = reader.decoder.append(&ids, &mut before, reader.is_wanted)?;
    let scores = reader.decoder.score(&hidden, &targets)?;
    let mut rest = scores.as_slice();
    for text in texts {
        let own = rest.split_off(..text.check.with_answer.len() - text.check.answer).unwrap_or_default();
        text.found.log_probability =
            -own.iter().map(|token| f64::from(token.surprisal)).sum::<f64>() / own.len() as f64;
        text.kv_cache.truncate(text.check.shared.len());
    }
    Ok(())
}

/// Returns the answer that a model wrote into an open box: all up to the brace that closes it.
pub fn stated(written: &str) -> &str {
    written[..closing(written).unwrap_or(written.len())].trim()
}

/// The position of the brace that closes a box, in the text after the one that opens it.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut is_escaped) = (0_usize, false);
    for (place, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '{' => depth += 1,
            '}' if depth == 0 => return Some(place),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Counts the tokens that a [`Checker`] would read and write at most; it finds every answer certain, and states none.
#[derive(Debug, Default)]
pub(crate) struct CountedChecks {
    held: Vec<(QuestionKey, Vec<u32>)>,
}

impl CountedChecks {
    /// Questions whose last text is held.
    const HELD: usize = 8;

    pub(crate) fn check(&mut self, checks: &[&Continuation]) -> Vec<Continued> {
        let read = |held: &[(QuestionKey, Vec<u32>)], check: &Continuation| {
            let held = held.iter().find(|(question, _)| *question == check.question);
            held.map_or(0, |(_, ids)| in_common(ids, &check.shared))
        };
        let mut counted = vec![None; checks.len()];
        for place in walk(checks, |check| read(&self.held, check)) {
            let check = checks[place];
            let tokens_read = check.shared.len() - read(&self.held, check) + check.tail();
            self.held.retain(|(question, _)| *question != check.question);
            self.held.truncate(Self::HELD - 1);
            self.held.insert(0, (check.question, check.shared.clone()));
            let (stated, tokens_written) = if check.states { (Some(String::new()), STATED) } else { (None, 0) };
            counted[place] = Some(Continued { log_probability: 0.0, stated, tokens_read, tokens_written });
        }
        counted.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
