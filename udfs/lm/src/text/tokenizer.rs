//! The tokenizer of a model.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::text::byte_level::ByteLevel;
use crate::text::cuts::Cuts;
use crate::{LmError, Result};
use asap_kernels::memo::{Memo, Memory, share};

/// Memory per cache entry besides its value, so that many short texts do not exceed the limit.
const ENTRY_BYTES: usize = 256;
const NFC_SHRINKS: usize = 4;
/// Ids of tokens are below this number, far above the vocabulary of any model.
const MOST_IDS: u64 = 1 << 24;

/// A tokenizer.json with truncation and padding disabled.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    byte_level: Option<ByteLevel>,
    /// Whether an id is that of an added token, which is found in a text before it is split.
    is_added: Vec<bool>,
    special: Vec<u32>,
    /// The most bytes of a text, except white space, that an added token that begins before the text can cover.
    reach: usize,
    cuts: Cuts,
    /// Token counts of each ASCII letter and digit as a separate text.
    letters: [usize; 128],
    /// Recently tokenized chains by the SHA-256 of their text: several functions need the same chain.
    chains: Memo<[u8; 32], EncodedChain>,
    lengths: Memo<[u8; 32], usize>,
    #[cfg(test)]
    tokenized_bytes: std::sync::atomic::AtomicUsize,
}

#[derive(Debug)]
pub struct EncodedChain {
    encoded: Encoded,
    holds_added_tokens: bool,
}

impl EncodedChain {
    pub(crate) fn len(&self) -> usize {
        self.encoded.ids.len()
    }

    pub(crate) fn tokens_before(&self, byte: usize) -> usize {
        self.encoded.offsets.partition_point(|(start, _)| (*start as usize) < byte)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    pub ids: Vec<u32>,
    /// Byte range of each token in the text; empty for special tokens that were added.
    pub offsets: Vec<(u32, u32)>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model folder.
    pub fn load(folder: &Path) -> Result<Self> {
        Self::load_within(folder, &Arc::default())
    }

    /// Like [`Tokenizer::load`], with caches within `memory`.
    pub fn load_within(folder: &Path, memory: &Arc<Memory>) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let (json, inner) = read(&path)?;
        let added = inner.get_added_tokens_decoder();
        let mut is_added = vec![false; added.keys().max().map_or(0, |id| *id as usize + 1)];
        added.keys().for_each(|id| is_added[*id as usize] = true);
        let special = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        let longest = added.values().map(|token| token.content.len()).max();
        let mut tokenizer = Self {
            byte_level: ByteLevel::of(&json, &inner),
            cuts: Cuts::of(&json, added.values()),
            is_added,
            special,
            reach: NFC_SHRINKS * longest.unwrap_or_default(),
            letters: [0; 128],
            chains: Memo::new(memory, share::CHAINS),
            lengths: Memo::new(memory, share::LENGTHS),
            #[cfg(test)]
            tokenized_bytes: Default::default(),
            inner,
        };
        for letter in (0..128u8).filter(u8::is_ascii_alphanumeric) {
            tokenizer.letters[letter as usize] = tokenizer.count(&char::from(letter).to_string())?;
        }
        Ok(tokenizer)
    }

    /// Counts the tokens of a text, without special tokens.
    pub fn count(&self, text: &str) -> Result<usize> {
        #[cfg(test)]
        self.note(text);
        if let Some((_, ids)) = self.byte_level_ids(text)? {
            return Ok(ids.len());
        }
        Ok(self.inner.encode_fast(text, false)?.len())
    }

    /// Tokenizes a text, with byte offsets. `special` adds the tokenizer's own tokens around it (a BOS).
    pub fn encode(&self, text: &str, special: bool) -> Result<Encoded> {
        #[cfg(test)]
        self.note(text);
        let Some((byte_level, ids)) = self.byte_level_ids(text)? else {
            let encoding = self.inner.encode(text, special)?;
            let offsets = encoding.get_offsets().iter().map(|(from, to)| (*from as u32, *to as u32)).collect();
            return Ok(Encoded { ids: encoding.get_ids().to_vec(), offsets });
        };
        let offsets = byte_level.offsets(text, &ids).collect();
        let mut encoded = Encoded { ids, offsets };
        if special {
            let [before, after] = &byte_level.around;
            encoded.insert(0, before, &vec![(0, 0); before.len()]);
            encoded.insert(encoded.ids.len(), after, &vec![(0, 0); after.len()]);
        }
        Ok(encoded)
    }

    /// Tokenizes a prompt followed by a chain; the result equals [`Tokenizer::encode`] of the whole text. The chain is
    /// tokenized separately and cached. The prompt is tokenized with as much of the chain as it could affect.
    pub(crate) fn encode_with_prompt(&self, prompt: &str, text: &str, special: bool) -> Result<Encoded> {
        let chain = self.chain(text)?;
        let reach = text.ceil_char_boundary(self.reach);
        let Some(cut) = self.cuts(&chain).first(&text[reach..]).map(|cut| reach + cut) else {
            return self.encode(&[prompt, text].concat(), special);
        };
        let mut encoded = self.encode(&[prompt, &text[..cut]].concat(), special)?;
        // Special tokens that the tokenizer appends, such as an EOS, stay last. Their byte ranges are empty.
        let end = encoded.offsets.iter().rposition(|(from, to)| from < to).map_or(0, |last| last + 1);
        let rest = chain.tokens_before(cut);
        let in_row = |(from, to): &(u32, u32)| (from + prompt.len() as u32, to + prompt.len() as u32);
        let offsets: Vec<_> = chain.encoded.offsets[rest..].iter().map(in_row).collect();
        encoded.insert(end, &chain.encoded.ids[rest..], &offsets);
        Ok(encoded)
    }

    /// Decodes tokens to text, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        Ok(self.inner.decode(ids, true)?)
    }

    /// Returns the text of tokens, such as ` word` with its space, with special tokens. Half of a character becomes
    /// U+FFFD.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        Ok(self.inner.decode(ids, false)?)
    }

    /// Returns whether a token is special, such as the end of a turn.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Tokenizes a chain without special tokens, cached.
    pub fn chain(&self, text: &str) -> Result<Arc<EncodedChain>> {
        self.remembered_chain(key(text), text)
    }

    /// Counts the tokens of a chain, or of the result of [`Joined`](crate::Joined), without special tokens.
    pub fn length(&self, text: &str) -> Result<usize> {
        let key = key(text);
        if let Some(length) = self.lengths.get(&key) {
            return Ok(*length);
        }
        Ok(self.remembered_chain(key, text)?.len())
    }

    pub(crate) fn remember_length(&self, text: &str, tokens: usize) {
        let key = key(text);
        self.lengths.insert(key, Arc::new(tokens), ENTRY_BYTES);
    }

    fn remembered_chain(&self, key: [u8; 32], text: &str) -> Result<Arc<EncodedChain>> {
        if let Some(chain) = self.chains.get(&key) {
            return Ok(chain);
        }
        let encoded = self.encode(text, false)?;
        let is_added = |id: &u32| self.is_added.get(*id as usize).copied().unwrap_or_default();
        let chain = Arc::new(EncodedChain { holds_added_tokens: encoded.ids.iter().any(is_added), encoded });
        let bytes = chain.len() * (size_of::<u32>() + size_of::<(u32, u32)>()) + ENTRY_BYTES;
        self.chains.insert(key, Arc::clone(&chain), bytes);
        Ok(chain)
    }

    /// Tokenizes with the fast path; None if the text needs the tokenizers crate.
    fn byte_level_ids(&self, text: &str) -> Result<Option<(&ByteLevel, Vec<u32>)>> {
        let Some(byte_level) = &self.byte_level else { return Ok(None) };
        let ids = byte_level.encode(self.inner.get_model(), text)?;
        Ok(ids.map(|ids| (byte_level, ids)))
    }

    /// Returns the largest id of a vocabulary token, or of a token that it adds to texts; None without tokens.
    pub fn largest_id(&self) -> Option<u32> {
        let around = self.inner.encode("", true).map_or(vec![], |encoding| encoding.get_ids().to_vec());
        self.inner.get_vocab(true).into_values().chain(around).max()
    }

    #[cfg(test)]
    pub(crate) fn tokenized_bytes(&self) -> usize {
        self.tokenized_bytes.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[cfg(test)]
    fn note(&self, text: &str) {
        self.tokenized_bytes.fetch_add(text.len(), std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn cuts(&self, chain: &EncodedChain) -> Cuts {
        if chain.holds_added_tokens { Cuts::Unknown } else { self.cuts }
    }

    pub(crate) fn count_of_letter(&self, letter: u8) -> usize {
        self.letters.get(letter as usize).copied().unwrap_or_default()
    }
}

/// Reads a `tokenizer.json` without its truncation and padding; also returns it as JSON.
pub(crate) fn read(path: &Path) -> Result<(Value, tokenizers::Tokenizer)> {
    let bytes = std::fs::read(path).map_err(LmError::reading(path))?;
    let text = String::from_utf8(bytes).map_err(|error| no_tokenizer(path)(error.into()))?;
    let json = serde_json::from_str(&text).map_err(|error| no_tokenizer(path)(error.into()))?;
    check_ids(&json).map_err(|found| LmError::unsupported(path, found))?;
    // Not `from_bytes`, which would compile the readers of all kinds of tokenizers here again.
    let mut tokenizer: tokenizers::Tokenizer = text.parse().map_err(no_tokenizer(path))?;
    tokenizer.with_truncation(None).map_err(no_tokenizer(path))?;
    tokenizer.with_padding(None);
    Ok((json, tokenizer))
}

/// Refuses ids that no vocabulary reaches: memory is taken for each id up to the largest.
fn check_ids(json: &Value) -> std::result::Result<(), String> {
    let check = |field: &str, token: &str, id: &Value| match id.as_u64().filter(|id| *id < MOST_IDS) {
        Some(_) => Ok(()),
        None => {
            let token: String = token.chars().take(40).collect();
            Err(format!("{field} gives {token:?} the id {id}: expected a whole number below {MOST_IDS}"))
        }
    };
    if let Some(vocabulary) = json["model"]["vocab"].as_object() {
        vocabulary.iter().try_for_each(|(token, id)| check("model.vocab", token, id))?;
    }
    for added in json["added_tokens"].as_array().into_iter().flatten() {
        check("added_tokens", added["content"].as_str().unwrap_or_default(), &added["id"])?;
    }
    // It names ids in several ways, and no other large numbers.
    let mut parts = vec![("", &json["post_processor"])];
    while let Some((token, part)) = parts.pop() {
        match part {
            Value::Number(_) => check("post_processor", token, part)?,
            Value::Array(all) => {
                let token = all.first().and_then(Value::as_str).unwrap_or(token);
                parts.extend(all.iter().map(|part| (token, part)));
            }
            Value::Object(fields) => {
                let token = fields.get("id").and_then(Value::as_str).unwrap_or(token);
                parts.extend(fields.values().map(|part| (token, part)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn no_tokenizer(path: &Path) -> impl Fn(tokenizers::Error) -> LmError {
    move |error| LmError::unsupported(path, format!("not a tokenizer: {error}"))
}

impl Encoded {
    fn insert(&mut self, place: usize, ids: &[u32], offsets: &[(u32, u32)]) {
        self.ids.splice(place..place, ids.iter().copied());
        self.offsets.splice(place..place, offsets.iter().copied());
    }
}

fn key(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("vocabulary", &self.inner.get_vocab_size(true)).finish()
    }
}

#[cfg(test)]
mod tests;
