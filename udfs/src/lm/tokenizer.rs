//! The scoring model's tokenizer.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use sha2::{Digest, Sha256};

use super::cuts::Cuts;
use super::{LmError, Result};

/// How much is remembered, in tokens of four bytes: the chains of a few batches of rows.
const REMEMBERED_TOKENS: usize = 1 << 22;
/// What remembering a chain costs besides its tokens, so that many short texts do not cost more.
const REMEMBERED_TOKENS_BESIDE: usize = 64;

/// A tokenizer.json with the truncation and padding that may be stored in it switched off.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Ids of the tokens that are found in a text before it is split.
    added: HashSet<u32>,
    cuts: Cuts,
    /// The tokens of each ASCII letter and digit that is a text of its own.
    letters: [usize; 128],
    remembered: Mutex<Remembered>,
    tokenized_bytes: AtomicU64,
}

/// A chain as tokens.
#[derive(Debug)]
pub struct Chain {
    starts: Vec<u32>,
    holds_added_tokens: bool,
}

impl Chain {
    /// The number of tokens.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks")]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// The number of tokens that start before a byte.
    pub(super) fn tokens_before(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| (*start as usize) < byte)
    }
}

/// The chains that were last tokenised, by the SHA-256 of their text: several functions ask for the same chain.
struct Remembered {
    chains: LruCache<[u8; 32], Arc<Chain>>,
    tokens: usize,
}

/// A text as tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Each token's bytes in the text, from and to; special tokens that were added cover none.
    pub offsets: Vec<(usize, usize)>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model's folder.
    ///
    /// # Errors
    /// If the file is missing or is not a tokenizer.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|source| LmError::Read { path: path.clone(), source })?;
        let no_tokenizer = |error: &dyn fmt::Display| LmError::Unsupported {
            path: path.clone(),
            found: format!("not a tokenizer: {error}"),
        };
        let json = serde_json::from_slice(&bytes).map_err(|error| no_tokenizer(&error))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| no_tokenizer(&error))?;
        inner.with_truncation(None).map_err(|error| no_tokenizer(&error))?;
        inner.with_padding(None);

        let added = inner.get_added_tokens_decoder();
        let mut tokenizer = Self {
            cuts: Cuts::of(&json, added.values()),
            added: added.into_keys().collect(),
            letters: [0; 128],
            remembered: Mutex::new(Remembered { chains: LruCache::unbounded(), tokens: 0 }),
            tokenized_bytes: AtomicU64::new(0),
            inner,
        };
        for letter in (0..128u8).filter(u8::is_ascii_alphanumeric) {
            tokenizer.letters[letter as usize] = tokenizer.count(&char::from(letter).to_string())?;
        }
        Ok(tokenizer)
    }

    /// The number of tokens of a text, no special tokens added.
    pub fn count(&self, text: &str) -> Result<usize> {
        self.note(text);
        let encoding = self.inner.encode_fast(text, false).map_err(|error| LmError::Tokenize(error.to_string()))?;
        Ok(encoding.len())
    }

    /// A text's tokens with their byte offsets; `special` adds what the tokenizer itself puts around a text (a BOS).
    pub fn encode(&self, text: &str, special: bool) -> Result<Encoded> {
        self.note(text);
        let encoding = self.inner.encode(text, special).map_err(|error| LmError::Tokenize(error.to_string()))?;
        Ok(Encoded { ids: encoding.get_ids().to_vec(), offsets: encoding.get_offsets().to_vec() })
    }

    /// The text of tokens, without special ones.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, true).map_err(|error| LmError::Tokenize(error.to_string()))
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// A chain's tokens, no special tokens added. The last chains are remembered.
    pub fn chain(&self, text: &str) -> Result<Arc<Chain>> {
        let key: [u8; 32] = Sha256::digest(text).into();
        if let Some(chain) = self.remembered.lock().unwrap_or_else(PoisonError::into_inner).chains.get(&key) {
            return Ok(Arc::clone(chain));
        }
        self.note(text);
        let encoding = self.inner.encode(text, false).map_err(|error| LmError::Tokenize(error.to_string()))?;
        let chain = Arc::new(Chain {
            starts: encoding.get_offsets().iter().map(|(start, _)| *start as u32).collect(),
            holds_added_tokens: encoding.get_ids().iter().any(|id| self.added.contains(id)),
        });
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).add(key, &chain);
        Ok(chain)
    }

    /// The largest id that a text can have; None for a tokenizer without tokens.
    pub fn largest_id(&self) -> Option<u32> {
        self.inner.get_vocab(true).into_values().max()
    }

    /// How much text was tokenised since the tokenizer was loaded, in bytes.
    pub fn tokenized_bytes(&self) -> u64 {
        self.tokenized_bytes.load(Ordering::Relaxed)
    }

    fn note(&self, text: &str) {
        self.tokenized_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
    }

    /// Where steps of a chain can be cut.
    pub(super) fn cuts(&self, chain: &Chain) -> Cuts {
        if chain.holds_added_tokens { Cuts::Unknown } else { self.cuts }
    }

    /// The tokens of an ASCII letter or digit that is a text of its own.
    pub(super) fn count_of_letter(&self, letter: u8) -> usize {
        self.letters.get(letter as usize).copied().unwrap_or_default()
    }
}

impl Remembered {
    fn add(&mut self, key: [u8; 32], chain: &Arc<Chain>) {
        self.tokens += chain.len() + REMEMBERED_TOKENS_BESIDE;
        if let Some(same) = self.chains.put(key, Arc::clone(chain)) {
            self.tokens -= same.len() + REMEMBERED_TOKENS_BESIDE;
        }
        while self.tokens > REMEMBERED_TOKENS {
            let Some((_, oldest)) = self.chains.pop_lru() else { return };
            self.tokens -= oldest.len() + REMEMBERED_TOKENS_BESIDE;
        }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("vocabulary", &self.inner.get_vocab_size(true)).finish()
    }
}
