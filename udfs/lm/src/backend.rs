//! The contract of a backend: what runs a scoring model, and answers three questions about token ids.
//!
//! Everything is plain data: ids in, log-probabilities out. A backend knows no text, no prompt and no cache. The thread of
//! the model asks it one question at a time, and packs the rows of all callers into one request.
//!
//! | question | method | who asks it |
//! |---|---|---|
//! | log-probabilities of tokens at positions | [`Backend::score`] | `cot_surprisal`, `cot_perplexity`, … |
//! | the same in several texts that share a beginning | [`Backend::score_forks`] | `cot_attribution` |
//! | a short greedy continuation | [`Backend::continue_greedily`] | `cot_survives`, the pipeline `verified`, `asap exam` |
//!
//! To write a backend, implement the first question and [`Backend::name`]. Without the second, forks are read as whole
//! texts. Without the third, and without entropies or ranks, functions that need them are refused before the first row.
//! This backend finds every token equally likely:
//!
//! ```
//! use std::sync::Arc;
//! use asap_lm::backend::{Backend, IsWanted, Packed, Target, TokenScore};
//! use asap_lm::{Asked, LoadedModel, QuestionAndSteps, Reading, SMALL, Scored, Scorer, Tokenizer, Wanted, locate};
//!
//! struct Uniform(f32);
//!
//! impl Backend for Uniform {
//!     fn name(&self) -> &'static str {
//!         "uniform"
//!     }
//!
//!     fn score(&mut self, _: Packed, targets: &[Target], _: &IsWanted) -> asap_lm::Result<Vec<TokenScore>> {
//!         Ok(vec![TokenScore { surprisal: self.0, entropy: self.0, rank: 1 }; targets.len()])
//!     }
//! }
//!
//! let (folder, memory) = (locate(SMALL)?, Arc::default());
//! let tokenizer = Arc::new(Tokenizer::load_within(&folder, &memory)?);
//! let nats = 2430_f32.ln();
//! let model = Arc::new(LoadedModel::with_backends(vec![Box::new(Uniform(nats))], &folder, &tokenizer, &memory)?);
//! let scorer = Scorer::new(&folder, None, tokenizer, model, &memory)?;
//!
//! let chain = QuestionAndSteps::new(Asked::from("2 + 2?"), vec!["2 + 2 is 4.", "Done."]);
//! let prepared = scorer.prepare(&[Reading::Chain(chain)], Wanted::FirstTokens)?;
//! let scored = futures::executor::block_on(scorer.score(prepared))?;
//! let Scored::Steps(scores) = &scored[0] else { panic!("{scored:?}") };
//! assert!(scores.first.iter().all(|token| token.is_some_and(|token| token.surprisal == nats)));
//! # Ok::<(), asap_lm::LmError>(())
//! ```

use std::ops::Range;

use crate::{LmError, Result};

/// Most tokens per forward pass: several chains, or a part of a longer chain.
pub(crate) const TOKENS_PER_PASS: usize = 8192;

/// Whether a caller still waits for the result. A backend asks it at least once per second, and returns
/// [`LmError::Abandoned`] after it was false.
pub type IsWanted<'a> = dyn Fn() -> bool + Sync + 'a;

/// Several chains, one after the other. They do not attend to each other.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    pub ids: &'a [u32],
    /// The number of tokens of each chain.
    pub lengths: &'a [usize],
}

/// A token to score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The index, in the ids of all chains together, of the token before it, which predicts it.
    pub row: u32,
    pub id: u32,
}

/// The score of a token. NaN or an infinite value makes its row fail, not its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenScore {
    /// −ln P of the token, in nats.
    pub surprisal: f32,
    /// The entropy of the distribution that predicts the token, in nats; 0 if the backend has none.
    pub entropy: f32,
    /// 1 + the number of tokens with a higher logit; 0 if the backend has none.
    pub rank: u32,
}

impl TokenScore {
    /// The score of a token that could not be scored.
    pub const NONE: Self = Self { surprisal: f32::NAN, entropy: f32::NAN, rank: 0 };
}

/// A text that continues from a prefix of another text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The number of tokens that it takes from the other text.
    pub from: usize,
    /// Its own tokens, which follow them.
    pub ids: Vec<u32>,
    /// The number of tokens to score before its own tokens; their scores are the first ones of the other text.
    pub scored_there: usize,
    /// Its own tokens to score; never the first one, so that its own token predicts each.
    pub scored: Range<usize>,
}

pub(crate) const ENTROPIES: &str = "compute entropies";
pub(crate) const RANKS: &str = "rank tokens (of servers, vLLM does)";
pub(crate) const CONTINUE: &str = "continue a text, to check whether an answer survives";

/// What a function asks of a backend besides log-probabilities of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asks {
    pub entropies: bool,
    pub ranks: bool,
    pub continuations: bool,
}

/// The key of a question: texts with equal keys share their beginning.
pub type QuestionKey = [u8; 32];

/// A text that is continued in two ways: by an answer to score, and by what the model writes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    pub question: QuestionKey,
    /// The beginning of both ways.
    pub shared: Vec<u32>,
    /// What follows `shared` up to the answer; never empty. The model writes after it.
    pub before_answer: Vec<u32>,
    /// What follows `shared` up to the answer's end.
    pub with_answer: Vec<u32>,
    /// The index in `with_answer` of the answer's first token; at least 1, so that a token predicts it.
    pub answer: usize,
    /// Whether the model writes its own answer too.
    pub states: bool,
}

/// The result of a [`Continuation`], and the tokens that it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Continued {
    /// The mean ln P of the answer's tokens, in nats.
    pub log_probability: f64,
    /// The text of the likeliest tokens, one by one, up to the brace that closes the box, the end of the text, or 64
    /// tokens. None if the model was not asked to write.
    pub stated: Option<String>,
    pub tokens_read: usize,
    pub tokens_written: usize,
}

/// Returns forks as whole texts: their ids, the number of tokens of each, and their targets.
pub fn whole(texts: &[Fork]) -> (Vec<u32>, Vec<usize>, Vec<Target>) {
    let (mut ids, mut lengths, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts {
        let start = ids.len();
        ids.extend_from_slice(&texts[0].ids[..text.from]);
        targets.extend(text.targets(ids.len()));
        ids.extend_from_slice(&text.ids);
        lengths.push(ids.len() - start);
    }
    (ids, lengths, targets)
}

/// What runs a model. It lives on the thread of its model, which asks one question at a time.
pub trait Backend: Send {
    /// The name in messages, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Whether scores have entropies.
    fn has_entropies(&self) -> bool {
        true
    }

    /// Whether scores have ranks.
    fn has_ranks(&self) -> bool {
        true
    }

    /// Whether it answers [`Backend::continue_greedily`].
    fn continues(&self) -> bool {
        false
    }

    /// Most tokens of a batch; a longer chain is a batch of its own. It may change between batches.
    fn tokens_per_batch(&self) -> usize {
        TOKENS_PER_PASS
    }

    /// Scores `targets`, in their order. Scores of a chain must not depend on the other chains of the batch, beyond
    /// rounding.
    ///
    /// # Errors
    /// An error fails the query of each row of the batch. [`LmError::Rejected`] fails these rows only.
    /// [`LmError::Abandoned`] soon after `is_wanted` returns false.
    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>>;

    /// Scores the tokens of texts, text by text. All texts except the first continue from a prefix of the first. This
    /// default reads each as a whole text.
    ///
    /// # Errors
    /// As [`Backend::score`].
    fn score_forks(&mut self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let (ids, lengths, targets) = whole(texts);
        self.score(Packed { ids: &ids, lengths: &lengths }, &targets, is_wanted)
    }

    /// Scores the answer after each text, and writes the model's own, greedily.
    ///
    /// # Errors
    /// As [`Backend::score`]. This default refuses.
    fn continue_greedily(&mut self, _texts: &[&Continuation], _is_wanted: &IsWanted) -> Result<Vec<Continued>> {
        Err(LmError::Refused { backend: self.name(), question: CONTINUE })
    }
}
