//! Helpers for tests.

/// The numbers that a text names, in order.
pub fn numbers(text: &str) -> Vec<i64> {
    let runs = text.split(|scalar: char| !scalar.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| run.parse().unwrap()).collect()
}
