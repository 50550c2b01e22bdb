//! The progress of a run, counted while its rows are written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use asap_lm::PromptTemplate;
use asap_udfs::Settings;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;

use crate::corpus::Repeats;
use crate::reasons::Reasons;
use crate::system_prompts::SYSTEM;

/// A question with this many different answers, in this percentage of the rows, is worth a note.
const ANSWERS: usize = 8;
const SHARE: u64 = 20;

/// Counts of the slices in progress or done.
#[derive(Debug, Default)]
pub struct Progress {
    reached: Mutex<Reached>,
    repeats: Mutex<Repeats>,
    /// Rows of the output with a system prompt.
    systems: AtomicU64,
    refused: Mutex<Reasons>,
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

    pub(crate) fn count_systems(&self, output: &RecordBatch) {
        let Some(systems) = output.column_by_name(SYSTEM) else { return };
        self.systems.fetch_add((systems.len() - systems.logical_null_count()) as u64, Ordering::Relaxed);
    }

    /// Counts rows that the scoring model or its chat template fails on, by their errors.
    pub(crate) fn count_refused(&self, rejects: &RecordBatch) {
        let text = |name| cast(rejects.column_by_name(name)?, &DataType::Utf8View).ok();
        let (Some(statuses), Some(errors)) = (text("status"), text("error")) else { return };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, error) in statuses.as_string_view().iter().zip(errors.as_string_view()) {
            if let (Some("no_score" | "no_prompt" | "template"), Some(error)) = (status, error) {
                refused.count(error, 1);
            }
        }
    }

    /// Says why rows have no score, and how many scores do not depend on the system prompt of their row. `is_scored` is
    /// whether the scoring model is asked.
    pub(crate) fn notes_of_model(&self, settings: &Settings, is_scored: bool) -> Vec<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let rejected = |(reason, rows): (&str, u64)| format!("rejected rows ({rows}): {reason}");
        let mut notes: Vec<String> = refused.by_rows().into_iter().map(rejected).collect();
        let systems = self.systems.load(Ordering::Relaxed);
        let drops_system = || {
            let folder = settings.scorer_tokenizer().ok()?;
            Some(PromptTemplate::load(&folder, settings.scorer_prompt.as_deref()).ok()?.drops_system())
        };
        if systems > 0 && is_scored && drops_system() == Some(true) {
            notes.push(format!(
                "the chat template of {} does not print a system prompt: the scoring model did not read that of rows of the \
                 output ({systems})",
                settings.scorer_model
            ));
        }
        notes
    }

    pub fn reached(&self) -> Reached {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
