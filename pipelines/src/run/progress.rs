//! How far a run is, counted while its rows are written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use datafusion::arrow::array::{AsArray, RecordBatch};

use crate::corpus::Repeats;

/// Different answers of one question, and the share of the rows that have it, that are worth a note.
const ANSWERS: usize = 8;
const SHARE: u64 = 20;

/// Rows of the slices that are under way or done. Part of a session: what writes rows counts them here.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    rejected: AtomicU64,
    tokens: AtomicU64,
    repeats: Mutex<Repeats>,
}

/// Rows, rejected rows, and tokens of the original chains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Rows that are through, rejected ones among them.
    pub rows: u64,
    /// Rejected rows.
    pub rejected: u64,
    /// Tokens of their original chains.
    pub tokens: u64,
}

impl Progress {
    /// So many more rows are written.
    pub fn advance(&self, rows: u64, rejected: u64, tokens: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
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

    /// What to tell the user of a text that is the question of many different answers.
    pub(crate) fn repeated_question(&self) -> Option<String> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).note(ANSWERS, SHARE)
    }

    /// What was reached until now.
    pub fn reached(&self) -> Reached {
        Reached {
            rows: self.rows.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
        }
    }
}
