//! LLMLingua-2 (Pan et al. 2024, "LLMLingua-2: Data Distillation for Efficient and Faithful Task-Agnostic Prompt
//! Compression"): an encoder says of each token of a text how likely it is to be kept, and the likeliest words stay.
//!
//! ```text
//! text ─ force tokens ─ chunks of 512 tokens ─ encoder ─▶ words with probabilities ─ threshold ─ kept words ─ text
//! ```
//!
//! Texts become those of the published code (llmlingua 0.2.2), with what is odd about it: each chunk has a threshold of its
//! own and chunks are joined by nothing, white space is a single space, unknown tokens vanish, XLM-RoBERTa reads two unknown
//! tokens around a text. It differs in these:
//!
//! - The family of a model is what config.json says, not what its path is called.
//! - What a word weighs in the threshold is the caller's to say; the published code counts tokens of GPT-3.5.
//! - At a rate of 1 a text stays as it is, to the byte; the published code returns what its tokenizer makes of it.
//! - A force token that is not one token of the tokenizer is read as one of the tokens `[NEW0]` to `[NEW99]`. Where a model
//!   has no rows for them, the published code draws each around the mean of the others, with a variance of nearly 0; here
//!   each is that mean.
//! - A chunk that begins in the middle of a word begins with a word; the published code fails.

mod encoder;
mod tokens;
mod words;

use std::path::Path;

use super::config::EncoderConfig;
use super::ops::{Cores, on_all_cores};
use super::{LmError, Result};
use encoder::{Encoder, Placed};
use tokens::{Tokens, WINDOW, chunks};
use words::Rules;

/// How much a word counts where a threshold is looked for, in tokens: a whole number for a word as the encoder's tokenizer
/// writes it, which begins with `▁` in XLM-RoBERTa's.
pub type Weigh<'a> = dyn Fn(&str) -> Result<usize> + Sync + 'a;

/// What is kept or dropped whatever the encoder says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Texts that are kept wherever they stand: tokens, or what is replaced by one token before the text is read. At most
    /// 100. With `"\n"` among them line ends are kept.
    pub force_tokens: Vec<String>,
    /// Whether tokens with a digit are kept.
    pub reserve_digits: bool,
    /// Whether a force token is dropped that follows the same one.
    pub drop_consecutive: bool,
}

/// A model that compresses texts. It does not change, and threads may share it.
#[derive(Debug)]
pub struct Compressor {
    encoder: Encoder,
    tokens: Tokens,
}

impl Compressor {
    /// Loads a folder in Hugging Face's layout: config.json, tokenizer.json and model.safetensors of an XLM-RoBERTa or BERT
    /// that gives tokens one of two labels, of which the second is to keep one. Numbers are computed in f32.
    ///
    /// # Errors
    /// If a file is missing, the folder's model is another, or config, weights and tokenizer do not fit each other.
    pub fn load(folder: &Path) -> Result<Self> {
        let config = EncoderConfig::load(folder)?;
        if config.window() < WINDOW {
            let found = format!("a text may have {} tokens: expected at least {WINDOW}", config.window());
            return Err(LmError::Unsupported { path: folder.join("config.json"), found });
        }
        let tokens = Tokens::load(folder, &config)?;
        Ok(Self { encoder: Encoder::load(folder, config)?, tokens })
    }

    /// What in its config is not known.
    pub fn notes(&self) -> &[String] {
        &self.encoder.config.notes
    }

    /// The words of a text that the model keeps, about `rate` of its tokens, above 0 and at most 1. At 1 it is the text.
    ///
    /// # Errors
    /// If the rate or an option is none, the tokenizer fails, or `weigh` does.
    pub fn compress(&self, text: &str, rate: f64, options: &Options, weigh: &Weigh) -> Result<String> {
        self.compress_all(&[(text, rate)], options, weigh).map(|texts| texts.concat())
    }

    /// [`Compressor::compress`] of each text at its rate, on all cores: as many chunks at a time as there are cores, or one
    /// by all of them where there are fewer. A text becomes the same alone as with others.
    ///
    /// # Errors
    /// As [`Compressor::compress`], for the first text of which it is true; before any text is read if a rate is none.
    pub fn compress_all(&self, texts: &[(&str, f64)], options: &Options, weigh: &Weigh) -> Result<Vec<String>> {
        let rules = Rules::new(options, &self.tokens, self.encoder.config.family)?;
        texts.iter().try_for_each(|(_, rate)| check(*rate))?;
        let read = on_all_cores(texts.to_vec(), |(text, rate)| match rate < 1.0 {
            true => self.read(&rules, text),
            false => Ok(vec![]),
        })?;
        let counts: Vec<usize> = read.iter().map(Vec::len).collect();
        let chunks: Vec<_> = read
            .into_iter()
            .zip(texts)
            .flat_map(|(chunks, (_, rate))| chunks.into_iter().map(move |chunk| (chunk, 1.0 - rate)))
            .collect();
        let cores = if chunks.len() < rayon::current_num_threads() { Cores::All } else { Cores::One };
        let compressed = on_all_cores(chunks, |(chunk, dropped)| {
            let keep = self.encoder.keep(&chunk, cores)?;
            let written =
                chunk.iter().zip(keep).filter_map(|(token, keep)| Some((self.tokens.written(token.id)?, keep)));
            self.tokens.join(rules.kept(rules.words(written), dropped, weigh)?)
        })?;
        let mut compressed = compressed.into_iter();
        let finish = |((text, rate), count): (&(&str, f64), usize)| match *rate < 1.0 {
            true => compressed.by_ref().take(count).collect(),
            false => text.to_string(),
        };
        Ok(texts.iter().zip(counts).map(finish).collect())
    }

    /// The chunks of a text as the encoder reads them. The tokens of a chunk are made text and tokens again, as the
    /// published code does: they may be others then.
    fn read(&self, rules: &Rules, text: &str) -> Result<Vec<Vec<Placed>>> {
        let tokens = self.tokens.of(&rules.stand_in(text))?;
        let chunks = chunks(&tokens, &rules.ends()).into_iter();
        chunks.map(|chunk| self.tokens.placed(&self.tokens.join(tokens[chunk].to_vec())?)).collect()
    }
}

fn check(rate: f64) -> Result<()> {
    match rate > 0.0 && rate <= 1.0 {
        true => Ok(()),
        false => Err(LmError::Compression(format!(
            "the rate {rate} is none: expected the share of a text to keep, a number above 0 and at most 1"
        ))),
    }
}

#[cfg(test)]
mod tests;
