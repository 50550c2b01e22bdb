//! The encoder's tokenizer: splits texts into tokens and chunks, and joins kept words.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use tokenizers::{AddedToken, Decoder, Tokenizer};

use super::Placed;
use crate::model::config::{EncoderConfig, EncoderFamily};
use crate::text::tokenizer;
use crate::{LmError, Result};

pub(super) const WINDOW: usize = 512;
/// The most force tokens that a call may have: the number of placeholder tokens.
pub(super) const PLACEHOLDERS: usize = 100;

/// A tokenizer with placeholder tokens for texts that are not one of its tokens.
pub(super) struct Tokens {
    inner: Tokenizer,
    family: EncoderFamily,
    /// Tokens before and after a text: `[CLS]` and `[SEP]` of BERT, the unknown token twice for XLM-RoBERTa. The
    /// published code asks its tokenizer for BERT's names too, and the model is used the same way here.
    around: [u32; 2],
    /// `[PAD]`, if present: the encoder never sees it, not even if a text spells it.
    unseen: Option<u32>,
    pad: u32,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Tokens").field("family", &self.family).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads `tokenizer.json` of a model folder and adds missing placeholder tokens.
    pub(super) fn load(folder: &Path, config: &EncoderConfig) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let unsupported = |found: String| LmError::unsupported(&path, found);
        let (_, mut inner) = tokenizer::read(&path)?;
        if let Some(id) = inner.get_vocab(true).into_values().max().filter(|id| *id as usize >= config.vocab_size) {
            return Err(unsupported(format!(
                "found token id {id}, but vocab_size in config.json is {}: expected this model's tokenizer",
                config.vocab_size
            )));
        }
        let unknown = if config.family == EncoderFamily::Bert { "[UNK]" } else { "<unk>" };
        let Some(unknown) = inner.token_to_id(unknown) else {
            return Err(unsupported(format!("found no token {unknown}: expected a {:?} tokenizer", config.family)));
        };
        let placeholders: Vec<_> = (0..PLACEHOLDERS).map(|i| AddedToken::from(placeholder(i), true)).collect();
        inner.add_special_tokens(placeholders).map_err(|error| unsupported(format!("not a tokenizer: {error}")))?;
        let around = ["[CLS]", "[SEP]"].map(|name| inner.token_to_id(name).unwrap_or(unknown));
        let unseen = inner.token_to_id("[PAD]");
        Ok(Self { inner, family: config.family, around, unseen, pad: config.pad_token_id })
    }

    /// Returns a text's tokens as the tokenizer writes them. An unknown text stays as it is, if the tokenizer keeps it.
    pub(super) fn of(&self, text: &str) -> Result<Vec<String>> {
        Ok(self.inner.encode(text, false)?.get_tokens().to_vec())
    }

    pub(super) fn join(&self, tokens: Vec<String>) -> Result<String> {
        match self.inner.get_decoder() {
            Some(decoder) => Ok(decoder.decode(tokens)?),
            None => Ok(tokens.join(" ")),
        }
    }

    pub(super) fn placed(&self, chunk: &str) -> Result<Vec<Placed>> {
        let encoding = self.inner.encode_fast(chunk, false)?;
        let [before, after] = self.around;
        let ids = [&[before], encoding.get_ids(), &[after]].concat();
        let mut next = 0;
        let place = |id: u32| {
            let position = match self.family {
                EncoderFamily::XlmRoberta if id == self.pad => return Placed { id, position: self.pad as usize },
                EncoderFamily::XlmRoberta => self.pad as usize + 1 + next,
                EncoderFamily::Bert => next,
            };
            next += 1;
            Placed { id, position }
        };
        let placed = ids.into_iter().take(WINDOW).map(place);
        Ok(placed.filter(|token| Some(token.id) != self.unseen).collect())
    }

    /// A token as the tokenizer writes it; None for a special or unknown token.
    pub(super) fn written(&self, id: u32) -> Option<String> {
        let is_text = |token: &String| match self.family {
            EncoderFamily::XlmRoberta => !["<s>", "</s>", "<unk>", "<pad>", "<mask>"].contains(&token.as_str()),
            EncoderFamily::Bert => !["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"].contains(&token.as_str()),
        };
        self.inner.id_to_token(id).filter(is_text)
    }
}

/// Splits tokens into chunks of at most [`WINDOW`] − 1. Each except the last ends at the last token of `ends` in its
/// window, or at the end of the window.
///
/// This is one token more than the encoder reads besides the two around a text, so it misses the last token of a chunk
/// that does not end at such a token. The published code counts the same way.
pub(super) fn chunks(tokens: &[String], ends: &[&str]) -> Vec<RangeInclusive<usize>> {
    let mut chunks = Vec::new();
    let mut first = 0;
    while first < tokens.len() {
        let furthest = first + WINDOW - 2;
        let last = match furthest < tokens.len() {
            true => (first + 1..=furthest).rev().find(|i| ends.contains(&tokens[*i].as_str())).unwrap_or(furthest),
            false => tokens.len() - 1,
        };
        chunks.push(first..=last);
        first = last + 1;
    }
    chunks
}

pub(super) fn placeholder(place: usize) -> String {
    format!("[NEW{place}]")
}
