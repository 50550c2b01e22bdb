//! The parts of an experiment: commands of asap, each in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::failed;
use crate::failure::Failure;
use crate::output::{complain, note};
use crate::program;

/// Holds the process id of the experiment.
const PARENT: &str = "_ASAP_PARENT";
/// The folder of the outputs of complete parts.
const DONE: &str = "parts";
const COMMANDS: &str = "commands.sh";

/// A command of asap. Its paths are relative to the folder of the experiment.
pub(super) struct Part {
    /// The name of the file of its output.
    pub name: String,
    pub arguments: Vec<String>,
    /// A folder that the command cannot resume: it begins without it.
    pub fresh: Option<String>,
}

impl Part {
    pub(super) fn new(name: String, arguments: &[&str]) -> Self {
        Self { name, arguments: arguments.iter().map(ToString::to_string).collect(), fresh: None }
    }

    pub(super) fn fresh(self, folder: &str) -> Self {
        Self { fresh: Some(folder.to_string()), ..self }
    }

    fn shown(&self) -> String {
        let words: Vec<String> = self.arguments.iter().map(|word| quoted(word)).collect();
        format!("asap {} > {DONE}/{}", words.join(" "), self.name)
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=,+:".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

pub(super) struct Parts {
    folder: PathBuf,
    /// The commands so far, for the file of commands.
    commands: String,
}

impl Parts {
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let done = folder.join(DONE);
        std::fs::create_dir_all(&done).map_err(|error| failed(&done, &error))?;
        let commands = "# The parts of this experiment, in order. Run them in this folder.\n".to_string();
        Ok(Self { folder: folder.to_path_buf(), commands })
    }

    /// Where the output of a part is, from the folder of the experiment.
    pub(super) fn output(name: &str) -> String {
        format!("{DONE}/{name}")
    }

    /// Runs a part, unless it is complete, and returns its output.
    ///
    /// # Errors
    /// If the command fails: with its error and its exit code.
    pub(super) fn run(&mut self, part: &Part) -> Result<String, Failure> {
        self.commands.push_str(&format!("{}\n", part.shown()));
        let output = self.folder.join(Self::output(&part.name));
        if !output.exists() {
            write_whole(&self.folder.join(COMMANDS), &self.commands)?;
            note(part.shown());
            if let Some(folder) = part.fresh.as_ref().map(|fresh| self.folder.join(fresh)).filter(|path| path.exists())
            {
                std::fs::remove_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
            }
            let partial = partial(&output);
            let stdout = std::fs::File::create(&partial).map_err(|error| failed(&partial, &error))?;
            self.start(part, stdout)?;
            std::fs::rename(&partial, &output)?;
        }
        Ok(std::fs::read_to_string(&output)?)
    }

    /// Runs a part whose output ends with a line of JSON.
    pub(super) fn json(&mut self, part: &Part) -> Result<Value, Failure> {
        let text = self.run(part)?;
        Ok(serde_json::from_str(text.trim_end().lines().last().unwrap_or_default())?)
    }

    /// Passes the child's messages on, except its error, which becomes the error of the experiment.
    fn start(&self, part: &Part, stdout: std::fs::File) -> Result<(), Failure> {
        let mut command = program::process()?;
        command.args(&part.arguments).current_dir(&self.folder).env(PARENT, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut error = String::new();
        for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
            let line = line?;
            match line.strip_prefix("error: ") {
                Some(text) => error = text.to_string(),
                None => complain(&line),
            }
        }
        let status = child.wait()?;
        if status.success() {
            return Ok(());
        }
        let command = &part.arguments[0];
        let why = if error.is_empty() { status.to_string() } else { error };
        let message = format!("asap {command} ({}): {why}", part.name);
        Err(match status.code() {
            Some(75) | None => Failure::TryLater(format!("{message}; run the same command to resume")),
            Some(_) => Failure::Failed(message),
        })
    }
}

fn partial(path: &Path) -> PathBuf {
    path.with_added_extension("partial")
}

/// Writes a file as a whole or not at all.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let partial = partial(path);
    std::fs::write(&partial, text).map_err(|error| failed(&partial, &error))?;
    Ok(std::fs::rename(&partial, path)?)
}

/// Ends this process with the experiment that started it, if any: a part without its experiment would be in the way of
/// the same part of a resumed experiment.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if let Some(parent) = std::env::var(PARENT).ok().and_then(|id| id.parse::<i32>().ok()) {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        let is_set = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
        // The experiment may have ended before.
        if is_set && getppid().is_none_or(|found| found.as_raw_nonzero().get() != parent) {
            std::process::exit(1);
        }
    }
}
