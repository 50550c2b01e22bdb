//! LLMLingua-2 (Pan et al. 2024, "LLMLingua-2: Data Distillation for Efficient and Faithful Task-Agnostic Prompt
//! Compression"): an encoder predicts for each token whether to keep it, and the likeliest words are kept.
//!
//! ```text
//! text ─ force tokens ─ chunks of 512 tokens ─ encoder ─▶ words with probabilities ─ threshold ─ kept words ─ text
//! ```
//!
//! Results match the published code (llmlingua 0.2.2), including its quirks: each chunk has its own threshold, chunks
//! are joined without a separator, white space becomes a single space, unknown tokens vanish, and XLM-RoBERTa reads two
//! unknown tokens around a text. Differences:
//!
//! - The family of a model comes from config.json, not from its path.
//! - The caller weighs words for the threshold; the published code counts tokens of GPT-3.5.
//! - At a rate of 1 a text is unchanged, byte for byte; the published code returns the tokenizer's round trip.
//! - A force token that is not a single token of the tokenizer is read as one of the tokens `[NEW0]` to `[NEW99]`. If a
//!   model has no rows for them, each is the mean of the other rows. The published code draws each around that mean
//!   with a variance of almost 0.
//! - A chunk may begin in the middle of a word; the published code fails.

mod encoder;
mod tokens;
mod words;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::config::{EncoderConfig, EncoderFamily};
use crate::ops::on_all_cores;
use crate::{LmError, Result};
use encoder::Encoder;
use tokens::{Tokens, WINDOW, chunks};
use words::Rules;

/// Returns the weight of a word for the threshold, a whole number of tokens. The word is written as the encoder's
/// tokenizer writes it: with a leading `▁` for XLM-RoBERTa.
pub type Weigh<'a> = dyn Fn(&str) -> Result<usize> + Sync + 'a;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Texts to always keep: single tokens, or texts that are replaced by one token before the encoder reads them. At
    /// most 100. Include `"\n"` to keep line ends.
    pub force_tokens: Vec<String>,
    pub reserve_digits: bool,
    /// Whether to drop a force token that repeats the previous one.
    pub drop_consecutive: bool,
}

/// A token as an encoder reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// An id beyond the model's table stands for the mean of its rows.
    pub id: u32,
    pub position: usize,
}

/// What reads the chunks of texts: an encoder on some device.
pub trait Keeps: Debug + Send + Sync {
    /// Returns the probability of each token of each chunk to be kept. Chunks do not see each other.
    ///
    /// # Errors
    /// If the encoder fails. Then no text of the call is compressed.
    fn keep(&self, chunks: &[Vec<Placed>]) -> Result<Vec<Vec<f32>>>;
}

/// Reads nothing: counts the tokens of chunks, and keeps all.
#[derive(Debug)]
struct Counted(Arc<AtomicU64>);

impl Keeps for Counted {
    fn keep(&self, chunks: &[Vec<Placed>]) -> Result<Vec<Vec<f32>>> {
        self.0.fetch_add(chunks.iter().map(|chunk| chunk.len() as u64).sum(), Ordering::Relaxed);
        Ok(chunks.iter().map(|chunk| vec![1.0; chunk.len()]).collect())
    }
}

/// A model that compresses texts. It is immutable, so threads may share it.
#[derive(Debug)]
pub struct Compressor {
    encoder: Box<dyn Keeps>,
    tokens: Tokens,
    family: EncoderFamily,
    notes: Vec<String>,
}

impl Compressor {
    /// Loads a folder in Hugging Face's layout: config.json, tokenizer.json and model.safetensors of an XLM-RoBERTa or
    /// BERT token classifier with two labels, the second of which means to keep the token. Computes in f32 on CPUs.
    pub fn load(folder: &Path) -> Result<Self> {
        Self::open(folder, |config, _| Ok(Box::new(Encoder::load(folder, config)?)))
    }

    /// A stub without weights: adds the tokens that the encoder would read to `tokens`, and keeps all words.
    ///
    /// # Errors
    /// As [`Compressor::load`], without the weights.
    pub fn counted(folder: &Path, tokens: Arc<AtomicU64>) -> Result<Self> {
        Self::open(folder, |_, _| Ok(Box::new(Counted(tokens))))
    }

    /// A compressor whose encoder runs elsewhere. `open` gets the chunk of `proof`, a plain text that the encoder can be
    /// tried with.
    ///
    /// # Errors
    /// As [`Compressor::counted`], and those of `open`.
    pub fn with_encoder(
        folder: &Path,
        proof: &str,
        open: impl FnOnce(Vec<Placed>) -> Result<Box<dyn Keeps>>,
    ) -> Result<Self> {
        Self::open(folder, |_, tokens| open(tokens.placed(proof)?))
    }

    fn open(folder: &Path, encoder: impl FnOnce(EncoderConfig, &Tokens) -> Result<Box<dyn Keeps>>) -> Result<Self> {
        let config = EncoderConfig::load(folder)?;
        if config.window() < WINDOW {
            let found = format!("expected a window of at least {WINDOW} tokens, found {}", config.window());
            return Err(LmError::unsupported(&folder.join("config.json"), found));
        }
        let tokens = Tokens::load(folder, &config)?;
        let (family, notes) = (config.family, config.notes.clone());
        Ok(Self { encoder: encoder(config, &tokens)?, tokens, family, notes })
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the words that the model keeps, about `rate` of the text's tokens (0 < `rate` ≤ 1; at 1 the text
    /// itself).
    pub fn compress(&self, text: &str, rate: f64, options: &Options, weigh: &Weigh) -> Result<String> {
        self.compress_all(&[(text, rate)], options, weigh).map(|texts| texts.concat())
    }

    /// [`Compressor::compress`] of each text at its rate. The result of a text does not depend on the other texts.
    /// Invalid rates fail before any text is read.
    pub fn compress_all(&self, texts: &[(&str, f64)], options: &Options, weigh: &Weigh) -> Result<Vec<String>> {
        let rules = Rules::new(options, &self.tokens, self.family)?;
        if let Some((_, rate)) = texts.iter().find(|(_, rate)| !(*rate > 0.0 && *rate <= 1.0)) {
            return Err(LmError::Compression(format!(
                "invalid rate {rate}: expected the share of a text to keep, a number above 0 and at most 1"
            )));
        }
        let read = on_all_cores(texts.to_vec(), |(text, rate)| match rate < 1.0 {
            true => self.read(&rules, text),
            false => Ok(vec![]),
        })?;
        let places: Vec<usize> =
            read.iter().enumerate().flat_map(|(place, chunks)| std::iter::repeat_n(place, chunks.len())).collect();
        let chunks: Vec<Vec<Placed>> = read.into_iter().flatten().collect();
        let keep = self.encoder.keep(&chunks)?;
        let read: Vec<_> = places.into_iter().zip(chunks).zip(keep).collect();
        let compressed = on_all_cores(read, |((place, chunk), keep)| {
            let written =
                chunk.iter().zip(keep).filter_map(|(token, keep)| Some((self.tokens.written(token.id)?, keep)));
            let kept = rules.kept(rules.words(written), 1.0 - texts[place].1, weigh)?;
            Ok::<_, LmError>((place, self.tokens.join(kept)?))
        })?;
        let unread = |(text, rate): &(&str, f64)| if *rate < 1.0 { String::new() } else { text.to_string() };
        let mut found: Vec<String> = texts.iter().map(unread).collect();
        compressed.into_iter().for_each(|(place, text)| found[place].push_str(&text));
        Ok(found)
    }

    /// Returns the chunks of a text as the encoder reads them. As in the published code, the tokens of a chunk are joined into a
    /// text, which is tokenized again. So they may differ from the tokens of the whole text.
    fn read(&self, rules: &Rules, text: &str) -> Result<Vec<Vec<Placed>>> {
        let tokens = self.tokens.of(&rules.placeholder(text))?;
        let chunks = chunks(&tokens, &rules.ends()).into_iter();
        chunks.map(|chunk| self.tokens.placed(&self.tokens.join(tokens[chunk].to_vec())?)).collect()
    }
}

#[cfg(test)]
mod tests;
