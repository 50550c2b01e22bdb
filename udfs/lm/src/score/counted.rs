//! A stub model that counts the tokens it would read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::ask::survival::CountedChecks;
use crate::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, Target, TokenScore};

#[derive(Debug)]
pub(crate) struct Counted {
    tokens: Arc<AtomicU64>,
    checks: CountedChecks,
}

impl Counted {
    pub(crate) fn new(tokens: Arc<AtomicU64>) -> Self {
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
        self.tokens.fetch_add(chains.ids.len() as u64, Ordering::Relaxed);
        Ok(vec![ZERO; targets.len()])
    }

    fn score_forks(&mut self, texts: &[Fork], _: &IsWanted) -> Result<Vec<TokenScore>> {
        self.tokens.fetch_add(texts.iter().map(|text| text.ids.len() as u64).sum(), Ordering::Relaxed);
        Ok(vec![ZERO; texts.iter().map(|text| text.scored.len()).sum()])
    }

    fn continue_greedily(&mut self, texts: &[&Continuation], _: &IsWanted) -> Result<Vec<Continued>> {
        let counted = self.checks.check(texts);
        let tokens = counted.iter().map(|survival| (survival.tokens_read + survival.tokens_written) as u64);
        self.tokens.fetch_add(tokens.sum(), Ordering::Relaxed);
        Ok(counted)
    }
}
