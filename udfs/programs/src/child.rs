//! Runs one child and reads its reports.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Reason;
use crate::error::SandboxError;

/// The most time from the start of the child to the start of the program.
const START: Duration = Duration::from_secs(60);
/// How often the child is looked at.
const LOOK: Duration = Duration::from_millis(100);
const EXITING: Duration = Duration::from_millis(2);
/// The longest report that is no result.
const LONGEST_REASON: u64 = 1 << 16;
/// The longest first line of a report.
const LONGEST_HEAD: u64 = 64;
pub(crate) const MALFORMED: &str = "malformed results";
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// How a child ended.
#[derive(Debug)]
pub(crate) enum End {
    /// All of its results were accepted.
    Finished,
    /// A result was not accepted, for this reason.
    Wrong(String),
    /// It reported why it has no more results: a kind and a detail.
    Reported(String, String),
    /// It was ended at its time limit.
    Timeout,
    Killed,
    Signal(i32),
    /// It left without a result.
    Left(i32),
}

pub(crate) struct Run<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) arguments: Vec<OsString>,
    /// The time of the program.
    pub(crate) limit: Duration,
    /// Whether each result has this time.
    pub(crate) each: bool,
    /// The most bytes of each result.
    pub(crate) most: Vec<u64>,
}

impl Run<'_> {
    /// Runs a child with a request, until `wrong` does not accept a result, or until it has accepted all. Returns the end
    /// and the time since the start of the program.
    pub(crate) fn ask(
        self,
        request: &impl Serialize,
        wrong: &mut dyn FnMut(String) -> Option<String>,
    ) -> Result<(End, Duration), SandboxError> {
        let mut child = self.start(request).map_err(SandboxError::io("start the sandbox"))?;
        let reports = child.stdout.take().map(|stdout| listen(stdout, self.most.clone()));
        let result =
            reports.map_or(Err(io::ErrorKind::BrokenPipe.into()), |reports| self.watch(&mut child, &reports, wrong));
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
    fn start(&self, request: &impl Serialize) -> io::Result<Child> {
        let mut file = tempfile::tempfile()?;
        let mut writer = io::BufWriter::new(&mut file);
        serde_json::to_writer(&mut writer, request)?;
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
    fn watch(
        &self,
        child: &mut Child,
        reports: &Receiver<Report>,
        wrong: &mut dyn FnMut(String) -> Option<String>,
    ) -> io::Result<(End, Option<Duration>)> {
        let mut started: Option<Instant> = None;
        let mut deadline = Instant::now() + START;
        let (mut begun, mut results) = (0, 0);
        let end = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match reports.recv_timeout(left.min(LOOK)) {
                // Once for the program, and once for each result: a program gets no more time by its own reports.
                Ok(Report::Begins) if begun > if self.each { results + 1 } else { 0 } => {
                    break refused(MALFORMED.to_string());
                }
                Ok(Report::Begins) => {
                    begun += 1;
                    started.get_or_insert_with(Instant::now);
                    deadline = Instant::now() + self.limit;
                }
                Ok(Report::Result(text)) => match wrong(text) {
                    Some(detail) => break End::Wrong(detail),
                    None if results + 1 == self.most.len() => break End::Finished,
                    None => results += 1,
                },
                Ok(Report::Reason(kind, detail)) => break End::Reported(kind, detail),
                Ok(Report::Refused(found)) => break refused(found),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => break End::Timeout,
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
}

/// The end of a child that writes what no harness writes: a result that cannot be right.
fn refused(found: String) -> End {
    End::Reported(Reason::WrongAnswer.name().to_string(), found)
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
    Result(String),
    Reason(String, String),
    /// What no harness writes, or a result that is too long.
    Refused(String),
}

/// Reads the reports on a thread of its own. It reads no further result before the last one is judged.
fn listen(stdout: impl Read + Send + 'static, most: Vec<u64>) -> Receiver<Report> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let (mut stdout, mut most) = (BufReader::new(stdout), most.into_iter());
        while let Some(report) = next(&mut stdout, &mut most) {
            let is_last = matches!(report, Report::Refused(_));
            // Without a receiver the run has ended.
            if sender.send(report).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Returns the next report, and None at the end of all or if it is cut off.
fn next(stdout: &mut impl BufRead, most: &mut impl Iterator<Item = u64>) -> Option<Report> {
    let malformed = Some(Report::Refused(MALFORMED.to_string()));
    let mut head = Vec::new();
    stdout.by_ref().take(LONGEST_HEAD).read_until(b'\n', &mut head).ok()?;
    let Some(head) = head.strip_suffix(b"\n") else {
        return if head.len() as u64 == LONGEST_HEAD { malformed } else { None };
    };
    let head = std::str::from_utf8(head).ok().and_then(|head| head.split_once(' '));
    let Some((kind, Ok(size))) = head.map(|(kind, size)| (kind, size.parse::<u64>())) else { return malformed };
    let most = if kind == "value" { most.next().unwrap_or_default() } else { LONGEST_REASON };
    if size > most {
        return Some(Report::Refused(format!("a result of {size} bytes, where at most {most} can be right")));
    }
    let mut text = Vec::new();
    stdout.by_ref().take(size).read_to_end(&mut text).ok().filter(|read| *read as u64 == size)?;
    let Ok(text) = String::from_utf8(text) else { return malformed };
    Some(match kind {
        "begin" => Report::Begins,
        "value" => Report::Result(text),
        _ => Report::Reason(kind.to_string(), text),
    })
}
