//! Anchoring without a language model (`asap.anchor.provider = 'extractive'`).

use asap_kernels::extractive::{core, write};
use asap_kernels::steps::Separator;
use async_trait::async_trait;

use super::algorithm1::of_steps;
use super::{Anchored, Anchorer, InStatement, NO_ANCHOR, Pruned, Refusal};
use crate::cores;
use asap_llm::Result;
use asap_llm::chat::FailureKind;

const ROWS_IN_FLIGHT: usize = 64;

/// The anchorer with rules. It keeps whole steps, each its own match.
#[derive(Debug)]
pub struct Rules {
    pub separator: Separator,
}

#[async_trait]
impl Anchorer for Rules {
    fn window(&self) -> usize {
        ROWS_IN_FLIGHT
    }

    async fn thought(&self, question: &str, answer: &str, _: InStatement<'_>) -> Result<Anchored<String>> {
        let [question, answer] = [question, answer].map(str::to_string);
        let thought = cores::run(move || write(&question, &answer)).await?;
        Ok(Anchored::unasked(
            thought.ok_or_else(|| Refusal::new(NO_ANCHOR, "expected an answer with a word, found none")),
        ))
    }

    async fn pruning(&self, cot: &str, thought: &str, _: InStatement<'_>) -> Result<Anchored<Pruned>> {
        let [cot, thought] = [cot, thought].map(str::to_string);
        let separator = self.separator;
        let pruned = cores::run(move || {
            let original = separator.steps(&cot);
            of_steps(&original, &core(&original, &thought))
        });
        Ok(Anchored::unasked(Ok(pruned.await?)))
    }

    async fn complete(&self, _: &str, _: InStatement<'_>) -> Result<Anchored<String>> {
        // Planning refuses such a query.
        Ok(Anchored::unasked(Err(Refusal::new(FailureKind::Refused.name(), "rules cannot answer prompts"))))
    }
}
