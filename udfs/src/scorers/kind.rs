//! The contract of a kind of backend.

use std::path::Path;
use std::sync::Arc;

use asap_kernels::memo::Memory;
use asap_lm::{Dtype, LmError, LoadedModel, Tokenizer};

use crate::settings::{Devices, Settings};

/// What a scoring model is computed with. The settings of a run take it, and the identity of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// None if the kind does not choose devices.
    pub devices: Option<Devices>,
    /// The type that the kind chose among several; None if it has one.
    pub dtype: Option<Dtype>,
    /// The type of computation, in words; None if it is not known.
    pub computes_in: Option<&'static str>,
    pub runs: Runs,
}

/// Where a model computes, which decides how its time is estimated and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// On the CPU cores of this process.
    Here,
    /// On the CPU cores of another process of this machine.
    InChild,
    /// On a GPU or a server.
    Elsewhere,
}

/// What a kind computes a model with, or all reasons why it cannot.
pub type Fit = Result<Settled, Vec<LmError>>;

/// A model to open.
pub struct Opening<'a> {
    pub folder: &'a Path,
    pub settings: &'a Settings,
    pub tokenizer: &'a Arc<Tokenizer>,
    /// Limits the caches of scores.
    pub memory: &'a Arc<Memory>,
}

/// A kind of backend: a way to run scoring models.
///
/// To add one, implement this and [`register`](super::register) it. A kind of this crate is a file, a line in `registry.rs` and a sentence
/// in `docs/scorer.md`.
pub trait Kind: Send + Sync {
    /// Its name in settings, messages and identities of outputs.
    fn name(&self) -> &'static str;

    /// What it computes with by these settings, without a look at model and machine.
    fn settled(&self, settings: &Settings) -> Settled;

    /// What it computes the model of a folder with.
    ///
    /// # Errors
    /// All reasons why it cannot run this model by these settings on this machine. A reason is
    /// [`LmError::Abandoned`] if the process is asked to end.
    fn fits(&self, folder: &Path, settings: &Settings) -> Fit;

    /// Why devices that settings name cannot compute it now; None if they can.
    fn lacks(&self, _folder: &Path, _settings: &Settings) -> Option<LmError> {
        None
    }

    /// Opens a model. `settled` is from [`Kind::fits`].
    ///
    /// # Errors
    /// If the model cannot be opened. The error says what is missing.
    fn open(&self, settled: &Settled, opening: &Opening) -> asap_lm::Result<LoadedModel>;
}
