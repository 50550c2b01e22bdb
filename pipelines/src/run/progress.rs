//! The progress of a run, counted while its rows are written.

use std::sync::{Mutex, PoisonError};

use datafusion::arrow::array::{AsArray, RecordBatch};

use crate::corpus::Repeats;

/// A question with this many different answers, in this percentage of the rows, is worth a note.
const ANSWERS: usize = 8;
const SHARE: u64 = 20;

/// Counts of the slices in progress or done.
#[derive(Debug, Default)]
pub struct Progress {
    reached: Mutex<Reached>,
    repeats: Mutex<Repeats>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Processed rows, including rejected ones.
    pub rows: u64,
    pub rejected: u64,
    pub tokens: u64,
}

impl Progress {
    pub fn advance(&self, rows: u64, rejected: u64, tokens: u64) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.rows += rows;
        reached.rejected += rejected;
        reached.tokens += tokens;
    }

    pub(crate) fn count_questions(&self, output: &RecordBatch) {
        let text = |name| output.column_by_name(name)?.as_string_opt::<i32>();
        let (Some(questions), Some(answers)) = (text("question"), text("answer")) else { return };
        let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        for (question, answer) in questions.iter().zip(answers) {
            if let (Some(question), Some(answer)) = (question, answer) {
                repeats.take(question, answer);
            }
        }
    }

    pub(crate) fn repeated_question(&self) -> Option<String> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).note(ANSWERS, SHARE)
    }

    pub fn reached(&self) -> Reached {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
