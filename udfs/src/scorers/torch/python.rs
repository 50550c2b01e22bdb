//! Whether a Python can run the models of PyTorch, and what it lacks.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use asap_lm::{LmError, Result};
use parking_lot::Mutex;

const HAS_CARD: &str = include_str!("has_card.py");
const ADVICE: &str = "install torch and transformers there, or set asap.scorer.python to a Python that has them";

/// Whether PyTorch finds a card.
pub(in crate::scorers) fn has_card(python: &str) -> Result<bool> {
    // The import of PyTorch takes seconds, and a command may ask for each of many runs.
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    if let Some(found) = KNOWN.lock().get(python) {
        return Ok(*found);
    }
    let found = Command::new(python).args(["-c", HAS_CARD]).stdin(Stdio::null()).output();
    let found = found.map_err(|error| not_started(python, &error))?;
    let (said, errors) = (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    match said.trim().lines().last().unwrap_or_default() {
        found @ ("True" | "False") => Ok(*KNOWN.lock().entry(python.to_string()).or_insert(found == "True")),
        lacking if lacking.starts_with("no ") => Err(lacks(python, lacking)),
        _ => Err(lacks(python, errors.trim().lines().last().unwrap_or("nothing printed"))),
    }
}

pub(super) fn not_started(python: &str, error: &std::io::Error) -> LmError {
    LmError::Backend(format!("asap.scorer.python = '{python}' does not start: {error}; {ADVICE}"))
}

pub(super) fn lacks(python: &str, found: &str) -> LmError {
    LmError::Backend(format!(
        "asap.scorer.python = '{python}' cannot run the model: expected a Python that loads it with torch and transformers, \
         and reports so on stdout; found: {found}; {ADVICE}"
    ))
}
