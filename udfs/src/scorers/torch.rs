//! PyTorch in a child process: the script `scorer.py`, which the wheel ships too. Each device has its own child.
//!
//! A request is a line of JSON, then ids as int32. A reply is a line of JSON, then float32, then a line that ends it, so
//! that foreign bytes are seen. A child that dies, or that writes anything else, is started again.

mod python;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use asap_lm::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, Target, TokenScore};
use asap_lm::memo::Memory;
use asap_lm::{Dtype, LmError, LoadedModel, Result, Stating, Tokenizer};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::settings::{Device, Devices};

pub(super) use python::has_card;
use python::{lacks, not_started};

const SCRIPT: &str = include_str!("../../../python/python/asap/scorer.py");
/// Deaths without a finished batch that end a run.
const DEATHS: usize = 3;
/// Longest line of a reply; that of a continuation has a number for each text.
const LINE: u64 = 1 << 20;

/// Starts a child for each device, and waits until all have loaded the model.
pub(super) fn open(
    folder: &Path,
    python: &str,
    devices: &Devices,
    dtype: Dtype,
    tokenizer: &Arc<Tokenizer>,
    memory: &Arc<Memory>,
) -> Result<LoadedModel> {
    let begin = |device: &Device| {
        let launch = Launch {
            script: SCRIPT.to_string(),
            python: python.to_string(),
            folder: folder.to_path_buf(),
            device: device.to_string(),
            dtype: format!("{dtype:?}").to_lowercase(),
        };
        let child = launch.start()?;
        Ok((launch, child))
    };
    let stating = Arc::new(Stating::load(folder, tokenizer)?);
    let begun = devices.0.iter().map(begin).collect::<Result<Vec<_>>>()?;
    let ready = |(launch, child)| Ok(Box::new(Torch::of(launch, child, &stating)?) as Box<dyn Backend>);
    let backends = begun.into_iter().map(ready).collect::<Result<_>>()?;
    LoadedModel::with_backends(backends, folder, tokenizer, memory)
}

#[derive(Debug)]
struct Launch {
    script: String,
    python: String,
    folder: PathBuf,
    device: String,
    dtype: String,
}

/// What ended a request.
#[derive(Debug)]
enum Fault {
    /// The child died or writes what is no reply.
    Dead(String),
    /// The child has no memory for these rows.
    TooLarge(String),
    Abandoned,
    Other(LmError),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Dead(error.to_string())
    }
}

type Answer<T> = std::result::Result<T, Fault>;

/// What a child says of itself once it has loaded the model.
#[derive(Debug, Deserialize)]
struct Ready {
    continues: bool,
    tokens: usize,
    vocabulary: u64,
}

struct Child {
    process: std::process::Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// The last line of its stderr.
    complaint: Arc<Mutex<String>>,
    /// The request whose reply no one waits for.
    left: Option<u64>,
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Launch {
    fn start(&self) -> Result<Child> {
        let given = json!({ "model": self.folder, "device": self.device, "dtype": self.dtype });
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
        let keep_last = move || {
            for line in BufReader::new(errors).lines().map_while(std::io::Result::ok) {
                if !line.trim().is_empty() {
                    tracing::debug!("scorer.py: {line}");
                    *last.lock() = line;
                }
            }
        };
        let reader = std::thread::Builder::new().name("asap-scorer".to_string()).spawn(keep_last);
        reader.map_err(|error| LmError::Thread(format!("cannot start it: {error}")))?;
        Ok(Child { process, to, from: BufReader::new(from), complaint, left: None })
    }
}

impl Child {
    /// Waits until the model is loaded; an inner error says why it cannot be.
    fn ready(&mut self) -> Answer<std::result::Result<Ready, String>> {
        let line = self.line(&|| true)?;
        match line["failed"].as_str() {
            Some(why) => Ok(Err(why.to_string())),
            None => Ready::deserialize(&line).map(Ok).map_err(|_| Fault::Dead(format!("it wrote {line}"))),
        }
    }

    fn send(&mut self, line: &Value, numbers: impl IntoIterator<Item = u32>) -> Answer<()> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        numbers.into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        self.to.write_all(&bytes)?;
        Ok(self.to.flush()?)
    }

    /// Waits for the first bytes of a line, as long as a caller waits.
    fn wait(&self, is_wanted: &IsWanted) -> Answer<()> {
        while self.from.buffer().is_empty() {
            let mut pipes = [PollFd::new(self.from.get_ref().as_fd(), PollFlags::POLLIN)];
            match poll(&mut pipes, PollTimeout::from(500_u16)) {
                Ok(0) | Err(Errno::EINTR) if !is_wanted() => return Err(Fault::Abandoned),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => break,
                Err(error) => return Err(Fault::Dead(error.to_string())),
            }
        }
        Ok(())
    }

    fn line(&mut self, is_wanted: &IsWanted) -> Answer<Value> {
        self.wait(is_wanted)?;
        let mut line = Vec::new();
        self.from.by_ref().take(LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(Fault::Dead("it ended".to_string()));
        }
        let shown = || String::from_utf8_lossy(&line).trim().chars().take(100).collect::<String>();
        serde_json::from_slice(&line).map_err(|_| Fault::Dead(format!("it wrote '{}' and not a reply", shown())))
    }

    /// Reads the rest of a reply after its first line.
    fn rest(&mut self, id: u64, line: &Value) -> Answer<Vec<TokenScore>> {
        let count = line["scores"].as_u64().filter(|count| line["id"] == id && *count < 1 << 28);
        let Some(count) = count else { return Err(Fault::Dead(format!("it wrote {line} and not reply {id}"))) };
        let mut bytes = vec![0; count as usize * 8];
        self.from.read_exact(&mut bytes)?;
        if self.line(&|| true)?["end"] != id {
            return Err(Fault::Dead("its reply has another length than it says".to_string()));
        }
        let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
        let (surprisals, entropies) = bytes.split_at(count as usize * 4);
        let pairs = surprisals.as_chunks().0.iter().zip(entropies.as_chunks().0);
        let scores = pairs.map(|(surprisal, entropy)| {
            let (surprisal, entropy) = (number(surprisal), number(entropy));
            match surprisal < -0.01 || entropy < -0.01 {
                true => Err(Fault::Dead(format!("it found a surprisal of {surprisal} and an entropy of {entropy}"))),
                false => Ok(TokenScore { surprisal, entropy }),
            }
        });
        scores.collect()
    }

    /// Reads a reply with this many scores, and its first line.
    fn reply(&mut self, id: u64, line: Value, count: usize) -> Answer<(Vec<TokenScore>, Value)> {
        let scores = self.rest(id, &line)?;
        if line["stopped"] == true {
            return Err(Fault::Abandoned);
        }
        match line["memory"].as_str() {
            Some(why) => Err(Fault::TooLarge(why.to_string())),
            None if scores.len() == count => Ok((scores, line)),
            None => Err(Fault::Dead(format!("it sent {} scores for {count} tokens", scores.len()))),
        }
    }

    /// Reads the reply that no one waited for.
    fn catch_up(&mut self, is_wanted: &IsWanted) -> Answer<()> {
        if let Some(id) = self.left {
            let line = self.line(is_wanted)?;
            self.rest(id, &line)?;
            self.left = None;
        }
        Ok(())
    }

    /// Asks for scores of tokens after rows of texts; targets ascend by row.
    fn score(
        &mut self,
        mut line: Value,
        ids: &[u32],
        targets: &[Target],
        is_wanted: &IsWanted,
    ) -> Answer<(Vec<TokenScore>, Value)> {
        self.catch_up(is_wanted)?;
        line["rows"] = targets.len().into();
        let (rows, tokens) = (targets.iter().map(|target| target.row), targets.iter().map(|target| target.id));
        self.send(&line, ids.iter().copied().chain(rows).chain(tokens))?;
        let id = line["id"].as_u64().unwrap_or_default();
        let header = self.line(is_wanted).inspect_err(|fault| {
            self.left = matches!(fault, Fault::Abandoned).then_some(id);
        })?;
        self.reply(id, header, targets.len())
    }

    /// Why it died. A child that does not end by itself is killed.
    fn end(mut self, why: &str) -> String {
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

/// A backend that asks a child.
struct Torch {
    launch: Launch,
    child: Option<Child>,
    ready: Ready,
    stating: Arc<Stating>,
    requests: u64,
    /// Deaths since the last finished batch.
    deaths: usize,
}

impl Torch {
    fn of(launch: Launch, mut child: Child, stating: &Arc<Stating>) -> Result<Self> {
        let (python, device) = (&launch.python, &launch.device);
        let ready = match child.ready() {
            Ok(Ok(ready)) => ready,
            Ok(Err(why)) if why.starts_with("ModuleNotFoundError") => return Err(lacks(python, &why)),
            Ok(Err(why)) => {
                let folder = launch.folder.display();
                return Err(LmError::Backend(format!(
                    "asap.scorer.backend = 'torch' cannot load {folder} on {device}: {why}"
                )));
            }
            Err(Fault::Dead(why)) => return Err(lacks(python, &child.end(&why))),
            Err(fault) => return Err(LmError::Backend(format!("{python} on {device}: {fault:?}"))),
        };
        Ok(Self { launch, child: Some(child), ready, stating: Arc::clone(stating), requests: 0, deaths: 0 })
    }

    /// Asks the child, again if it dies, and starts it if it is not there.
    fn ask<T>(&mut self, mut once: impl FnMut(&mut Child, u64) -> Answer<T>) -> Result<T> {
        let mut died = 0;
        loop {
            self.requests += 1;
            let id = self.requests;
            let fault = match self.child().and_then(|child| once(child, id)) {
                Ok(found) => {
                    self.deaths = 0;
                    return Ok(found);
                }
                Err(fault) => fault,
            };
            let why = match fault {
                Fault::Abandoned => return Err(LmError::Abandoned),
                Fault::Other(error) => return Err(error),
                Fault::TooLarge(why) => return Err(LmError::Rejected(format!("{}: {why}", self.launch.device))),
                Fault::Dead(why) => self.child.take().map_or(why.clone(), |child| child.end(&why)),
            };
            (self.deaths, died) = (self.deaths + 1, died + 1);
            let what = format!("PyTorch on {} died: {why}", self.launch.device);
            if self.deaths >= DEATHS {
                return Err(LmError::Unavailable(format!(
                    "{what}. It died {DEATHS} times without a finished batch: run the same command to resume"
                )));
            }
            if died == 2 {
                let what = format!("{what}, for the second time on these rows");
                tracing::warn!("{what}; they get no scores");
                return Err(LmError::Rejected(what));
            }
            tracing::warn!("{what}; it is started again");
        }
    }

    fn child(&mut self) -> Answer<&mut Child> {
        if self.child.is_none() {
            let mut child = self.launch.start().map_err(|error| Fault::Dead(error.to_string()))?;
            let ready = child.ready();
            self.ready = match ready {
                Ok(Ok(ready)) => ready,
                Ok(Err(why)) => return Err(Fault::Dead(why)),
                Err(Fault::Dead(why)) => return Err(Fault::Dead(child.end(&why))),
                Err(fault) => return Err(fault),
            };
            self.child = Some(child);
        }
        self.child.as_mut().ok_or_else(|| Fault::Dead("it did not start".to_string()))
    }

    fn scores(
        &mut self,
        line: &Value,
        ids: &[u32],
        targets: &[Target],
        is_wanted: &IsWanted,
    ) -> Result<Vec<TokenScore>> {
        let mut order: Vec<usize> = (0..targets.len()).collect();
        order.sort_by_key(|place| targets[*place].row);
        let ascending: Vec<Target> = order.iter().map(|place| targets[*place]).collect();
        let (found, header) = self.ask(|child, id| {
            let mut line = line.clone();
            line["id"] = id.into();
            child.score(line, ids, &ascending, is_wanted)
        })?;
        // Memory that ran out makes later batches smaller.
        self.ready.tokens = header["tokens"].as_u64().map_or(self.ready.tokens, |tokens| (tokens as usize).max(1));
        let mut scores = vec![TokenScore { surprisal: f32::NAN, entropy: f32::NAN }; targets.len()];
        order.into_iter().zip(found).for_each(|(place, score)| scores[place] = score);
        Ok(scores)
    }
}

impl Backend for Torch {
    fn name(&self) -> &'static str {
        "torch"
    }

    fn continues(&self) -> bool {
        self.ready.continues
    }

    fn tokens_per_batch(&self) -> usize {
        self.ready.tokens
    }

    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        self.scores(&json!({ "ask": "score", "lengths": chains.lengths }), chains.ids, targets, is_wanted)
    }

    fn score_forks(&mut self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let (mut ids, mut targets) = (Vec::new(), Vec::new());
        for text in texts {
            targets.extend(text.targets(ids.len()));
            ids.extend_from_slice(&text.ids);
        }
        let lengths: Vec<[usize; 2]> = texts.iter().map(|text| [text.from, text.ids.len()]).collect();
        self.scores(&json!({ "ask": "forks", "texts": lengths }), &ids, &targets, is_wanted)
    }

    fn continue_greedily(&mut self, texts: &[&Continuation], is_wanted: &IsWanted) -> Result<Vec<Continued>> {
        // Texts that share most follow each other.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|place| (texts[*place].question, &texts[*place].shared));
        let texts: Vec<&Continuation> = order.iter().map(|place| texts[*place]).collect();
        let (stating, vocabulary) = (Arc::clone(&self.stating), self.ready.vocabulary);
        let found = self.ask(|child, id| continue_once(child, id, &texts, &stating, vocabulary, is_wanted))?;
        let mut found: Vec<(usize, Continued)> = order.into_iter().zip(found).collect();
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, continued)| continued).collect())
    }
}

fn continue_once(
    child: &mut Child,
    id: u64,
    texts: &[&Continuation],
    stating: &Stating,
    vocabulary: u64,
    is_wanted: &IsWanted,
) -> Answer<Vec<Continued>> {
    child.catch_up(is_wanted)?;
    let shape = |text: &&Continuation| {
        let lengths = [text.shared.len(), text.before_answer.len(), text.with_answer.len()];
        json!([lengths[0], lengths[1], lengths[2], text.answer, text.states])
    };
    let shapes: Vec<Value> = texts.iter().map(shape).collect();
    let ids = texts.iter().flat_map(|text| [&text.shared, &text.before_answer, &text.with_answer]).flatten();
    child.send(&json!({ "id": id, "ask": "continue", "texts": shapes }), ids.copied())?;
    let mut stated: Vec<(String, usize)> = Vec::new();
    let mut written: Vec<u32> = Vec::new();
    let header = loop {
        // A token takes less than a second, so a caller that leaves is seen between tokens.
        let line = child.line(&|| true)?;
        let Some(token) = line["token"].as_u64() else { break line };
        if token >= vocabulary || line["id"] != id {
            return Err(Fault::Dead(format!("it wrote {line}")));
        }
        written.push(token as u32);
        let text = stating.stated(&written).map_err(Fault::Other)?;
        let reply = match &text {
            _ if !is_wanted() => b"x",
            Some(_) => b".",
            None => b"+",
        };
        child.to.write_all(reply)?;
        if let Some(text) = text {
            stated.push((text, std::mem::take(&mut written).len()));
        }
    };
    let answers = texts.iter().map(|text| text.with_answer.len() - text.answer);
    let (scores, header) = child.reply(id, header, answers.clone().sum())?;
    let (mut rest, mut stated) = (scores.as_slice(), stated.into_iter());
    let read = header["read"].as_array().into_iter().flatten();
    let found = texts.iter().zip(answers).zip(read).map(|((text, answer), read)| {
        let (own, later) = rest.split_at(answer);
        rest = later;
        let sum: f64 = own.iter().map(|token| f64::from(token.surprisal)).sum();
        let stated = if text.states { stated.next() } else { None };
        Continued {
            log_probability: -sum / own.len() as f64,
            tokens_read: read.as_u64().unwrap_or_default() as usize,
            tokens_written: stated.as_ref().map_or(0, |(_, tokens)| *tokens),
            stated: stated.map(|(text, _)| text),
        }
    });
    let found: Vec<Continued> = found.collect();
    let is_whole = found.iter().zip(texts).all(|(found, text)| found.stated.is_some() == text.states);
    if found.len() != texts.len() || !is_whole {
        return Err(Fault::Dead(format!("it answered {} of {} texts", found.len(), texts.len())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
