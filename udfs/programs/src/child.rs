//! Runs one child and reads its reports.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::SandboxError;

/// The most time from the start of the child to the start of the program.
const START: Duration = Duration::from_secs(60);
/// How often the size of the folder is looked at.
const LOOK: Duration = Duration::from_millis(100);
const EXITING: Duration = Duration::from_millis(2);
/// The longest report: what a reference program of HumanEval+ returns.
const LONGEST: u64 = 1 << 28;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

#[derive(Serialize)]
struct Signed<'a, T> {
    nonce: &'a str,
    #[serde(flatten)]
    request: &'a T,
}

/// How a child ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It reported a result: its kind and its detail.
    Reported(String, String),
    /// It was ended at its time limit.
    Timeout,
    /// It wrote more than it may.
    TooMuchWritten,
    Killed,
    Signal(i32),
    /// It left without a result.
    Left(i32),
}

pub(crate) struct Run<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: &'a Path,
    pub(crate) folder_bytes: u64,
    /// The time of the program, which begins anew with each test that reports its start.
    pub(crate) limit: Duration,
}

impl Run<'_> {
    /// Runs a child with a request. Returns its end and the time since the start of the program.
    pub(crate) fn ask(self, request: &impl Serialize) -> Result<(End, Duration), SandboxError> {
        let nonce = format!("{:032x}", rand::random::<u128>());
        let mut child = self.start(&nonce, request).map_err(SandboxError::io("start the sandbox"))?;
        let reports = child.stdout.take().map(|stdout| listen(stdout, nonce));
        let result = reports.map_or(Err(io::ErrorKind::BrokenPipe.into()), |reports| self.watch(&mut child, &reports));
        // Not the program's own end: there is nothing else that it could start.
        let killed = child.kill().and_then(|()| child.wait());
        let (end, time) =
            result.and_then(|result| killed.map(|_| result)).map_err(SandboxError::io("watch a program"))?;
        match (&end, time) {
            (End::Reported(..), None) | (_, Some(_)) => Ok((end, time.unwrap_or_default())),
            (End::Timeout, None) => {
                Err(SandboxError::NotStarted(format!("it took more than {} seconds", START.as_secs())))
            }
            (_, None) => Err(SandboxError::NotStarted(complaint(&mut child))),
        }
    }

    /// The request is in a file that has no name: a pipe would have to be filled while the child runs.
    fn start(&self, nonce: &str, request: &impl Serialize) -> io::Result<Child> {
        let mut file = tempfile::tempfile()?;
        let mut writer = io::BufWriter::new(&mut file);
        serde_json::to_writer(&mut writer, &Signed { nonce, request })?;
        writer.flush()?;
        drop(writer);
        file.rewind()?;
        let [program, first @ ..] = self.command else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut command = Command::new(program);
        command.args(first).args(&self.arguments).stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
        // An interrupt of the terminal goes to asap alone, which then ends its programs.
        command.process_group(0).spawn()
    }

    /// Returns the end, and the time since the program started, if it did.
    fn watch(&self, child: &mut Child, reports: &Receiver<Report>) -> io::Result<(End, Option<Duration>)> {
        let mut started: Option<Instant> = None;
        let mut deadline = Instant::now() + START;
        let end = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match reports.recv_timeout(left.min(LOOK)) {
                Ok(Report::Begins) => {
                    started.get_or_insert_with(Instant::now);
                    deadline = Instant::now() + self.limit;
                }
                Ok(Report::Result(kind, detail)) => break End::Reported(kind, detail),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => break End::Timeout,
                Err(RecvTimeoutError::Timeout) if self.written()? > self.folder_bytes => break End::TooMuchWritten,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => match child.try_wait()? {
                    Some(status) => break ended(status),
                    None if left.is_zero() => break End::Timeout,
                    None => thread::sleep(EXITING),
                },
            }
        };
        Ok((end, started.map(|started| started.elapsed())))
    }

    /// The bytes of the files in the folder. A file may vanish meanwhile.
    fn written(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for file in fs::read_dir(self.folder)? {
            bytes += file?.metadata().map_or(0, |metadata| metadata.len());
        }
        Ok(bytes)
    }
}

fn ended(status: ExitStatus) -> End {
    match (status.signal(), status.code()) {
        (Some(SIGKILL), _) => End::Killed,
        (Some(SIGXCPU), _) => End::Timeout,
        (Some(signal), _) => End::Signal(signal),
        (None, code) => End::Left(code.unwrap_or_default()),
    }
}

/// Returns what the child wrote to stderr before the program ran.
fn complaint(child: &mut Child) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // A failure to read leaves the text empty.
        drop(stderr.take(1 << 14).read_to_end(&mut text));
    }
    let text = String::from_utf8_lossy(&text).trim().to_string();
    if text.is_empty() { "it left without a message".to_string() } else { text }
}

enum Report {
    /// The program, or one of its tests.
    Begins,
    Result(String, String),
}

/// Reads the reports on a thread of its own. Lines without the nonce are not the harness's.
fn listen(stdout: impl Read + Send + 'static, nonce: String) -> Receiver<Report> {
    let (sender, receiver) = sync_channel(16);
    thread::spawn(move || forward(BufReader::new(stdout), &nonce, &sender));
    receiver
}

fn forward(mut stdout: impl BufRead, nonce: &str, sender: &SyncSender<Report>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        // The end, or a failure to read: without a result, none is accepted.
        match stdout.by_ref().take(nonce.len() as u64).read_until(b'\n', &mut line) {
            Ok(read) if read > 0 => {}
            _ => return,
        }
        if line != nonce.as_bytes() {
            if !line.ends_with(b"\n") && stdout.skip_until(b'\n').is_err() {
                return;
            }
            continue;
        }
        line.clear();
        match stdout.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {}
            _ => return,
        }
        let Ok(text) = std::str::from_utf8(&line) else { return };
        let report = text.trim();
        let (kind, detail) = report.split_once(' ').unwrap_or((report, ""));
        let report = match kind {
            "started" | "test" => Report::Begins,
            _ => Report::Result(kind.to_string(), detail.to_string()),
        };
        // Without a receiver the run has ended.
        if sender.send(report).is_err() {
            return;
        }
    }
}
