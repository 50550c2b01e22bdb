//! Anchoring without a language model (`asap.anchor.provider = 'extractive'`): a stand-in that makes the whole flow
//! work offline, for nothing, and the same each time.
//!
//! It does not understand a chain. It follows words, values and the names in code from where a chain brings them to
//! where they are used, and weighs them by form, length and rarity within the row. It holds no list of words of any
//! language. What hangs together only by sense it misses, so it keeps the core of a computation or a program well, and
//! of an argument in words less well than a capable language model does.
//!
//! | module | holds |
//! |---|---|
//! | `words` | texts as words: values, names, code, prose |
//! | `lexicon` | the words of a row as numbers, with what they weigh |
//! | `thought` | `cot_anchor`: what is asked, given and to be reached |
//! | `sums` | which value is made of which others |
//! | `chain` | which part of a chain brings which word |
//! | `path` | `cot_coarse`: what is needed, backward from the answer |

mod chain;
mod lexicon;
mod path;
mod sums;
mod thought;
mod words;

use std::sync::Arc;

use async_trait::async_trait;

use super::algorithm1::of_steps;
use super::{Anchorer, NO_ANCHOR, Pruned, Refusal, Row, chain_and_thought, question_and_answer};
use crate::cores;
use crate::llm::chat::FailureKind;
use crate::llm::{Result, Statement};
pub use path::core;
pub use thought::write;

/// Rows that are worked on at once: enough for every core.
const ROWS_IN_FLIGHT: usize = 64;

/// Rules answer: whole steps are kept, each its own match.
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
        Ok(Row::unasked(thought.ok_or_else(|| Refusal::new(NO_ANCHOR, "the answer has no word that could be reached"))))
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
        // Refused when the query is planned: rules answer no prompts.
        Ok(Row::unasked(Err(Refusal::new(FailureKind::Refused.name(), "rules answer no prompts"))))
    }
}

fn prune(original: &[&str], thought: &str) -> Pruned {
    of_steps(original, &core(original, thought))
}

#[cfg(test)]
mod tests;
