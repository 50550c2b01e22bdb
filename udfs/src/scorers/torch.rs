//! PyTorch in a child process: the script `scorer.py`, which the wheel ships too. Each device has its own child.
//!
//! A request is a line of JSON, then ids as int32. A reply is a line of JSON, then float32, then a line that ends it, so
//! that foreign bytes are seen. A child that dies, or that writes anything else, is started again.

mod child;
mod encoder;
mod lines;
mod python;

use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::{Setting, either};
use asap_lm::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, Target, TokenScore};
use asap_lm::{Dtype, LmError, LoadedModel, Result, Stating};
use serde_json::{Value, json};

use super::kind::{Fit, Kind, Opening, Runs, Settled};
use super::{BACKEND, DTYPE};
use crate::interrupt;
use crate::settings::{Device, Devices, Settings};

use child::{Answer, Child, Fault, Launch, Ready};
pub(super) use encoder::open as open_encoder;
pub(super) use python::has_card;
use python::lacks;

const SCRIPT: &str = include_str!("torch/scorer.py");
/// Deaths without a finished batch that end a run.
const DEATHS: usize = 3;
/// A plain text. A child that cannot score it is broken, whatever rows it was asked before.
const PROOF: &str = "Let x be 3. Then 2x + 1 = 7, so f(x) is odd.";
const UNSOUND: &str = "it was ended: its scores of a plain text are NaN, infinite or all the same";

/// Models of transformers by PyTorch.
pub(super) struct PyTorch;

impl Kind for PyTorch {
    fn name(&self) -> &'static str {
        "torch"
    }

    fn settled(&self, settings: &Settings) -> Settled {
        settled_on(settings.scorer_device.clone().unwrap_or(Devices(vec![Device::Cpu])), settings)
    }

    fn fits(&self, _: &Path, settings: &Settings) -> Fit {
        let devices = settings.scorer_device.clone().map_or_else(|| devices(settings), Ok);
        devices.map(|devices| settled_on(devices, settings)).map_err(|error| vec![error])
    }

    fn lacks(&self, _: &Path, settings: &Settings) -> Option<LmError> {
        check(settings, &self.settled(settings).devices?).err()
    }

    /// Starts a child for each device, and waits until all have loaded the model.
    fn open(&self, settled: &Settled, opening: &Opening) -> asap_lm::Result<LoadedModel> {
        let Opening { folder, settings, tokenizer, memory } = *opening;
        let Settled { devices: Some(devices), dtype: Some(dtype), .. } = settled else {
            return Err(LmError::Backend("PyTorch needs devices and a data type".to_string()));
        };
        let (stating, proof) =
            (Stating::load(folder, tokenizer)?, Proof::of_scorer(tokenizer.encode(PROOF, false)?.ids));
        let children = Children { folder, python: &settings.scorer_python, devices, dtype: *dtype, backend: BACKEND };
        let torches = children.start(proof, Some(Arc::new(stating)))?.into_iter();
        let backends = torches.map(|torch| Box::new(torch) as Box<dyn Backend>).collect();
        LoadedModel::with_backends(backends, folder, tokenizer, memory)
    }
}

fn settled_on(devices: Devices, settings: &Settings) -> Settled {
    let on_cpu = devices.is_cpu();
    let dtype = settings.scorer_dtype.unwrap_or(if on_cpu { Dtype::F32 } else { Dtype::Bf16 });
    let runs = if on_cpu { Runs::InChild } else { Runs::Elsewhere };
    Settled { devices: Some(devices), dtype: Some(dtype), computes_in: Some(dtype.name()), runs }
}

/// The devices of PyTorch if settings name none.
pub(super) fn devices(settings: &Settings) -> asap_lm::Result<Devices> {
    Ok(Devices(vec![if has_card(&settings.scorer_python)? { Device::Cuda(None) } else { Device::Cpu }]))
}

/// Fails if PyTorch is missing, or finds no GPU and should run on one.
pub(super) fn check(settings: &Settings, devices: &Devices) -> asap_lm::Result<()> {
    let python = &settings.scorer_python;
    match has_card(python)? {
        false if !devices.is_cpu() => {
            Err(LmError::Backend(format!("PyTorch of asap.scorer.python = '{python}' finds no GPU for {devices}")))
        }
        _ => Ok(()),
    }
}

/// The children of a model.
struct Children<'a> {
    folder: &'a Path,
    python: &'a str,
    devices: &'a Devices,
    dtype: Dtype,
    /// The setting that chose them.
    backend: &'static str,
}

impl Children<'_> {
    /// Starts all before it waits for the first.
    fn start(self, proof: Proof, stating: Option<Arc<Stating>>) -> Result<Vec<Torch>> {
        let begin = |device: &Device| {
            let launch = Launch {
                script: SCRIPT.to_string(),
                python: self.python.to_string(),
                folder: self.folder.to_path_buf(),
                device: device.to_string(),
                dtype: self.dtype.name().to_string(),
                backend: self.backend,
            };
            let child = launch.start()?;
            Ok((launch, child))
        };
        let begun = self.devices.0.iter().map(begin).collect::<Result<Vec<_>>>()?;
        let proof = Arc::new(proof);
        let ready = |(launch, child)| Torch::of(launch, child, &proof, stating.as_ref());
        begun.into_iter().map(ready).collect()
    }
}

/// A request that only a broken child cannot answer: that of [`PROOF`].
#[derive(Debug)]
struct Proof {
    line: Value,
    ids: Vec<u32>,
    targets: Vec<Target>,
}

impl Proof {
    fn of_scorer(ids: Vec<u32>) -> Self {
        let targets = (0..).zip(ids.iter().skip(1)).map(|(row, id)| Target { row, id: *id }).collect();
        Self { line: json!({ "ask": "score", "lengths": [ids.len()] }), ids, targets }
    }
}

/// A backend that asks a child.
#[derive(Debug)]
struct Torch {
    launch: Launch,
    child: Option<Child>,
    ready: Ready,
    proof: Arc<Proof>,
    /// None for an encoder, which continues no text.
    stating: Option<Arc<Stating>>,
    requests: u64,
    /// Deaths since the last finished batch.
    deaths: usize,
}

impl Torch {
    fn of(launch: Launch, mut child: Child, proof: &Arc<Proof>, stating: Option<&Arc<Stating>>) -> Result<Self> {
        let (python, device) = (&launch.python, &launch.device);
        let ready = match child.ready(&|| !interrupt::is_asked()) {
            Ok(Ok(ready)) => ready,
            Ok(Err(why)) if why.starts_with("ModuleNotFoundError") => return Err(lacks(python, &why)),
            Ok(Err(why)) => {
                let (folder, backend) = (launch.folder.display(), Setting(launch.backend));
                return Err(LmError::Backend(format!("{backend} = 'torch' cannot load {folder} on {device}: {why}")));
            }
            Err(Fault::Dead(why)) => return Err(lacks(python, &child.end(&why))),
            Err(Fault::Abandoned | Fault::Silent) => return Err(LmError::Abandoned),
            Err(fault) => return Err(LmError::Backend(format!("{python} on {device}: {fault:?}"))),
        };
        let (proof, stating) = (Arc::clone(proof), stating.cloned());
        Ok(Self { launch, child: Some(child), ready, proof, stating, requests: 0, deaths: 0 })
    }

    /// Asks the child once, and starts it if it is not there. The inner error says how it died.
    fn once<T>(
        &mut self,
        request: &mut impl FnMut(&mut Child, u64) -> Answer<T>,
        is_wanted: &IsWanted,
    ) -> Result<std::result::Result<T, String>> {
        self.requests += 1;
        let id = self.requests;
        let why = match self.child(is_wanted).and_then(|child| request(child, id)) {
            Ok(found) => {
                self.deaths = 0;
                return Ok(Ok(found));
            }
            Err(Fault::Abandoned) => return Err(LmError::Abandoned),
            Err(Fault::Silent) => {
                self.child = None;
                return Err(LmError::Abandoned);
            }
            Err(Fault::Other(error)) => return Err(error),
            Err(Fault::TooLarge(why)) => return Err(LmError::Rejected(format!("{}: {why}", self.launch.device))),
            Err(Fault::Dead(why)) => self.child.take().map_or(why.clone(), |child| child.end(&why)),
        };
        self.deaths += 1;
        let what = format!("PyTorch on {} died: {why}", self.launch.device);
        if self.deaths >= DEATHS {
            return Err(LmError::Unavailable(format!(
                "{what}. It died {DEATHS} times without a finished batch: {} to resume",
                either("run the same command", "repeat the call")
            )));
        }
        tracing::warn!("{what}; it is started again");
        Ok(Err(what))
    }

    /// Asks the child, again if it dies or has broken. Only a child that is proved to work rejects rows.
    fn ask<T>(&mut self, mut request: impl FnMut(&mut Child, u64) -> Answer<T>, is_wanted: &IsWanted) -> Result<T> {
        let mut died = String::new();
        for _ in 0..2 {
            match self.once(&mut request, is_wanted) {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(what)) => died = what,
                Err(LmError::Rejected(why)) => match self.prove(is_wanted)? {
                    true => return Err(LmError::Rejected(why)),
                    false => died = why,
                },
                Err(error) => return Err(error),
            }
        }
        self.prove(is_wanted)?;
        let what = format!("{died}, for the second time on these rows");
        tracing::warn!("{what}; they get no scores");
        Err(LmError::Rejected(what))
    }

    /// [`Torch::ask`], and again if the answer is not sound. The second one is that of the rows, if the child works
    /// after it.
    fn ask_soundly<T>(
        &mut self,
        mut request: impl FnMut(&mut Child, u64) -> Answer<T>,
        is_sound: impl Fn(&T) -> bool,
        is_wanted: &IsWanted,
    ) -> Result<T> {
        for is_first in [true, false, false] {
            let found = self.ask(&mut request, is_wanted)?;
            if is_sound(&found) || self.prove(is_wanted)? && !is_first {
                return Ok(found);
            }
        }
        Err(LmError::Unavailable(format!(
            "PyTorch on {} breaks again and again: {} to resume",
            self.launch.device,
            either("run the same command", "repeat the call")
        )))
    }

    /// Asks for the scores of [`PROOF`], of a new child if need be. Returns once a child works, and whether the first one
    /// did.
    fn prove(&mut self, is_wanted: &IsWanted) -> Result<bool> {
        let proof = Arc::clone(&self.proof);
        let hint = match self.launch.dtype.as_str() {
            "bf16" => format!(" (set {} to f32)", Setting(DTYPE)),
            _ => String::new(),
        };
        let mut request = |child: &mut Child, id: u64| {
            let Proof { line, ids, targets } = &*proof;
            let mut line = line.clone();
            line["id"] = id.into();
            match child.score(line, ids, targets, is_wanted) {
                Ok((scores, _)) if are_sound(&scores) => Ok(()),
                Ok(_) => Err(Fault::Dead(format!("{UNSOUND}{hint}"))),
                Err(Fault::TooLarge(why)) => Err(Fault::Dead(format!("{why}, even for {} tokens", targets.len() + 1))),
                Err(fault) => Err(fault),
            }
        };
        let mut worked = true;
        // Each failure is a death, and three of them end the query.
        while self.once(&mut request, is_wanted)?.is_err() {
            worked = false;
        }
        Ok(worked)
    }

    fn child(&mut self, is_wanted: &IsWanted) -> Answer<&mut Child> {
        if self.child.is_none() {
            let mut child = self.launch.start().map_err(|error| Fault::Dead(error.to_string()))?;
            let ready = child.ready(is_wanted);
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
        let once = |child: &mut Child, id: u64| {
            let mut line = line.clone();
            line["id"] = id.into();
            child.score(line, ids, &ascending, is_wanted)
        };
        let (found, header) = self.ask_soundly(once, |(scores, _)| are_sound(scores), is_wanted)?;
        // Memory that ran out makes later batches smaller.
        self.ready.tokens = header["tokens"].as_u64().map_or(self.ready.tokens, |tokens| (tokens as usize).max(1));
        let mut scores = vec![TokenScore::NONE; targets.len()];
        order.into_iter().zip(found).for_each(|(place, score)| scores[place] = score);
        Ok(scores)
    }

    /// Scores the chains of a batch that was rejected, so that only those fail that do so alone.
    fn one_by_one(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let (mut scores, mut start) = (vec![TokenScore::NONE; targets.len()], 0);
        for length in chains.lengths {
            let own = start..start + length;
            let places: Vec<usize> =
                (0..targets.len()).filter(|place| own.contains(&(targets[*place].row as usize))).collect();
            let shifted = |place: &usize| Target { row: targets[*place].row - start as u32, ..targets[*place] };
            let shifted: Vec<Target> = places.iter().map(shifted).collect();
            let line = json!({ "ask": "score", "lengths": [length] });
            match self.scores(&line, &chains.ids[own], &shifted, is_wanted) {
                Ok(found) => places.into_iter().zip(found).for_each(|(place, score)| scores[place] = score),
                Err(LmError::Rejected(why)) => {
                    tracing::warn!("a chain of {length} tokens has no scores: {why}");
                }
                Err(error) => return Err(error),
            }
            start += length;
        }
        Ok(scores)
    }

    fn continued(&mut self, texts: &[&Continuation], is_wanted: &IsWanted) -> Result<Vec<Continued>> {
        let refused = LmError::Refused { backend: "torch", question: "continue texts by an encoder" };
        let (stating, vocabulary) = (self.stating.clone().ok_or(refused)?, self.ready.vocabulary);
        let once = |child: &mut Child, id: u64| continue_once(child, id, texts, &stating, vocabulary, is_wanted);
        let is_sound = |found: &Vec<Continued>| found.iter().all(|found| found.log_probability.is_finite());
        self.ask_soundly(once, is_sound, is_wanted)
    }
}

/// Whether scores may be those of a model that works: rows may fail, but not in this way all at once.
fn are_sound(scores: &[TokenScore]) -> bool {
    let is_finite = |score: &TokenScore| score.surprisal.is_finite() && score.entropy.is_finite();
    let are_equal = scores.len() > 1 && scores.windows(2).all(|pair| pair[0].surprisal == pair[1].surprisal);
    scores.iter().all(is_finite) && !are_equal
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
        let line = json!({ "ask": "score", "lengths": chains.lengths });
        match self.scores(&line, chains.ids, targets, is_wanted) {
            Err(LmError::Rejected(_)) if chains.lengths.len() > 1 => self.one_by_one(chains, targets, is_wanted),
            found => found,
        }
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
        let found = match self.continued(&texts, is_wanted) {
            Err(LmError::Rejected(_)) if texts.len() > 1 => {
                let alone = |text: &&Continuation| match self.continued(&[*text], is_wanted) {
                    Ok(mut found) => Ok(found.remove(0)),
                    Err(LmError::Rejected(why)) => {
                        tracing::warn!("an answer has no score: {why}");
                        Ok(Continued { log_probability: f64::NAN, stated: None, tokens_read: 0, tokens_written: 0 })
                    }
                    Err(error) => Err(error),
                };
                texts.iter().map(alone).collect::<Result<_>>()?
            }
            found => found?,
        };
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
    child.send(&json!({ "id": id, "ask": "continue", "texts": shapes }), ids.copied(), is_wanted)?;
    let mut stated: Vec<(String, usize)> = Vec::new();
    let mut written: Vec<u32> = Vec::new();
    let header = loop {
        // A token takes less than a second, so a caller that leaves is seen between tokens.
        let line = child.line(is_wanted)?;
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
        child.write(reply, is_wanted)?;
        if let Some(text) = text {
            stated.push((text, std::mem::take(&mut written).len()));
        }
    };
    let answers = texts.iter().map(|text| text.with_answer.len() - text.answer);
    let (scores, header) = child.reply(id, header, answers.clone().sum(), is_wanted)?;
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
