//! Anchoring without a language model (`asap.anchor.provider = 'extractive'`).

use std::sync::Arc;

use asap_kernels::extractive::{core, write};
use async_trait::async_trait;

use super::algorithm1::of_steps;
use super::{Anchorer, NO_ANCHOR, Pruned, Refusal, Row, chain_and_thought, question_and_answer};
use crate::cores;
use crate::llm::chat::FailureKind;
use crate::llm::{Result, Statement};

const ROWS_IN_FLIGHT: usize = 64;

/// The anchorer with rules. It keeps whole steps, each its own match.
#[derive(Debug)]
pub struct Rules;

#[async_trait]
impl Anchorer for Rules {
    fn window(&self) -> usize {
        ROWS_IN_FLIGHT
    }

    async fn anchor(
        &self,
        question: Option<&str>,
        answer: Option<&str>,
        _: Option<&Arc<Statement>>,
    ) -> Result<Row<String>> {
        let (question, answer) = match question_and_answer(question, answer) {
            Ok((question, answer)) => (question.to_string(), answer.to_string()),
            Err(refusal) => return Ok(Row::unasked(Err(refusal))),
        };
        let thought = cores::run(move || write(&question, &answer)).await?;
        Ok(Row::unasked(thought.ok_or_else(|| Refusal::new(NO_ANCHOR, "expected an answer with a word, found none"))))
    }

    async fn coarse(
        &self,
        cot: Option<&str>,
        thought: Option<&str>,
        _: Option<&Arc<Statement>>,
    ) -> Result<Row<Pruned>> {
        let [cot, thought] = [cot, thought].map(|text| text.map(str::to_string));
        let outcome = cores::run(move || {
            let (_, original, thought) = chain_and_thought(cot.as_deref(), thought.as_deref())?;
            Ok(prune(&original, thought))
        });
        Ok(Row::unasked(outcome.await?))
    }

    async fn complete(&self, _: &str, _: Option<&Arc<Statement>>) -> Result<Row<String>> {
        // Planning refuses such a query.
        Ok(Row::unasked(Err(Refusal::new(FailureKind::Refused.name(), "rules cannot answer prompts"))))
    }
}

fn prune(original: &[&str], thought: &str) -> Pruned {
    of_steps(original, &core(original, thought))
}
