//! A stub model that counts the tokens it would read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Result;
use super::check::{Check, Survival};
use super::layer::IsWanted;
use super::output::{Target, TokenScore};
use super::pass::Packed;
use super::row::Fork;
use super::survival::CountedChecks;
use super::thread::Model;

/// Counts tokens without reading them, and scores every token with 0.
#[derive(Debug)]
pub(super) struct Counted {
    tokens: Arc<AtomicU64>,
    checks: CountedChecks,
}

impl Counted {
    pub(super) fn new(tokens: Arc<AtomicU64>) -> Self {
        Self { tokens, checks: CountedChecks::default() }
    }
}

const ZERO: TokenScore = TokenScore { surprisal: 0.0, entropy: 0.0 };

impl Model for Counted {
    fn score(&mut self, chains: Packed, targets: &[Target], _: &IsWanted) -> Result<Vec<TokenScore>> {
        self.tokens.fetch_add(chains.ids.len() as u64, Ordering::Relaxed);
        Ok(vec![ZERO; targets.len()])
    }

    fn score_answers(&mut self, texts: &[Fork], _: &IsWanted) -> Result<Vec<TokenScore>> {
        self.tokens.fetch_add(texts.iter().map(|text| text.ids.len() as u64).sum(), Ordering::Relaxed);
        Ok(vec![ZERO; texts.iter().map(|text| text.scored.len()).sum()])
    }

    fn check(&mut self, checks: &[&Check], _: &IsWanted) -> Result<Vec<Survival>> {
        let counted = self.checks.check(checks);
        let tokens = counted.iter().map(|survival| (survival.tokens_read + survival.tokens_written) as u64);
        self.tokens.fetch_add(tokens.sum(), Ordering::Relaxed);
        Ok(counted)
    }
}
