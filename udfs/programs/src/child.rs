//! Runs one child and reads its reports: one thread reads and judges results, another one watches the child.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Take, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Reason;
use crate::clock::Clock;
use crate::error::SandboxError;

/// The most time from the start of the child to the start of the program.
pub(crate) const START: Duration = Duration::from_secs(60);
/// How often the child is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The most time by the wall clock: a multiple of a program's limit and [`START`]. Only a program that gets few processors
/// from a busy machine comes near it.
const TIMES_WALL: u32 = 10;
/// The most threads. Numeric libraries and pools of threads stay far below it.
pub(crate) const MOST_THREADS: u64 = 256;
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
    TooManyThreads,
    Killed,
    Signal(i32),
    /// It left without a result.
    Left(i32),
}

pub(crate) struct Run<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) arguments: Vec<OsString>,
    /// The time of the program, by its [`Clock`].
    pub(crate) limit: Duration,
    /// Whether each result has this time.
    pub(crate) each: bool,
    /// The most bytes of each result.
    pub(crate) most: Vec<u64>,
}

/// A result that is still being read. Its limit is what is left of it.
pub(crate) type Found<'a> = Take<&'a mut dyn BufRead>;

/// Judges results. Returns what is wrong with one.
pub(crate) type Judging<'a> = dyn FnMut(&mut Found<'_>) -> io::Result<Option<String>> + Send + 'a;

/// Reads a whole result. None if it is not text.
pub(crate) fn whole(found: &mut Found<'_>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    found.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok())
}

impl Run<'_> {
    /// Runs a child with a request, until `wrong` does not accept a result, or until it has accepted all. Returns the end
    /// and the time since the start of the program.
    pub(crate) fn ask(
        self,
        request: &impl Serialize,
        wrong: &mut Judging<'_>,
    ) -> Result<(End, Duration), SandboxError> {
        let mut child = self.start(request).map_err(SandboxError::io("start the sandbox"))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(SandboxError::io("start the sandbox")(io::ErrorKind::BrokenPipe.into()));
        };
        let pipe = Pipe { file: File::from(OwnedFd::from(stdout)), is_waiting: AtomicBool::new(false) };
        let (result, killed) = thread::scope(|scope| {
            let (sender, reports) = sync_channel(1);
            let (pipe, most) = (&pipe, &self.most);
            scope.spawn(move || {
                listen(pipe, most, wrong, &sender);
                // There is nothing more that the child could wait for.
                pipe.is_waiting.store(true, Ordering::Relaxed);
            });
            let result = self.watch(&mut child, pipe, &reports);
            // Not the program's own end: there is nothing else that it could start. It also ends the reading.
            (result, child.kill().and_then(|()| child.wait()))
        });
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
    fn watch(&self, child: &mut Child, pipe: &Pipe, reports: &Receiver<Report>) -> io::Result<(End, Option<Duration>)> {
        let mut clock = Clock::start(child.id())?;
        let look = |clock: &mut Clock| clock.look(!pipe.is_read()?);
        let mut started: Option<Duration> = None;
        // When the program or its last test began, by both clocks.
        let mut since = (Duration::ZERO, Instant::now());
        let mut next_look = Instant::now();
        let (mut begun, mut results) = (0, 0);
        let end = loop {
            let now = Instant::now();
            if now >= next_look {
                look(&mut clock)?;
                next_look = now + LOOK;
                if clock.threads > MOST_THREADS {
                    break End::TooManyThreads;
                }
                let wall = if started.is_some() { self.limit * TIMES_WALL + START } else { START };
                if since.1.elapsed() > wall || (started.is_some() && clock.time() - since.0 > self.limit) {
                    break End::Timeout;
                }
            }
            match reports.recv_timeout(next_look - now) {
                // Once for the program, and once for each result: a program gets no more time by its own reports.
                Ok(Report::Begins) if begun > if self.each { results + 1 } else { 0 } => {
                    break refused(MALFORMED.to_string());
                }
                Ok(Report::Begins) => {
                    begun += 1;
                    look(&mut clock)?;
                    since = (clock.time(), Instant::now());
                    started.get_or_insert(since.0);
                }
                Ok(Report::Result(Some(detail))) => break End::Wrong(detail),
                Ok(Report::Result(None)) if results + 1 == self.most.len() => break End::Finished,
                Ok(Report::Result(None)) => results += 1,
                Ok(Report::Reason(kind, detail)) => break End::Reported(kind, detail),
                Ok(Report::Refused(found)) => break refused(found),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    look(&mut clock)?;
                    match child.try_wait()? {
                        Some(status) => return Ok((ended(status), started.map(|started| clock.time() - started))),
                        None => thread::sleep(EXITING),
                    }
                }
            }
        };
        look(&mut clock)?;
        Ok((end, started.map(|started| clock.time() - started)))
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
    /// What is wrong with a result.
    Result(Option<String>),
    Reason(String, String),
    /// What no harness writes, or a result that is too long.
    Refused(String),
}

/// Reads the reports, and judges each result before it reads the next one.
fn listen(pipe: &Pipe, most: &[u64], wrong: &mut Judging<'_>, sender: &SyncSender<Report>) {
    let (mut reader, mut most) = (BufReader::new(pipe), most.iter().copied());
    while let Some(report) = next(&mut reader, &mut most, wrong) {
        let is_last = !matches!(report, Report::Begins | Report::Result(None));
        // Without a receiver the run has ended.
        if sender.send(report).is_err() || is_last {
            return;
        }
    }
}

/// What the child writes. Its end is an error: the child ended within a report.
struct Pipe {
    file: File,
    /// Whether asap waits for more.
    is_waiting: AtomicBool,
}

impl Pipe {
    /// Whether asap has read and judged all that the child has written.
    fn is_read(&self) -> io::Result<bool> {
        Ok(self.is_waiting.load(Ordering::Relaxed) && rustix::io::ioctl_fionread(&self.file)? == 0)
    }
}

impl Read for &Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_waiting.store(true, Ordering::Relaxed);
        let read = (&self.file).read(buffer);
        self.is_waiting.store(false, Ordering::Relaxed);
        match read? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            size => Ok(size),
        }
    }
}

/// Returns the next report, and None at the end of all or if it is cut off.
fn next(reader: &mut impl BufRead, most: &mut impl Iterator<Item = u64>, wrong: &mut Judging<'_>) -> Option<Report> {
    let malformed = Some(Report::Refused(MALFORMED.to_string()));
    let mut head = Vec::new();
    reader.take(LONGEST_HEAD).read_until(b'\n', &mut head).ok()?;
    let Some(head) = head.strip_suffix(b"\n") else { return malformed };
    let head = std::str::from_utf8(head).ok().and_then(|head| head.split_once(' '));
    let Some((kind, Ok(size))) = head.map(|(kind, size)| (kind, size.parse::<u64>())) else { return malformed };
    let most = if kind == "value" { most.next().unwrap_or_default() } else { LONGEST_REASON };
    if size > most {
        return Some(Report::Refused(format!("a result of {size} bytes, where at most {most} can be right")));
    }
    let mut text = (reader as &mut dyn BufRead).take(size);
    if kind == "value" {
        return wrong(&mut text).ok().map(Report::Result);
    }
    let Some(text) = whole(&mut text).ok()? else { return malformed };
    Some(if kind == "begin" { Report::Begins } else { Report::Reason(kind.to_string(), text) })
}
