//! A stub model that counts the tokens it would read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::ask::survival::CountedChecks;
use crate::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, Target, TokenScore};

/// The tokens that a model would read and write.
#[derive(Debug, Default)]
pub struct TokenCount {
    pub all: AtomicU64,
    /// Those of [`Self::all`] that it would write, at most.
    pub written: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Counted {
    tokens: Arc<TokenCount>,
    checks: CountedChecks,
}

impl Counted {
    pub(crate) fn new(tokens: Arc<TokenCount>) -> Self {
        Self { tokens, checks: CountedChecks::default() }
    }
}

const ZERO: TokenScore = TokenScore { surprisal: 0.0, entropy: 0.0, rank: 1 };

impl Backend for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn continues(&self) -> bool {
        true
    }

    fn score(&mut self, chains: Packed, targets: &[Target], _: &IsWanted) -> Result<Vec<TokenScore>> {
        self.tokens.all.fetch_add(chains.ids.len() as u64, Ordering::Relaxed);
        Ok(vec![ZERO; targets.len()])
    }

    fn score_forks(&mut self, texts: &[Fork], _: &IsWanted) -> Result<Vec<TokenScore>> {
        self.tokens.all.fetch_add(texts.iter().map(|text| text.ids.len() as u64).sum(), Ordering::Relaxed);
        Ok(vec![ZERO; texts.iter().map(|text| text.scored.len()).sum()])
    }

    fn continue_greedily(&mut self, texts: &[&Continuation], _: &IsWanted) -> Result<Vec<Continued>> {
        let counted = self.checks.check(texts);
        let read: usize = counted.iter().map(|survival| survival.tokens_read).sum();
        let written: usize = counted.iter().map(|survival| survival.tokens_written).sum();
        self.tokens.all.fetch_add((read + written) as u64, Ordering::Relaxed);
        self.tokens.written.fetch_add(written as u64, Ordering::Relaxed);
        Ok(counted)
    }
}
