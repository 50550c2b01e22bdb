//! What is read to check whether an answer survives.

use std::ops::Range;

use crate::backend::{Continuation, QuestionKey, Target};

/// The text between the end of the thought and an answer that stands in a box.
pub const ANSWER_PROMPT: &str = "The final answer is \\boxed{";
/// Most tokens that the model writes to state an answer.
pub const STATED: usize = 64;

/// The number of first tokens that two texts share.
pub(crate) fn in_common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Continuation {
    /// The continuation of the text `whole` up to `answer`, which are the answer's tokens. `before` are the tokens of the text
    /// without an answer.
    pub(crate) fn new(
        question: QuestionKey,
        mut before: Vec<u32>,
        whole: &[u32],
        answer: Range<usize>,
        states: bool,
    ) -> Self {
        let common = in_common(&before, whole);
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
