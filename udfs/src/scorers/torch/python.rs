//! Whether a Python can run the models of PyTorch, and what it lacks.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use asap_kernels::front_end::Setting;
use asap_lm::{LmError, Result};
use parking_lot::Mutex;

use super::lines::each_line;
use crate::interrupt;

const LOOKS: Duration = Duration::from_millis(200);
const HAS_CARD: &str = include_str!("has_card.py");
const SETTING: Setting<'_> = Setting("asap.scorer.python");

/// Whether PyTorch finds a card.
pub(in crate::scorers) fn has_card(python: &str) -> Result<bool> {
    // The import of PyTorch takes seconds, and a command may ask for each of many runs.
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    if let Some(found) = KNOWN.lock().get(python) {
        return Ok(*found);
    }
    let [said, complaint] = last_lines(python)?;
    match said.trim() {
        found @ ("True" | "False") => Ok(*KNOWN.lock().entry(python.to_string()).or_insert(found == "True")),
        lacking if lacking.starts_with("no ") => Err(lacks(python, lacking)),
        _ if complaint.is_empty() => Err(lacks(python, "nothing printed")),
        _ => Err(lacks(python, &complaint)),
    }
}

/// Runs the script, and returns the last lines of its stdout and its stderr. It may write any number of bytes, and hang.
fn last_lines(python: &str) -> Result<[String; 2]> {
    let mut command = Command::new(python);
    command.args(["-c", HAS_CARD]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().map_err(|error| not_started(python, &error))?;
    let (sender, lines) = channel();
    let pipes: [Option<Box<dyn Read + Send>>; 2] =
        [process.stdout.take().map(|pipe| Box::new(pipe) as _), process.stderr.take().map(|pipe| Box::new(pipe) as _)];
    for (place, pipe) in pipes.into_iter().enumerate() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut last = String::new();
            pipe.into_iter().for_each(|pipe| each_line(pipe, |line| last = line));
            drop(sender.send((place, last)));
        });
    }
    let mut found = [String::new(), String::new()];
    for _ in 0..found.len() {
        let (place, last) = loop {
            match lines.recv_timeout(LOOKS) {
                Ok(line) => break line,
                Err(_) if interrupt::is_asked() => {
                    drop(process.kill());
                    drop(process.wait());
                    return Err(LmError::Abandoned);
                }
                Err(_) => {}
            }
        };
        found[place] = last;
    }
    drop(process.wait());
    Ok(found)
}

pub(super) fn not_started(python: &str, error: &std::io::Error) -> LmError {
    LmError::Backend(format!("{SETTING} = '{python}' does not start: {error}; {}", advice()))
}

pub(super) fn lacks(python: &str, found: &str) -> LmError {
    LmError::Backend(format!(
        "{SETTING} = '{python}' cannot run the model: expected a Python that loads it with torch and transformers, and \
         reports so on stdout; found: {found}; {}",
        advice()
    ))
}

fn advice() -> String {
    format!("install torch and transformers there, or set {SETTING} to a Python that has them")
}
