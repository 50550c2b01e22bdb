//! What runs the encoder that compresses texts: asap's engine, or PyTorch.

use std::path::Path;

use asap_lm::compressor::Compressor;

use super::{ENCODER_BACKEND, misfit, torch};
use crate::settings::{CompressorBackend, Devices, Settings};

const DEVICE: &str = "asap.compressor.device";

/// Opens the encoder of a model's folder.
///
/// # Errors
/// If the backend cannot run this encoder on this machine. The error says what is missing.
pub(crate) fn open_encoder(folder: &Path, settings: &Settings) -> asap_lm::Result<Compressor> {
    match devices(settings)? {
        Some(devices) => torch::open_encoder(folder, &settings.scorer_python, &devices),
        None => Compressor::load(folder),
    }
}

/// The devices on which PyTorch runs the encoder; None if asap's engine does.
pub(super) fn devices(settings: &Settings) -> asap_lm::Result<Option<Devices>> {
    match (settings.compressor_backend, &settings.compressor_device) {
        (CompressorBackend::Cpu, Some(devices)) if !devices.is_cpu() => {
            Err(misfit([DEVICE, ENCODER_BACKEND], devices, "cpu"))
        }
        _ if !by_torch(settings) => Ok(None),
        (_, Some(devices)) => Ok(Some(devices.clone())),
        (_, None) => torch::devices(settings).map(Some),
    }
}

pub(super) fn by_torch(settings: &Settings) -> bool {
    match settings.compressor_backend {
        CompressorBackend::Auto => settings.compressor_device.as_ref().is_some_and(|devices| !devices.is_cpu()),
        backend => backend == CompressorBackend::Torch,
    }
}
