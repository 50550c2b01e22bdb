//! Helpers for tests.

use crate::{Labelled, SampleRow};

pub(crate) fn numbers(text: &str) -> Vec<i64> {
    let runs = text.split(|scalar: char| !scalar.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| run.parse().unwrap()).collect()
}

/// The steps of chosen chains, as a reader of the corpus sees them.
pub(crate) fn labelled(rows: &[SampleRow]) -> Vec<Labelled> {
    let steps = rows.iter().flat_map(|row| &row.chosen().steps);
    let labelled = steps.map(|step| Labelled {
        text: step.text.clone(),
        label: step.label.name().to_string(),
        function: step.function.map(|function| function.name().to_string()),
    });
    labelled.collect()
}
