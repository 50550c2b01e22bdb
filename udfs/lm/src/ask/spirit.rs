//! Greedy pruning of steps: each removal scores the remaining steps again.

use crate::score::row::{Over, QuestionAndSteps, Wanted};
use crate::score::scorer::{Left, Reading, Scored, Scorer};
use crate::text::joined::Joined;
use crate::{Result, Tokenizer};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreedilyPruned {
    pub kept: Vec<usize>,
    /// Number of removed steps, with one round of reading each.
    pub rounds: usize,
    pub tokens: usize,
}

impl Scorer {
    /// SPIRIT (Cui et al. 2025) without merging by a language model. Returns the indices of the kept steps, ascending.
    ///
    /// Each round removes the step without which the mean −ln P per token is lowest. The mean is over the rest of the
    /// chain, its closing tag, and the answer. On ties the earlier step is removed. Rounds repeat until the joined rest
    /// has at most `max_tokens` tokens of `tokenizer`. Each round reads the rest once, and what differs from it without
    /// each step: K²N/6 tokens in total for a chain of K steps and N tokens.
    ///
    /// The inner `Err` holds the reason why a chain has no scores.
    pub async fn prune_greedily(
        &self,
        chain: &QuestionAndSteps<'_>,
        answer: &str,
        tokenizer: &Tokenizer,
        max_tokens: usize,
    ) -> Result<std::result::Result<GreedilyPruned, Scored>> {
        let mut joined = Joined::new(tokenizer, &chain.steps)?;
        let kept = (0..chain.steps.len()).collect();
        let mut pruned = GreedilyPruned { kept, rounds: 0, tokens: 0 };
        while joined.tokens() > max_tokens && !pruned.kept.is_empty() {
            let steps = pruned.kept.iter().map(|step| chain.steps[*step]).collect();
            let rest = QuestionAndSteps { question: chain.question, steps };
            let reading = Reading::Answer { chain: rest, answer, left: Left::AllButOne, over: Over::Chain };
            let prepared = self.prepare(&[reading], Wanted::AllTokens)?;
            pruned.rounds += 1;
            pruned.tokens += prepared.tokens();
            let without = match self.score(prepared).await?.pop() {
                Some(Scored::Steps(scores)) => scores,
                other => return Ok(Err(other.unwrap_or(Scored::NotFinite))),
            };
            let nats = without.answers.iter().skip(1);
            let lowest = nats.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(place, _)| place);
            joined.remove(pruned.kept.remove(lowest))?;
        }
        Ok(Ok(pruned))
    }
}
