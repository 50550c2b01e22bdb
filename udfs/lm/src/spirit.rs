//! Steps that go by what the rest is worth without them, each judged anew when another one has gone.

use super::joined::Joined;
use super::row::{Over, Wanted};
use super::scorer::{Left, QuestionAndSteps, Reading, Scored, Scorer};
use super::{Result, Tokenizer};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreedilyPruned {
    pub kept: Vec<usize>,
    /// Steps that went: rounds in which the model read what is left.
    pub rounds: usize,
    pub tokens: usize,
}

impl Scorer {
    /// SPIRIT (Cui et al. 2025) without its merging by a language model: which steps, ascending, from 0, are left when the
    /// step goes without which the mean −ln P of a token is the lowest, over what is left of the chain, what closes it, and
    /// the answer, until the joined rest has at most `max_tokens` tokens of `tokenizer`. Of equal ones the earlier step goes.
    /// Each of these rounds reads the rest once and what differs from it without each of its steps: for a chain of K steps
    /// and N tokens, all rounds together K²N/6 tokens.
    ///
    /// The second `Err` says why a chain has no scores.
    ///
    /// # Errors
    /// If the tokenizer, the prompt or the model fails.
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
