//! The setting of these tests: input and output on this machine, or in a bucket behind a proxy.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Seek};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::json::ReaderBuilder;
use datafusion::arrow::json::reader::infer_json_schema;
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::common::{Finished, Workplace, root};
use crate::support::proxy::{Gate, Proxy};
use crate::support::s3;
use crate::support::table::{OutputRows, REJECTS, check_objects};
use asap_test_support::Server;

/// The pipeline of most tests. It leaves out rows whose id ends in 7. Rows whose id ends in 5 or 0 are rejects.
pub(crate) const PIPELINE: &str = "SELECT source, id, cot, status, error FROM corpus WHERE id NOT LIKE '%7'";

/// Begins the marks of files whose rows are conversations.
pub(crate) const TALK: &str = "talk";

/// Files of seven rows: the fifth is a reject, the last is filtered.
pub(crate) const A: File = ("a.parquet", 1..=7, "step");
pub(crate) const B: File = ("b.parquet", 11..=17, "step");
pub(crate) const C: File = ("c.parquet", 21..=27, "step");

/// Longer than any run of these tests takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A workplace with a pipeline `mine.sql`, an input `in` and an output `out`.
pub(crate) struct Place {
    pub workplace: Workplace,
    proxy: Option<Proxy>,
}

/// A file of an input: its name, the ids of its rows, and the prefix of their chains.
pub(crate) type File<'a> = (&'a str, RangeInclusive<u32>, &'a str);

impl Place {
    pub(crate) fn local() -> Self {
        Self::of(Workplace::new())
    }

    /// A place without the project's data.
    #[allow(dead_code, reason = "only cases use it")]
    pub(crate) fn elsewhere() -> Self {
        Self::of(Workplace::empty())
    }

    fn of(workplace: Workplace) -> Self {
        std::fs::create_dir(workplace.path("in")).unwrap();
        workplace.write("mine.sql", PIPELINE);
        Self { workplace, proxy: None }
    }

    /// Input and output in the bucket `lake` of a server behind a proxy.
    pub(crate) fn s3() -> Self {
        let Self { workplace, .. } = Self::local();
        std::fs::create_dir_all(workplace.path("s3/lake")).unwrap();
        let proxy = Proxy::start(s3::serve(&workplace.path("s3")));
        Self { workplace, proxy: Some(proxy) }
    }

    /// A place on this machine and one in a bucket.
    pub(crate) fn both() -> [Self; 2] {
        [Self::local(), Self::s3()]
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }

    pub(crate) fn location(&self, key: &str) -> String {
        if self.proxy.is_some() { format!("s3://lake/{key}") } else { key.to_string() }
    }

    /// Returns the path of a location in the workplace.
    pub(crate) fn folder(&self, key: &str) -> String {
        if self.proxy.is_some() { format!("s3/lake/{key}") } else { key.to_string() }
    }

    /// Returns the full path of a location.
    pub(crate) fn path(&self, key: &str) -> PathBuf {
        self.workplace.path(&self.folder(key))
    }

    /// Writes a file of the input atomically. Files with equal lengths in all rows have equal sizes.
    pub(crate) fn put(&self, (name, ids, mark): File) {
        let rows: Vec<_> = ids.map(|id| (id, chain(id, mark))).collect();
        if mark.starts_with(TALK) {
            return self.put_batch(&format!("in/{name}"), &talks(&rows));
        }
        let column = |text: &dyn Fn(u32, &str) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(id, chain)| text(*id, chain))))
        };
        let columns = [
            ("id", column(&|id, _| id.to_string())),
            ("question", column(&|id, _| format!("question {id}"))),
            ("cot", column(&|_, chain| chain.to_string())),
            ("answer", column(&|id, _| format!("answer {id}"))),
        ];
        self.put_batch(&format!("in/{name}"), &RecordBatch::try_from_iter(columns).unwrap());
    }

    pub(crate) fn put_all(&self, files: &[File]) {
        files.iter().cloned().for_each(|file| self.put(file));
    }

    /// Writes any rows to a Parquet file atomically.
    pub(crate) fn put_batch(&self, key: &str, batch: &RecordBatch) {
        self.put_bytes(key, &parquet_file(batch));
    }

    pub(crate) fn put_bytes(&self, key: &str, bytes: &[u8]) {
        let path = self.path(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        self.workplace.write("whole", bytes);
        std::fs::rename(self.workplace.path("whole"), path).unwrap();
    }

    pub(crate) fn command(&self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
        let mut command = self.workplace.command(arguments);
        if let Some(proxy) = &self.proxy {
            s3::point(&mut command, proxy.address);
        }
        command
    }

    pub(crate) fn execute(&self, arguments: &[&str]) -> Finished {
        Running::start(self.command(arguments)).finish()
    }

    /// Runs a shell command in the folder of the place, in which `asap` is the binary, `$PIPELINE` the pipeline
    /// and `$ROOT` the project.
    #[allow(dead_code, reason = "only cases use it")]
    pub(crate) fn shell(&self, script: &str) -> Finished {
        let mut shell = self.workplace.shell_command(script);
        shell.current_dir(self.path("")).env("PIPELINE", self.workplace.path("mine.sql")).env("ROOT", root());
        if let Some(proxy) = &self.proxy {
            s3::point(&mut shell, proxy.address);
        }
        Finished::of(&mut shell)
    }

    pub(crate) fn run_command(&self, more: &[&str]) -> Command {
        self.command_from(&self.location("in"), more)
    }

    fn command_from(&self, from: &str, more: &[&str]) -> Command {
        let to = self.location("out");
        self.command(["run", "mine.sql", "--from", from, "--to", &to, "--format", "json"].iter().chain(more))
    }

    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        Running::start(self.run_command(more)).finish()
    }

    #[allow(dead_code, reason = "only cases use it")]
    pub(crate) fn run_from(&self, from: &str, more: &[&str]) -> Finished {
        Running::start(self.command_from(from, more)).finish()
    }

    pub(crate) fn start(&self, more: &[&str]) -> Running {
        Running::start(self.run_command(more))
    }

    /// Kills a run, one of whose requests waits at a gate and never arrives. There are no faults from now on.
    pub(crate) fn kill(&self, run: Running, gate: &Gate) {
        run.kill();
        gate.cut();
        self.proxy().calm();
    }

    #[track_caller]
    pub(crate) fn rows(&self) -> OutputRows {
        OutputRows::read(&self.workplace, &self.folder("out"))
    }

    /// Checks that the output and its rejects contain exactly the rows of [`PIPELINE`] for these files, once each.
    #[track_caller]
    pub(crate) fn holds(&self, files: &[File]) {
        let rows = self.rows();
        let (mut output, mut rejects) = (Vec::new(), Vec::new());
        for (name, ids, mark) in files {
            for (row, id) in ids.clone().enumerate() {
                match id % 10 {
                    7 => {}
                    0 | 5 => rejects.push(format!("{name}:{row}")),
                    _ => output.push((format!("{name}:{row}"), id.to_string(), chain(id, mark))),
                }
            }
        }
        output.sort();
        rejects.sort();
        let found = rows.sources().into_iter().zip(rows.texts("id")).zip(rows.texts("cot"));
        let mut found: Vec<_> = found.map(|((source, id), cot)| (source, id.to_string(), cot.to_string())).collect();
        found.sort();
        assert_eq!(found, output, "the rows of the output");
        let mut rejected = rows.rejected();
        rejected.sort();
        assert_eq!(rejected, rejects, "the rejects");
    }

    /// With these files in its input.
    pub(crate) fn with(self, files: &[File]) -> Self {
        self.put_all(files);
        self
    }

    /// With these files in its input, after a run.
    #[track_caller]
    pub(crate) fn filled(self, files: &[File]) -> Self {
        self.fill(files);
        self
    }

    /// Writes files of the input, and runs.
    #[track_caller]
    pub(crate) fn fill(&self, files: &[File]) {
        self.put_all(files);
        self.run(&[]).ok();
    }

    /// Runs, and checks the output as [`Self::holds`] does.
    #[track_caller]
    pub(crate) fn makes(&self, more: &[&str], files: &[File]) {
        self.run(more).ok();
        self.holds(files);
    }

    /// Runs without faults from now on, and checks the output as [`Self::holds`] does.
    #[track_caller]
    pub(crate) fn recovers(&self, files: &[File]) {
        self.proxy().calm();
        self.makes(&[], files);
    }

    /// Checks the output as [`Self::holds`] does, and that a run has nothing to add.
    #[track_caller]
    pub(crate) fn is_done(&self, files: &[File]) {
        self.holds(files);
        had_nothing_to_do(&self.run(&[]));
    }

    /// Calls `server` for `ai_complete` and anchors from now on.
    pub(crate) fn ask(&self, server: &Server) {
        self.workplace.ask(server);
    }

    pub(crate) fn pipeline(&self, sql: &str) {
        self.workplace.write("mine.sql", sql);
    }

    /// Returns the paths of all shards below the output, even those that no log names.
    pub(crate) fn shards(&self) -> BTreeSet<String> {
        let root = self.path("out");
        let attempts = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
        let attempts = attempts.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("asap-"));
        let shards = attempts.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
        shards.map(|path| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn is_whole(&self) {
        check_objects(&self.path("out"));
        check_objects(&self.path("out").join(REJECTS));
    }
}

pub(crate) fn parquet_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// Returns conversations with a call of a tool, whose thoughts are the chains of rows.
fn talks(rows: &[(u32, String)]) -> RecordBatch {
    let line = |(id, chain): &(u32, String)| {
        let call = json!({"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}});
        let messages = json!([
            {"role": "user", "content": format!("question {id}")},
            {"role": "assistant", "reasoning_content": chain, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
            {"role": "assistant", "content": format!("answer {id}")},
        ]);
        json!({"id": id.to_string(), "messages": messages}).to_string() + "\n"
    };
    let lines: String = rows.iter().map(line).collect();
    let (schema, _) = infer_json_schema(lines.as_bytes(), None).unwrap();
    ReaderBuilder::new(Arc::new(schema)).build(lines.as_bytes()).unwrap().next().unwrap().unwrap()
}

/// Returns the chain of a row. It is empty, which makes a reject, if the id ends in 5 or 0.
fn chain(id: u32, mark: &str) -> String {
    if id.is_multiple_of(5) { String::new() } else { format!("{mark} {id}") }
}

/// A running process. Dropping it kills the process.
pub(crate) struct Running {
    child: Child,
    stdout: std::fs::File,
    stderr: std::fs::File,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let [stdout, stderr] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
        Self { child: command.spawn().unwrap(), stdout, stderr }
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until something is true; panics when the process ends before.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, is_true: impl Fn() -> bool) {
        wait_until(what, || is_true() || self.is_over());
        if !is_true() {
            panic!("the run ended before {what}: {:?}", self.finish());
        }
    }

    /// Ends the process like a power cut.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    #[track_caller]
    pub(crate) fn finish(&mut self) -> Finished {
        wait_until("the end of the process", || self.is_over());
        let status = self.child.wait().unwrap();
        let [stdout, stderr] = [&mut self.stdout, &mut self.stderr].map(|written| {
            let mut bytes = Vec::new();
            written.rewind().unwrap();
            written.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Finished::from(Output { status, stdout, stderr })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until something is true; panics after [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the summary of a run. Panics unless it has this exit code.
#[track_caller]
pub(crate) fn summary(finished: &Finished, code: i32) -> Value {
    assert_eq!(finished.code, code, "stdout:\n{}\nstderr:\n{}", finished.stdout, finished.stderr);
    serde_json::from_str(finished.stdout.lines().last().unwrap_or_default()).unwrap()
}

#[track_caller]
pub(crate) fn had_nothing_to_do(finished: &Finished) {
    let summary = summary(finished, 0);
    assert_eq!((summary["nothing_to_do"].as_bool(), summary["rows_in"].as_u64()), (Some(true), Some(0)), "{summary}");
}

/// Returns the names of the files that a run could not process.
pub(crate) fn failed(summary: &Value) -> Vec<&str> {
    let files = summary["files_failed"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().map(|failed| failed["file"].as_str().unwrap()).collect()
}
