//! All kinds of backends.

use parking_lot::RwLock;

use super::candle::Candle;
use super::kind::Kind;
use super::own::{Cpu, Cuda};
use super::served::ServedKind;
use super::torch::PyTorch;
use crate::settings::{ScorerBackend, Settings};

/// The kinds of this crate, in the order in which `auto` tries them.
const OWN: [&dyn Kind; 5] = [&Cuda, &Cpu, &PyTorch, &Candle, &ServedKind];
/// Kinds that programs registered.
static KINDS: RwLock<Vec<&'static dyn Kind>> = RwLock::new(vec![]);

/// Adds a kind after the others. Its name becomes a value of `asap.scorer.backend`.
pub fn register(kind: &'static dyn Kind) {
    ScorerBackend::register(kind.name());
    KINDS.write().push(kind);
}

/// Returns all kinds, in the order in which `auto` tries them.
pub fn kinds() -> Vec<&'static dyn Kind> {
    OWN.into_iter().chain(KINDS.read().iter().copied()).collect()
}

/// Returns the kind that settings name; None for `auto`.
pub(super) fn named(settings: &Settings) -> Option<&'static dyn Kind> {
    kinds().into_iter().find(|kind| kind.name() == settings.scorer_backend.name())
}
