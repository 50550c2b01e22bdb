//! Helpers of the command-line tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary in a separate folder, with the project's data and pipelines and without settings of the machine.
pub(crate) struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in ["data", "pipelines", "tests"] {
            std::os::unix::fs::symlink(project.join(name), folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_asap"));
        command.args(arguments).current_dir(self.folder.path());
        command.env_remove("RUST_LOG").env("XDG_CONFIG_HOME", self.folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASAP_")) {
            command.env_remove(name);
        }
        command
    }

    /// Runs a shell command in which `asap` is the binary.
    pub(crate) fn shell(&self, script: &str) -> Finished {
        let binaries = Path::new(env!("CARGO_BIN_EXE_asap")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.folder.path());
        Finished::from(shell.env("PATH", path).env("XDG_CONFIG_HOME", self.folder.path()).output().unwrap())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        Finished::from(self.command(arguments).output().unwrap())
    }
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Finished {
    /// Returns standard output. Panics if the run failed.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        &self.stdout
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.ok().lines().last().unwrap()).unwrap()
    }
}

/// Compares a section of a README with its expected text exactly, or writes it if UPDATE is set.
#[track_caller]
pub(crate) fn check_section(file: &str, name: &str, content: &str) {
    if let Some(held) = update_or_read(file, name, content) {
        assert_eq!(held, content, "the section {name} of {file} is out of date: see the command in it");
    }
}

/// Like [`check_section`], but numbers may differ by `tolerance`: they depend slightly on the machine's arithmetic.
#[track_caller]
pub(crate) fn check_numbers(file: &str, name: &str, content: &str, tolerance: f64) {
    let Some(held) = update_or_read(file, name, content) else { return };
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let (held, found) = (words(&held), words(content));
    let is_near = |(held, found): (&String, &String)| match (held.parse::<f64>(), found.parse::<f64>()) {
        (Ok(held), Ok(found)) => (held - found).abs() <= tolerance,
        _ => held == found,
    };
    let all_near = held.len() == found.len() && held.iter().zip(&found).all(is_near);
    assert!(all_near, "the section {name} of {file} is out of date: see the command in it. It should be:\n{content}");
}

/// Returns the text of a README between `<!-- name … -->` and `<!-- /name -->`, or None if UPDATE is set and it was
/// written.
fn update_or_read(file: &str, name: &str, content: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let readme = std::fs::read_to_string(&path).unwrap();
    let begin = readme.find(&format!("<!-- {name}")).unwrap();
    let begin = begin + readme[begin..].find("-->\n\n").unwrap() + "-->\n\n".len();
    let end = begin + readme[begin..].find(&format!("\n<!-- /{name} -->")).unwrap();
    if std::env::var_os("UPDATE").is_none() {
        return Some(readme[begin..end].to_string());
    }
    std::fs::write(path, format!("{}{content}{}", &readme[..begin], &readme[end..])).unwrap();
    None
}
