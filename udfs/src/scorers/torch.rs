//! PyTorch in a child process.

use std::path::Path;
use std::sync::Arc;

use asap_lm::memo::Memory;
use asap_lm::{Dtype, LmError, LoadedModel, Result, Tokenizer};

use crate::settings::Devices;

/// Whether PyTorch finds a card.
pub(super) fn has_card(_python: &str) -> Result<bool> {
    Err(missing())
}

pub(super) fn open(
    _folder: &Path,
    _python: &str,
    _devices: &Devices,
    _dtype: Dtype,
    _tokenizer: &Arc<Tokenizer>,
    _memory: &Arc<Memory>,
) -> Result<LoadedModel> {
    Err(missing())
}

fn missing() -> LmError {
    LmError::Backend("asap.scorer.backend = 'torch': this build cannot start Python yet".to_string())
}
