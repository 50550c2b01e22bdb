//! The setting of these tests: input and output on this machine, or in a bucket behind a proxy.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::Value;

use crate::common::{Finished, Workplace};
use crate::support::proxy::Proxy;
use crate::support::s3;
use crate::support::table::{REJECTS, Rows, check_objects};

/// The pipeline of most tests. It leaves out rows whose id ends in 7. Rows whose id ends in 5 or 0 are rejects.
pub(crate) const PIPELINE: &str = "SELECT source, id, cot, status, error FROM corpus WHERE id NOT LIKE '%7'";

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
        let workplace = Workplace::new();
        std::fs::create_dir(workplace.path("in")).unwrap();
        std::fs::write(workplace.path("mine.sql"), PIPELINE).unwrap();
        Self { workplace, proxy: None }
    }

    /// Input and output in the bucket `lake` of a server behind a proxy.
    pub(crate) fn s3() -> Self {
        let Self { workplace, .. } = Self::local();
        std::fs::create_dir_all(workplace.path("s3/lake")).unwrap();
        let proxy = Proxy::start(s3::serve(&workplace.path("s3")));
        Self { workplace, proxy: Some(proxy) }
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
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        self.put_bytes(key, &writer.into_inner().unwrap());
    }

    pub(crate) fn put_bytes(&self, key: &str, bytes: &[u8]) {
        let path = self.path(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let whole = self.workplace.path("whole");
        std::fs::write(&whole, bytes).unwrap();
        std::fs::rename(whole, path).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.workplace.command(arguments);
        if let Some(proxy) = &self.proxy {
            s3::point(&mut command, proxy.address);
        }
        command
    }

    pub(crate) fn execute(&self, arguments: &[&str]) -> Finished {
        Running::start(self.command(arguments)).finish()
    }

    pub(crate) fn run_command(&self, more: &[&str]) -> Command {
        let (from, to) = (self.location("in"), self.location("out"));
        let base = ["run", "mine.sql", "--from", &from, "--to", &to, "--format", "json"];
        self.command(&[&base[..], more].concat())
    }

    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        Running::start(self.run_command(more)).finish()
    }

    pub(crate) fn run_from(&self, from: &str, more: &[&str]) -> Finished {
        let base = ["run", "mine.sql", "--from", from, "--to", &self.location("out"), "--format", "json"];
        self.execute(&[&base[..], more].concat())
    }

    pub(crate) fn start(&self, more: &[&str]) -> Running {
        Running::start(self.run_command(more))
    }

    #[track_caller]
    pub(crate) fn rows(&self) -> Rows {
        Rows::read(&self.workplace, &self.folder("out"))
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

    /// Checks that the output contains these chains, once each.
    #[track_caller]
    pub(crate) fn holds_chains(&self, chains: &[&str]) {
        assert_eq!(self.rows().texts("cot"), chains);
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

/// Returns the chain of a row. It is empty, which makes a reject, if the id ends in 5 or 0.
fn chain(id: u32, mark: &str) -> String {
    if id.is_multiple_of(5) { String::new() } else { format!("{mark} {id}") }
}

/// A running process. Dropping it kills the process.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
        Self { child, stdout, stderr }
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until something is true; panics when the process ends before.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, is_true: impl Fn() -> bool) {
        wait_until(what, || is_true() || self.is_over());
        if !is_true() {
            panic!("the run ended before {what}: {:?}", self.outcome());
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
    pub(crate) fn finish(mut self) -> Finished {
        self.outcome()
    }

    #[track_caller]
    fn outcome(&mut self) -> Finished {
        wait_until("the end of the process", || self.is_over());
        let status = self.child.wait().unwrap();
        let text = |reading: &mut Option<JoinHandle<Vec<u8>>>| reading.take().unwrap().join().unwrap();
        Finished::from(Output { status, stdout: text(&mut self.stdout), stderr: text(&mut self.stderr) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(stream: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let mut stream = stream?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes));
        bytes
    }))
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
