//! Helpers of the command-line tests.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use datafusion::arrow::array::RecordBatchReader;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use asap_test_support::Server;

/// The binary in a separate folder, with the project's data and pipelines and without settings of the machine.
pub(crate) struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let workplace = Self::empty();
        for name in ["data", "pipelines", "tests"] {
            std::os::unix::fs::symlink(root().join(name), workplace.path(name)).unwrap();
        }
        workplace
    }

    /// A folder without files of the project.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn command(&self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_asap"));
        command.args(arguments);
        command
    }

    fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path());
        command.env("HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path());
        let foreign = ["ASAP_", "AWS_", "AZURE_", "GOOGLE_", "HF_", "HUGGINGFACE_", "RUST_LOG", "XDG_CACHE_HOME"];
        let is_foreign = |name: &str| foreign.iter().any(|prefix| name.starts_with(prefix));
        for (name, _) in std::env::vars().filter(|(name, _)| is_foreign(name)) {
            command.env_remove(name);
        }
        // Tests that use the Hub have a server of their own.
        command.env("HF_HUB_OFFLINE", "1");
        command
    }

    /// Runs a shell command in which `asap` is the binary.
    pub(crate) fn shell(&self, script: &str) -> Finished {
        Finished::of(&mut self.shell_command(script))
    }

    pub(crate) fn shell_command(&self, script: &str) -> Command {
        let binaries = Path::new(env!("CARGO_BIN_EXE_asap")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let mut shell = self.program("sh");
        shell.args(["-c", script]).env("PATH", path);
        shell
    }

    /// Runs shell commands, and returns them with what they print and their exit codes.
    pub(crate) fn transcript(&self, commands: &[&str]) -> String {
        let shown = |command: &&str| {
            let Finished { code, stdout, stderr } = self.shell(command);
            format!("$ {command}\n{stdout}{stderr}[exit {code}]\n\n")
        };
        commands.iter().map(shown).collect()
    }

    pub(crate) fn run(&self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Finished {
        Finished::of(&mut self.command(arguments))
    }

    /// Runs a pipeline over `in`, with a summary in JSON.
    pub(crate) fn prune(&self, pipeline: &str, to: &str, more: &[&str]) -> Finished {
        self.run(["run", pipeline, "--from", "in", "--to", to, "--format", "json"].iter().chain(more))
    }

    /// Copies the first rows of the generated traces of a seed to a folder. Half of the rows are programming problems.
    pub(crate) fn traces(&self, seed: u32, rows: usize, to: &str) {
        let from = if seed == 1 { "data/sample".to_string() } else { format!("tests/traces/seed-{seed}") };
        std::fs::create_dir_all(self.path(to)).unwrap();
        for (name, rows) in [("codeforces-cots.parquet", rows / 2), ("openr1-math.parquet", rows - rows / 2)] {
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(root().join(&from).join(name)).unwrap());
            let reader = builder.unwrap().with_limit(rows).build().unwrap();
            let file = File::create(self.path(to).join(name)).unwrap();
            let mut writer = ArrowWriter::try_new(file, reader.schema(), None).unwrap();
            reader.for_each(|batch| writer.write(&batch.unwrap()).unwrap());
            writer.close().unwrap();
        }
    }

    /// Writes `asap.toml`, so that commands call `server` as their language model.
    pub(crate) fn ask(&self, server: &Server) {
        let base_url = server.base_url();
        self.write("asap.toml", format!("[anchor]\nprovider = 'openai'\nmodel = 'm'\nbase_url = '{base_url}'\n"));
    }

    /// Puts a model of the project into a folder of the Hugging Face Hub under the name of a repository.
    pub(crate) fn hub_model(&self, hub: &str, repository: &str, model: &str) {
        let folder = format!("{hub}/hub/models--{}", repository.replace('/', "--"));
        self.write(&format!("{folder}/refs/main"), "0123");
        std::fs::create_dir(self.path(&format!("{folder}/snapshots"))).unwrap();
        std::os::unix::fs::symlink(root().join(model), self.path(&format!("{folder}/snapshots/0123"))).unwrap();
    }

    /// Writes the rows of a query to a file.
    pub(crate) fn copy(&self, query: &str, file: &str) {
        self.run(["sql", "-q", "-c", &format!("COPY ({query}) TO '{file}'")]).ok();
    }

    /// Returns the rows of statements as CSV.
    #[track_caller]
    pub(crate) fn csv(&self, statements: &[&str]) -> String {
        self.sql("csv", statements)
    }

    /// Returns the rows of a query over a Delta table `t` as CSV.
    #[track_caller]
    pub(crate) fn csv_of(&self, table: &str, query: &str) -> String {
        self.sql("csv", &[&delta_table(table), query])
    }

    /// Returns the rows of a query.
    #[track_caller]
    pub(crate) fn rows(&self, query: &str) -> Vec<Value> {
        json_lines(&self.sql("nd-json", &[query]))
    }

    /// Returns the rows of a query over a Delta table `t`.
    #[track_caller]
    pub(crate) fn rows_of(&self, table: &str, query: &str) -> Vec<Value> {
        json_lines(&self.sql("nd-json", &[&delta_table(table), query]))
    }

    /// Returns the rows of statements in a format.
    #[track_caller]
    pub(crate) fn sql(&self, format: &str, statements: &[impl AsRef<str>]) -> String {
        let statements = statements.iter().flat_map(|statement| ["-c", statement.as_ref()]);
        self.run(["sql", "-q", "--format", format].into_iter().chain(statements)).ok().to_string()
    }
}

fn delta_table(location: &str) -> String {
    format!("CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{location}'")
}

/// The project's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a future to its end.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the paths of all files below a folder, relative to it. There are none if the folder does not exist.
pub(crate) fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.path().is_dir() {
            true => found.extend(files_below(&entry.path()).iter().map(|below| format!("{name}/{below}"))),
            false => drop(found.insert(name)),
        }
    }
    found
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
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// Returns standard output. Panics if the run failed.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        &self.stdout
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok().lines().last().unwrap()).unwrap()
    }

    /// Checks the exit code, and that standard error has each of the texts.
    #[track_caller]
    pub(crate) fn ends(self, code: i32, texts: &[&str]) -> Self {
        self.ends_in(&[code], texts)
    }

    /// Checks that the exit code is one of `codes`, and that standard error has each of the texts.
    #[track_caller]
    pub(crate) fn ends_in(self, codes: &[i32], texts: &[&str]) -> Self {
        let Self { code, stdout, stderr } = &self;
        assert!(codes.contains(code), "{code} is not in {codes:?}, stdout:\n{stdout}\nstderr:\n{stderr}");
        for text in texts {
            assert!(stderr.contains(text), "no '{text}' in: {stderr}");
        }
        self
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
    let path = root().join(file);
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
