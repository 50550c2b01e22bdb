//! A child process: its replies, and pipes that no silence of the child blocks.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use asap_lm::backend::{IsWanted, Target, TokenScore};
use asap_lm::{LmError, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scorers::ENCODER_BACKEND;

use super::lines::each_line;
use super::python::not_started;

/// Longest line of a reply; that of a continuation has a number for each text.
const LINE: usize = 1 << 20;
/// Milliseconds between two looks whether a caller still waits.
const LOOK: u16 = 500;
/// A child that is silent for this many looks in the middle of a reply is given up once no caller waits: what it would
/// write later is no beginning of a reply.
const SILENT_LOOKS: u32 = 4;
/// A pipe that has room at all has room for this many bytes.
const PIPE_BYTES: usize = 4096;
/// A surprisal from here on is that of no model. vLLM writes −∞ as the same number.
const IMPOSSIBLE: f32 = 9999.0;

#[derive(Debug)]
pub(super) struct Launch {
    pub script: String,
    pub python: String,
    pub folder: PathBuf,
    pub device: String,
    pub dtype: String,
    /// The setting that chose PyTorch: that of the scoring model or that of the encoder.
    pub backend: &'static str,
}

/// What ended a request.
#[derive(Debug)]
pub(super) enum Fault {
    /// The child died, or is of no use any longer.
    Dead(String),
    /// The child has no memory for these rows.
    TooLarge(String),
    Abandoned,
    /// No caller waits, and the child is silent in the middle of a message: it cannot be asked again.
    Silent,
    Other(LmError),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Dead(error.to_string())
    }
}

pub(super) type Answer<T> = std::result::Result<T, Fault>;

/// What a child says of itself once it has loaded the model.
#[derive(Debug, Deserialize)]
pub(super) struct Ready {
    pub continues: bool,
    pub tokens: usize,
    pub vocabulary: u64,
}

#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// The last line of its stderr.
    complaint: Arc<Mutex<String>>,
    /// The request whose reply no one waits for, and the number of its scores.
    pub(super) left: Option<(u64, usize)>,
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Launch {
    pub(super) fn start(&self) -> Result<Child> {
        let is_encoder = self.backend == ENCODER_BACKEND;
        let given =
            json!({ "model": self.folder, "device": self.device, "dtype": self.dtype, "is_encoder": is_encoder });
        let mut command = Command::new(&self.python);
        command.arg("-c").arg(&self.script).arg(given.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| not_started(&self.python, &error))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(to), Some(from), Some(errors)) = pipes else {
            return Err(LmError::Thread("a child process has no pipes".to_string()));
        };
        let complaint = Arc::new(Mutex::new(String::new()));
        let last = Arc::clone(&complaint);
        let reader = std::thread::Builder::new().name("asap-scorer".to_string());
        let reader = reader.spawn(move || {
            each_line(errors, |line| {
                tracing::debug!("scorer.py: {line}");
                *last.lock() = line;
            })
        });
        reader.map_err(|error| LmError::Thread(format!("cannot start it: {error}")))?;
        Ok(Child { process, to, from: BufReader::new(from), complaint, left: None })
    }
}

/// Waits until a pipe is ready. Returns false once no caller waits and it was not ready for some looks.
fn is_ready(pipe: BorrowedFd, for_what: PollFlags, looks: u32, is_wanted: &IsWanted) -> Answer<bool> {
    let mut silent = 0;
    loop {
        match poll(&mut [PollFd::new(pipe, for_what)], PollTimeout::from(LOOK)) {
            Ok(0) | Err(Errno::EINTR) => silent += 1,
            Ok(_) => return Ok(true),
            Err(error) => return Err(Fault::Dead(error.to_string())),
        }
        if silent >= looks && !is_wanted() {
            return Ok(false);
        }
    }
}

impl Child {
    /// Waits until the model is loaded; an inner error says why it cannot be.
    pub(super) fn ready(&mut self, is_wanted: &IsWanted) -> Answer<std::result::Result<Ready, String>> {
        let line = self.first_line(is_wanted)?;
        match line["failed"].as_str() {
            Some(why) => Ok(Err(why.to_string())),
            None => Ready::deserialize(&line).map(Ok).map_err(|_| Fault::Dead(format!("it wrote {line}"))),
        }
    }

    pub(super) fn send(
        &mut self,
        line: &Value,
        numbers: impl IntoIterator<Item = u32>,
        is_wanted: &IsWanted,
    ) -> Answer<()> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        numbers.into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        self.write(&bytes, is_wanted)
    }

    /// Writes as the child reads. A child that reads no longer would otherwise hold the writer forever.
    pub(super) fn write(&mut self, bytes: &[u8], is_wanted: &IsWanted) -> Answer<()> {
        for part in bytes.chunks(PIPE_BYTES) {
            if !is_ready(self.to.as_fd(), PollFlags::POLLOUT, SILENT_LOOKS, is_wanted)? {
                return Err(Fault::Silent);
            }
            self.to.write_all(part)?;
        }
        Ok(self.to.flush()?)
    }

    /// Returns bytes that the child wrote, at least one unless it ended; None if it is silent for some looks.
    fn bytes(&mut self, looks: u32, is_wanted: &IsWanted) -> Answer<Option<&[u8]>> {
        let is_buffered = !self.from.buffer().is_empty();
        if !is_buffered && !is_ready(self.from.get_ref().as_fd(), PollFlags::POLLIN, looks, is_wanted)? {
            return Ok(None);
        }
        Ok(Some(self.from.fill_buf()?))
    }

    /// Reads the line that begins a reply, as long as a caller waits.
    fn first_line(&mut self, is_wanted: &IsWanted) -> Answer<Value> {
        match self.bytes(1, is_wanted)? {
            Some(_) => self.line(is_wanted),
            None => Err(Fault::Abandoned),
        }
    }

    /// Reads a line in the middle of a reply.
    pub(super) fn line(&mut self, is_wanted: &IsWanted) -> Answer<Value> {
        let mut line = Vec::new();
        loop {
            let found = self.bytes(SILENT_LOOKS, is_wanted)?.ok_or(Fault::Silent)?;
            let end = found.iter().position(|byte| *byte == b'\n');
            let read = end.map_or(found.len(), |end| end + 1).min(LINE - line.len());
            line.extend_from_slice(&found[..read]);
            self.from.consume(read);
            if read == 0 || end.is_some() || line.len() == LINE {
                break;
            }
        }
        if line.is_empty() {
            return Err(Fault::Dead("it ended".to_string()));
        }
        let shown = || String::from_utf8_lossy(&line).trim().chars().take(100).collect::<String>();
        serde_json::from_slice(&line).map_err(|_| Fault::Dead(format!("it wrote '{}' and not a reply", shown())))
    }

    /// Reads this many scores of a reply, which follow its first line, and the line that ends it.
    fn scores(&mut self, id: u64, count: usize, is_wanted: &IsWanted) -> Answer<Vec<TokenScore>> {
        let mut bytes = Vec::with_capacity(count * 12);
        while bytes.len() < count * 12 {
            let left = count * 12 - bytes.len();
            let found = self.bytes(SILENT_LOOKS, is_wanted)?.ok_or(Fault::Silent)?;
            let read = found.len().min(left);
            bytes.extend_from_slice(&found[..read]);
            self.from.consume(read);
            if read == 0 {
                return Err(Fault::Dead("it ended in the middle of a reply".to_string()));
            }
        }
        if self.line(is_wanted)?["end"] != id {
            return Err(Fault::Dead("its reply has another length than it says".to_string()));
        }
        let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
        let (surprisals, others) = bytes.split_at(count * 4);
        let (entropies, ranks) = others.split_at(count * 4);
        let triples = surprisals.as_chunks().0.iter().zip(entropies.as_chunks().0).zip(ranks.as_chunks().0);
        let scores = triples.map(|((surprisal, entropy), rank)| {
            let (surprisal, entropy, rank) = (number(surprisal), number(entropy), number(rank) as u32);
            match surprisal < -0.01 || entropy < -0.01 {
                true => Err(Fault::Dead(format!("it found a surprisal of {surprisal} and an entropy of {entropy}"))),
                false if surprisal >= IMPOSSIBLE => Ok(TokenScore { surprisal: f32::INFINITY, entropy, rank }),
                false => Ok(TokenScore { surprisal, entropy, rank }),
            }
        });
        scores.collect()
    }

    /// Reads a reply with this many scores, and its first line.
    pub(super) fn reply(
        &mut self,
        id: u64,
        line: Value,
        expected: usize,
        is_wanted: &IsWanted,
    ) -> Answer<(Vec<TokenScore>, Value)> {
        let count = line["scores"].as_u64().filter(|_| line["id"] == id);
        let Some(count) = count else { return Err(Fault::Dead(format!("it wrote {line} and not reply {id}"))) };
        let is_none = line["stopped"] == true || line["memory"].is_string();
        if count != expected as u64 && !(is_none && count == 0) {
            return Err(Fault::Dead(format!("it sent {count} scores for {expected} tokens")));
        }
        let scores = self.scores(id, if count == 0 { 0 } else { expected }, is_wanted)?;
        match line["memory"].as_str() {
            _ if line["stopped"] == true => Err(Fault::Abandoned),
            Some(why) => Err(Fault::TooLarge(why.to_string())),
            None => Ok((scores, line)),
        }
    }

    /// Reads the reply that no one waited for.
    pub(super) fn catch_up(&mut self, is_wanted: &IsWanted) -> Answer<()> {
        if let Some((id, count)) = self.left {
            let line = self.first_line(is_wanted)?;
            match self.reply(id, line, count, is_wanted) {
                Ok(_) | Err(Fault::TooLarge(_) | Fault::Abandoned) => self.left = None,
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Asks for scores of tokens after rows of texts; targets ascend by row.
    pub(super) fn score(
        &mut self,
        mut line: Value,
        ids: &[u32],
        targets: &[Target],
        is_wanted: &IsWanted,
    ) -> Answer<(Vec<TokenScore>, Value)> {
        self.catch_up(is_wanted)?;
        line["rows"] = targets.len().into();
        let (rows, tokens) = (targets.iter().map(|target| target.row), targets.iter().map(|target| target.id));
        self.send(&line, ids.iter().copied().chain(rows).chain(tokens), is_wanted)?;
        let id = line["id"].as_u64().unwrap_or_default();
        let header = self.first_line(is_wanted).inspect_err(|fault| {
            self.left = matches!(fault, Fault::Abandoned).then_some((id, targets.len()));
        })?;
        self.reply(id, header, targets.len(), is_wanted)
    }

    /// Why it died. A child that does not end by itself is killed.
    pub(super) fn end(mut self, why: &str) -> String {
        let tries = std::iter::repeat_n(Duration::from_millis(20), 5);
        let ended =
            tries.inspect(|pause| std::thread::sleep(*pause)).find_map(|_| self.process.try_wait().ok().flatten());
        let complaint = self.complaint.lock().clone();
        match ended {
            // A kernel that is out of memory sends SIGKILL. What the child wrote before has nothing to do with that.
            Some(status) if status.signal() == Some(9) => format!("{why} ({status}, perhaps for want of memory)"),
            Some(status) => format!("{why} ({status}) {complaint}").trim_end().to_string(),
            None => why.to_string(),
        }
    }
}
