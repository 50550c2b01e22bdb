//! An encoder that labels tokens, in children of PyTorch.

use std::panic::resume_unwind;
use std::path::Path;

use asap_lm::compressor::{Compressor, Keeps, Placed};
use asap_lm::{Dtype, Result};
use parking_lot::Mutex;

use super::{Children, PROOF, Proof, Target, Torch, are_sound, json};
use crate::interrupt;
use crate::scorers::ENCODER_BACKEND;
use crate::settings::Devices;

/// One child for each device. They share the chunks of a call.
#[derive(Debug)]
pub(super) struct Encoders(pub(super) Vec<Mutex<Torch>>);

/// Starts a child for each device, and waits until all have loaded the encoder. Computes in f32: a probability on the
/// other side of a threshold is another word.
pub(in crate::scorers) fn open(folder: &Path, python: &str, devices: &Devices) -> Result<Compressor> {
    Compressor::with_encoder(folder, PROOF, |proof| {
        let children = Children { folder, python, devices, dtype: Dtype::F32, backend: ENCODER_BACKEND };
        let torches = children.start(Proof::of_encoder(&proof), None)?;
        Ok(Box::new(Encoders(torches.into_iter().map(Mutex::new).collect())))
    })
}

impl Keeps for Encoders {
    fn keep(&self, chunks: &[Vec<Placed>]) -> Result<Vec<Vec<f32>>> {
        let share = chunks.len().div_ceil(self.0.len()).max(1);
        let found = std::thread::scope(|scope| {
            let parts = self.0.iter().zip(chunks.chunks(share));
            let asked: Vec<_> = parts.map(|(torch, part)| scope.spawn(|| torch.lock().keep(part))).collect();
            let found = asked.into_iter().map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)));
            found.collect::<Result<Vec<_>>>()
        })?;
        Ok(found.concat())
    }
}

impl Proof {
    pub(super) fn of_encoder(tokens: &[Placed]) -> Self {
        Self { line: json!({ "ask": "keep", "lengths": [tokens.len()] }), ids: vec![], targets: targets(tokens) }
    }
}

impl Torch {
    /// The probability of each token of each chunk to be kept.
    fn keep(&mut self, chunks: &[Vec<Placed>]) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = chunks.iter().map(Vec::len).collect();
        let (line, targets) = (json!({ "ask": "keep", "lengths": lengths }), targets(chunks.iter().flatten()));
        let is_wanted = || !interrupt::is_asked();
        let once = |child: &mut super::Child, id: u64| {
            let mut line = line.clone();
            line["id"] = id.into();
            child.score(line, &[], &targets, &is_wanted)
        };
        let (found, _) = self.ask_soundly(once, |(scores, _)| are_sound(scores), &is_wanted)?;
        let mut rest = found.into_iter().map(|score| score.surprisal);
        Ok(lengths.into_iter().map(|length| rest.by_ref().take(length).collect()).collect())
    }
}

/// A request for scores of tokens after rows sends two numbers for each token: here its position and its id.
fn targets<'a>(tokens: impl IntoIterator<Item = &'a Placed>) -> Vec<Target> {
    tokens.into_iter().map(|token| Target { row: token.position as u32, id: token.id }).collect()
}
