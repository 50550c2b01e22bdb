//! What is read to check an answer, and the result.

use std::ops::Range;

use super::output::Target;

pub(crate) type QuestionKey = [u8; 32];

/// The text between the end of the thought and an answer that stands in a box.
pub const ANSWER_PROMPT: &str = "The final answer is \\boxed{";
/// Most tokens that the model writes to state an answer.
pub const STATED: usize = 64;
/// The tokens of a text that ends before an answer, and those of the text with the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// The key of the question: texts with equal keys share their beginning.
    pub question: QuestionKey,
    pub shared: Vec<u32>,
    /// What follows `shared` up to the answer; never empty.
    pub before_answer: Vec<u32>,
    /// What follows `shared` up to the answer's end.
    pub with_answer: Vec<u32>,
    /// Index in `with_answer` of the answer's first token; at least 1, so that a token predicts it.
    pub answer: usize,
    /// Whether the model states the answer too.
    pub states: bool,
}

/// A result of a [`Check`], and the tokens that it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Survival {
    /// Mean ln P of the answer's tokens.
    pub log_probability: f64,
    /// What the model states up to the closing brace, or to its end. None if it was not asked to.
    pub stated: Option<String>,
    pub tokens_read: usize,
    pub tokens_written: usize,
}

impl Check {
    /// A check of the text `whole` up to `answer`, which are the answer's tokens. `before` are the tokens of the text
    /// without an answer.
    pub(crate) fn new(
        question: QuestionKey,
        mut before: Vec<u32>,
        whole: &[u32],
        answer: Range<usize>,
        states: bool,
    ) -> Self {
        let common = before.iter().zip(whole).take_while(|(a, b)| a == b).count();
        // One token before the answer and before what is written is read with them: it predicts their first token.
        let shared = common.min(answer.start - 1).min(before.len().saturating_sub(1));
        let before_answer = before.split_off(shared);
        let with_answer = whole[shared..answer.end].to_vec();
        Self { question, shared: before, before_answer, with_answer, answer: answer.start - shared, states }
    }

    /// The number of tokens of the text with all that the model may write.
    pub(crate) fn longest(&self) -> usize {
        let written = self.before_answer.len() + if self.states { STATED } else { 0 };
        self.shared.len() + self.with_answer.len().max(written)
    }

    pub(crate) fn tokens(&self) -> usize {
        self.shared.len() + self.tail()
    }

    /// The number of tokens that are read without any that another text shares.
    pub(crate) fn tail(&self) -> usize {
        self.with_answer.len() + if self.states { self.before_answer.len() } else { 0 }
    }

    /// Targets for the answer's tokens. `start` is the position of the first token of `with_answer`.
    pub(crate) fn targets(&self, start: usize) -> impl Iterator<Item = Target> {
        let target = move |token: usize| Target { row: (start + token - 1) as u32, id: self.with_answer[token] };
        (self.answer..self.with_answer.len()).map(target)
    }
}
