//! asap's own engine, on CPUs and on NVIDIA GPUs.

use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use asap_lm::config::{Limits, ModelConfig};
use asap_lm::{Computed, Dtype, LmError, LoadedModel, Tokenizer};

use super::kind::{Fit, Kind, Opening, Runs, Settled};
use super::{BACKEND, DEVICE, DTYPE, misfit, torch};
use crate::settings::{Device, Devices, ScorerBackend, Settings};

pub(super) struct Cpu;
pub(super) struct Cuda;

impl Kind for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn settled(&self, settings: &Settings) -> Settled {
        let dtype = settings.scorer_dtype.unwrap_or(Dtype::F32);
        Settled { devices: None, dtype: Some(dtype), computes_in: Some(dtype.name()), runs: Runs::Here }
    }

    fn fits(&self, folder: &Path, settings: &Settings) -> Fit {
        let devices = settings.scorer_device.as_ref().filter(|devices| !devices.is_cpu());
        let wrong: Vec<LmError> = devices
            .map(|devices| misfit([DEVICE, BACKEND], devices, "cpu"))
            .into_iter()
            .chain(family(folder))
            .collect();
        if wrong.is_empty() { Ok(self.settled(settings)) } else { Err(wrong) }
    }

    fn open(&self, settled: &Settled, opening: &Opening) -> asap_lm::Result<LoadedModel> {
        let Opening { folder, tokenizer, memory, .. } = *opening;
        LoadedModel::load(folder, Computed::Cpu(settled.dtype.unwrap_or(Dtype::F32)), tokenizer, memory)
    }
}

impl Kind for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn settled(&self, settings: &Settings) -> Settled {
        let devices = settings.scorer_device.clone().unwrap_or(Devices(vec![Device::Cuda(None)]));
        Settled { devices: Some(devices), dtype: None, computes_in: Some("f16"), runs: Runs::Elsewhere }
    }

    fn fits(&self, folder: &Path, settings: &Settings) -> Fit {
        let mut wrong: Vec<LmError> = family(folder).into_iter().collect();
        let mut settled = self.settled(settings);
        match &settings.scorer_device {
            Some(devices) if devices.is_cpu() => wrong.push(misfit([DEVICE, BACKEND], devices, "cuda")),
            Some(_) if !cfg!(feature = "cuda") => wrong.push(unbuilt()),
            None if wrong.is_empty() => match card_for(folder) {
                Ok(Some(card)) => settled.devices = Some(Devices(vec![Device::Cuda(Some(card))])),
                Ok(None) => wrong.push(LmError::Backend("there is no NVIDIA GPU".to_string())),
                Err(why) => {
                    if cfg!(feature = "cuda") {
                        tracing::warn!("no GPU can run the scoring model: {why}");
                    }
                    wrong.push(why);
                }
            },
            Some(_) | None => {}
        }
        let is_auto = settings.scorer_backend == ScorerBackend::AUTO;
        match settings.scorer_dtype.filter(|_| is_auto && wrong.is_empty()) {
            Some(dtype) if matches!(torch::has_card(&settings.scorer_python), Ok(true)) => {
                let dtype = dtype.name();
                wrong.push(LmError::Backend(format!("it computes in f16 on GPUs, and PyTorch in {dtype}")));
            }
            _ => {}
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if let Some(dtype) = settings.scorer_dtype {
            let dtype = dtype.name();
            tracing::warn!(
                "{} = {dtype}: asap's engine computes in f16 on GPUs, with the size of bf16 and nearer to f32; for \
                 {dtype} there, set {} = torch",
                Setting(DTYPE),
                Setting(BACKEND)
            );
        }
        Ok(settled)
    }

    fn lacks(&self, folder: &Path, settings: &Settings) -> Option<LmError> {
        let cards = self.settled(settings).devices.map_or(vec![0], |devices| devices.cards());
        check_cards(folder, &cards).err()
    }

    fn open(&self, settled: &Settled, opening: &Opening) -> asap_lm::Result<LoadedModel> {
        let Opening { folder, tokenizer, memory, .. } = *opening;
        let cards = settled.devices.as_ref().map_or(vec![0], Devices::cards);
        open_cuda(folder, cards, tokenizer, memory)
    }
}

/// Why the engine lacks the family of a model.
fn family(folder: &Path) -> Option<LmError> {
    Limits::load(folder).and_then(|_| ModelConfig::load(folder)).err()
}

fn unbuilt() -> LmError {
    LmError::Backend(format!(
        "{} = 'cuda' is not supported by this build: build asap with its default features, or set {} = torch",
        Setting(DEVICE),
        Setting(BACKEND)
    ))
}

/// The first GPU that has room for a model; None without GPUs.
#[cfg(feature = "cuda")]
fn card_for(folder: &Path) -> asap_lm::Result<Option<usize>> {
    asap_lm::cuda::card_for(&ModelConfig::load(folder)?)
}

#[cfg(not(feature = "cuda"))]
fn card_for(_: &Path) -> asap_lm::Result<Option<usize>> {
    Err(unbuilt())
}

/// Fails if one of the GPUs cannot run the model now.
#[cfg(feature = "cuda")]
fn check_cards(folder: &Path, cards: &[usize]) -> asap_lm::Result<()> {
    let config = ModelConfig::load(folder)?;
    cards.iter().try_for_each(|card| asap_lm::cuda::CudaModel::check(&config, *card))
}

#[cfg(not(feature = "cuda"))]
fn check_cards(_: &Path, _: &[usize]) -> asap_lm::Result<()> {
    Err(unbuilt())
}

#[cfg(feature = "cuda")]
fn open_cuda(
    folder: &Path,
    cards: Vec<usize>,
    tokenizer: &Arc<Tokenizer>,
    memory: &Arc<Memory>,
) -> asap_lm::Result<LoadedModel> {
    LoadedModel::load(folder, Computed::Cuda(cards), tokenizer, memory)
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(_: &Path, _: Vec<usize>, _: &Arc<Tokenizer>, _: &Arc<Memory>) -> asap_lm::Result<LoadedModel> {
    Err(unbuilt())
}
