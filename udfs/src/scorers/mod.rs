//! The backends of the scoring model and of the encoder: chosen by settings, model and machine, and opened before the
//! first row.

mod place;
mod served;
mod torch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use asap_lm::compressor::Compressor;
use asap_lm::config::{Limits, ModelConfig};
use asap_lm::{Computed, Dtype, LmError, LoadedModel, Tokenizer};

use datafusion::common::config::ExtensionOptions;

use crate::settings::{CompressorBackend, Device, Devices, ScorerBackend, Settings};

pub use place::Place;

/// The settings that decide what computes scores, and with which type.
pub const BACKEND: &str = "asap.scorer.backend";
/// See [`BACKEND`].
pub const DTYPE: &str = "asap.scorer.dtype";
/// What runs the encoder that compresses texts.
pub const ENCODER_BACKEND: &str = "asap.compressor.backend";
const DEVICE: &str = "asap.scorer.device";
const ENCODER_DEVICE: &str = "asap.compressor.device";

/// A backend with what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Chosen {
    Cpu(Dtype),
    /// Cards by number.
    Cuda(Vec<usize>),
    Torch(Devices, Dtype),
    Served,
    Candle,
}

/// Opens the backend of a model's folder.
///
/// # Errors
/// If the backend cannot run this model on this machine. The error says what is missing.
pub(crate) fn open(
    folder: &Path,
    settings: &Settings,
    tokenizer: &Arc<Tokenizer>,
    memory: &Arc<Memory>,
) -> asap_lm::Result<LoadedModel> {
    let opened = choose(folder, settings).and_then(|chosen| open_chosen(chosen, folder, settings, tokenizer, memory));
    opened.map_err(|error| match error {
        LmError::Abandoned => LmError::Unavailable("interrupted before the scoring model was ready".to_string()),
        error => error,
    })
}

fn open_chosen(
    chosen: Chosen,
    folder: &Path,
    settings: &Settings,
    tokenizer: &Arc<Tokenizer>,
    memory: &Arc<Memory>,
) -> asap_lm::Result<LoadedModel> {
    if !matches!(chosen, Chosen::Cpu(_) | Chosen::Cuda(_)) {
        // Others take memory by the sizes of a config before they look at the weights.
        Limits::load(folder)?;
    }
    match chosen {
        Chosen::Cpu(dtype) => LoadedModel::load(folder, Computed::Cpu(dtype), tokenizer, memory),
        Chosen::Cuda(cards) => open_cuda(folder, cards, tokenizer, memory),
        Chosen::Torch(devices, dtype) => {
            torch::open(folder, &settings.scorer_python, &devices, dtype, tokenizer, memory)
        }
        Chosen::Served => served::open(folder, settings, tokenizer, memory),
        Chosen::Candle => open_candle(folder, tokenizer, memory),
    }
}

/// Opens the encoder of a model's folder.
///
/// # Errors
/// If the backend cannot run this encoder on this machine. The error says what is missing.
pub(crate) fn open_encoder(folder: &Path, settings: &Settings) -> asap_lm::Result<Compressor> {
    match choose_encoder(settings)? {
        Some(devices) => torch::open_encoder(folder, &settings.scorer_python, &devices),
        None => Compressor::load(folder),
    }
}

/// The devices on which PyTorch runs the encoder; None if asap's engine does.
fn choose_encoder(settings: &Settings) -> asap_lm::Result<Option<Devices>> {
    match (settings.compressor_backend, &settings.compressor_device) {
        (CompressorBackend::Cpu, Some(devices)) if !devices.is_cpu() => {
            Err(misfit([ENCODER_DEVICE, ENCODER_BACKEND], devices, "cpu"))
        }
        _ if !encodes_by_torch(settings) => Ok(None),
        (_, Some(devices)) => Ok(Some(devices.clone())),
        (_, None) => torch_devices(settings).map(Some),
    }
}

fn encodes_by_torch(settings: &Settings) -> bool {
    match settings.compressor_backend {
        CompressorBackend::Auto => settings.compressor_device.as_ref().is_some_and(|devices| !devices.is_cpu()),
        backend => backend == CompressorBackend::Torch,
    }
}

/// Settles the backends, their devices and the data type: an output keeps those that it was begun with, a new one gets
/// those that fit model and machine. Nothing changes if no backend can run the model; opening it says why.
pub fn settle(settings: &mut Settings, held: Option<&BTreeMap<String, String>>) {
    if let Some(held) = held {
        // A value that this version does not know stays different, and is reported so.
        if settings.scorer_backend == ScorerBackend::Auto && settings.scorer_device.is_none() {
            drop(settings.set("scorer.backend", held.get(BACKEND).map_or("cpu", String::as_str)));
        }
        if let Some(dtype) = held.get(DTYPE).filter(|_| settings.scorer_dtype.is_none()) {
            drop(settings.set("scorer.dtype", dtype));
        }
        if settings.compressor_backend == CompressorBackend::Auto && settings.compressor_device.is_none() {
            let backend = held.get(ENCODER_BACKEND).map_or("cpu", String::as_str);
            drop(settings.set("compressor.backend", backend));
        }
    }
    let chosen = asap_lm::locate(&settings.scorer_model).and_then(|folder| choose(&folder, settings));
    match chosen {
        Ok(Chosen::Cpu(_)) => settings.scorer_backend = ScorerBackend::Cpu,
        Ok(Chosen::Cuda(cards)) => {
            settings.scorer_backend = ScorerBackend::Cuda;
            // It has one type.
            settings.scorer_dtype = None;
            settings
                .scorer_device
                .get_or_insert(Devices(cards.into_iter().map(|card| Device::Cuda(Some(card))).collect()));
        }
        Ok(Chosen::Candle) => settings.scorer_backend = ScorerBackend::Candle,
        Ok(Chosen::Torch(devices, dtype)) => {
            settings.scorer_backend = ScorerBackend::Torch;
            (settings.scorer_device, settings.scorer_dtype) = (Some(devices), Some(dtype));
        }
        Ok(Chosen::Served) => settings.scorer_backend = ScorerBackend::Served,
        Err(_) => {}
    }
}

/// What determines scores and compressions besides the models: the backends and the data type. Empty for f32 on CPUs,
/// and for settings that are not settled.
pub fn identity(settings: &Settings) -> Vec<(&'static str, String)> {
    let counts = |key: &str| match (key, settings.scorer_backend) {
        (BACKEND, backend) => backend != ScorerBackend::Cpu,
        // They have one type.
        (DTYPE, ScorerBackend::Cuda | ScorerBackend::Served | ScorerBackend::Candle) => false,
        (DTYPE, ScorerBackend::Torch) => true,
        (DTYPE, ScorerBackend::Auto | ScorerBackend::Cpu) => settings.scorer_dtype != Some(Dtype::F32),
        _ => false,
    };
    let changed = settings.of_results().into_iter().filter(|(key, ..)| counts(key));
    let by_torch = settings.compressor_model.is_some() && encodes_by_torch(settings);
    let encoder = by_torch.then(|| (ENCODER_BACKEND, "torch".to_string()));
    changed.map(|(key, value, _)| (key, value)).chain(encoder).collect()
}

fn choose(folder: &Path, settings: &Settings) -> asap_lm::Result<Chosen> {
    let chosen = by_settings(folder, settings)?;
    if let (Chosen::Cuda(_), Some(dtype)) = (&chosen, settings.scorer_dtype) {
        let dtype = dtype.name();
        tracing::warn!(
            "{} = {dtype}: asap's engine computes in f16 on GPUs, with the size of bf16 and nearer to f32; for {dtype} there, \
             set {} = torch",
            Setting(DTYPE),
            Setting(BACKEND)
        );
    }
    Ok(chosen)
}

fn by_settings(folder: &Path, settings: &Settings) -> asap_lm::Result<Chosen> {
    let devices = settings.scorer_device.as_ref();
    let on_cpu = || Chosen::Cpu(settings.scorer_dtype.unwrap_or(Dtype::F32));
    match settings.scorer_backend {
        ScorerBackend::Auto if settings.scorer_base_url.is_none() => auto(folder, settings),
        ScorerBackend::Cpu => match devices.filter(|devices| !devices.is_cpu()) {
            Some(devices) => Err(misfit([DEVICE, BACKEND], devices, "cpu")),
            None => Ok(on_cpu()),
        },
        ScorerBackend::Cuda => match devices {
            None => Ok(Chosen::Cuda(vec![0])),
            Some(devices) if devices.is_cpu() => Err(misfit([DEVICE, BACKEND], devices, "cuda")),
            Some(devices) => Ok(Chosen::Cuda(devices.cards())),
        },
        ScorerBackend::Torch => torch_on(settings),
        ScorerBackend::Auto | ScorerBackend::Served => match (devices, settings.scorer_dtype) {
            (Some(devices), _) => Err(misfit([DEVICE, BACKEND], devices, "served")),
            (None, Some(dtype)) => Err(misfit([DTYPE, BACKEND], dtype.name(), "served")),
            (None, None) => Ok(Chosen::Served),
        },
        ScorerBackend::Candle => match (devices.filter(|devices| !devices.is_cpu()), settings.scorer_dtype) {
            (Some(devices), _) => Err(misfit([DEVICE, BACKEND], devices, "candle")),
            (None, Some(Dtype::Bf16)) => Err(misfit([DTYPE, BACKEND], "bf16", "candle")),
            (None, _) => Ok(Chosen::Candle),
        },
    }
}

fn misfit([key, backends]: [&str; 2], value: impl std::fmt::Display, backend: &str) -> LmError {
    let (key, backends) = (Setting(key), Setting(backends));
    LmError::Backend(format!("{key} = '{value}' does not fit {backends} = '{backend}': leave out one of them"))
}

/// The four families run on the CPU, or on a card that holds them; PyTorch runs the others, or candle without PyTorch.
fn auto(folder: &Path, settings: &Settings) -> asap_lm::Result<Chosen> {
    Limits::load(folder)?;
    let chosen = match (ModelConfig::load(folder), &settings.scorer_device) {
        (Ok(_), Some(devices)) if devices.is_cpu() => Chosen::Cpu(settings.scorer_dtype.unwrap_or(Dtype::F32)),
        (Ok(_), Some(devices)) => Chosen::Cuda(devices.cards()),
        (Ok(config), None) => match card_for(&config) {
            Ok(Some(card)) => Chosen::Cuda(vec![card]),
            none => {
                if let Err(why) = none {
                    tracing::warn!("{} = auto chose cpu: no GPU can run the model: {why}", Setting(BACKEND));
                }
                Chosen::Cpu(settings.scorer_dtype.unwrap_or(Dtype::F32))
            }
        },
        (Err(unsupported), device) => torch_on(settings).or_else(|missing| match device {
            _ if matches!(missing, LmError::Abandoned) => Err(missing),
            None if candle_runs(folder) => Ok(Chosen::Candle),
            _ => Err(LmError::Backend(format!(
                "{unsupported}. asap runs other models with PyTorch, but {missing}; or set {} = served and ask a server \
                 that has the model",
                Setting(BACKEND)
            ))),
        })?,
    };
    let setting = Setting(BACKEND);
    match &chosen {
        Chosen::Cuda(_) if settings.scorer_device.is_none() => {
            tracing::warn!("{setting} = auto chose cuda: a card has room for the model");
        }
        Chosen::Torch(devices, dtype) => {
            let dtype = dtype.name();
            tracing::warn!("{setting} = auto chose torch on {devices} in {dtype}: asap's own engine lacks the family");
        }
        Chosen::Candle => tracing::warn!("{setting} = auto chose candle: there is no PyTorch"),
        Chosen::Cpu(_) | Chosen::Cuda(_) | Chosen::Served => {}
    }
    Ok(chosen)
}

fn torch_on(settings: &Settings) -> asap_lm::Result<Chosen> {
    let devices = settings.scorer_device.clone().map_or_else(|| torch_devices(settings), Ok)?;
    let usual = if devices.is_cpu() { Dtype::F32 } else { Dtype::Bf16 };
    Ok(Chosen::Torch(devices, settings.scorer_dtype.unwrap_or(usual)))
}

/// Fails if PyTorch is missing, or finds no GPU and should run on one.
fn check_torch(settings: &Settings, devices: &Devices) -> asap_lm::Result<()> {
    let python = &settings.scorer_python;
    match torch::has_card(python)? {
        false if !devices.is_cpu() => {
            Err(LmError::Backend(format!("PyTorch of asap.scorer.python = '{python}' finds no GPU for {devices}")))
        }
        _ => Ok(()),
    }
}

/// The devices of PyTorch if settings name none.
fn torch_devices(settings: &Settings) -> asap_lm::Result<Devices> {
    let has_card = torch::has_card(&settings.scorer_python)?;
    Ok(Devices(vec![if has_card { Device::Cuda(None) } else { Device::Cpu }]))
}

#[cfg(feature = "cuda")]
use asap_lm::cuda::card_for;

#[cfg(not(feature = "cuda"))]
fn card_for(_: &ModelConfig) -> asap_lm::Result<Option<usize>> {
    Ok(None)
}

/// Fails if one of the GPUs cannot run the model now.
#[cfg(feature = "cuda")]
fn check_cards(folder: &Path, cards: &[usize]) -> asap_lm::Result<()> {
    let config = ModelConfig::load(folder)?;
    cards.iter().try_for_each(|card| asap_lm::cuda::CudaModel::check(&config, *card))
}

#[cfg(not(feature = "cuda"))]
fn check_cards(_: &Path, _: &[usize]) -> asap_lm::Result<()> {
    Err(no_cuda())
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
    Err(no_cuda())
}

#[cfg(not(feature = "cuda"))]
fn no_cuda() -> LmError {
    LmError::Backend(format!(
        "{} = 'cuda' is not supported by this build: build asap with its default features, or set {} = torch",
        Setting(DEVICE),
        Setting(BACKEND)
    ))
}

#[cfg(feature = "candle")]
use asap_lm::candle::{open as open_candle, runs as candle_runs};

#[cfg(not(feature = "candle"))]
fn candle_runs(_: &Path) -> bool {
    false
}

#[cfg(not(feature = "candle"))]
fn open_candle(_: &Path, _: &Arc<Tokenizer>, _: &Arc<Memory>) -> asap_lm::Result<LoadedModel> {
    Err(LmError::Backend(format!(
        "{setting} = 'candle' is not supported by this build: install asap with `cargo install --locked --path . \
         --features candle`, or set {setting} = torch",
        setting = Setting(BACKEND)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(changes: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        changes.iter().for_each(|(key, value)| settings.set(key, value).unwrap());
        settings
    }

    #[test]
    fn an_output_keeps_its_backend_and_its_data_type() {
        let settled = |changes: &[(&str, &str)], held: Option<&[(&str, &str)]>| {
            let held = held.map(|held| held.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect());
            let mut settings = settings(changes);
            settle(&mut settings, held.as_ref());
            identity(&settings)
        };
        let (backend, dtype) = (|name: &str| (BACKEND, name.to_string()), |name: &str| (DTYPE, name.to_string()));
        let torch: &[(&str, &str)] = &[(BACKEND, "torch"), (DTYPE, "bf16")];
        // Outputs on CPUs hold what they held before there were backends.
        assert_eq!(settled(&[("scorer.backend", "cpu")], None), []);
        assert_eq!(settled(&[("scorer.dtype", "f32"), ("scorer.device", "cpu")], None), []);
        assert_eq!(settled(&[("scorer.dtype", "bf16"), ("scorer.device", "cpu")], None), [dtype("bf16")]);
        assert_eq!(settled(&[], Some(&[])), []);
        assert_eq!(settled(&[], Some(&[(DTYPE, "bf16")])), [dtype("bf16")]);
        // The number of devices is no part of it.
        assert_eq!(settled(&[("scorer.device", "cuda:0,cuda:1")], None), [backend("cuda")]);
        // asap's engine has one type there.
        let on_card = [("scorer.device", "cuda:0"), ("scorer.dtype", "f32")];
        assert_eq!(settled(&on_card, None), [backend("cuda")]);
        assert_eq!(settled(&[("scorer.dtype", "bf16")], Some(&[(BACKEND, "cuda")])), [backend("cuda")]);
        let cards = [("scorer.device", "cuda:0,cuda:1"), ("scorer.backend", "torch")];
        assert_eq!(settled(&cards, None), [backend("torch"), dtype("bf16")]);
        assert_eq!(settled(&cards, Some(torch)), [backend("torch"), dtype("bf16")]);
        assert_eq!(settled(&[("scorer.device", "cpu"), ("scorer.backend", "torch")], None)[1], dtype("f32"));
        // What is set differently stays different, and the run is refused.
        assert_eq!(settled(&[("scorer.backend", "cpu")], Some(torch)), [dtype("bf16")]);
        assert_eq!(settled(&[("scorer.backend", "served")], Some(&[])), [backend("served")]);
        assert_eq!(settled(&[("scorer.base_url", "http://localhost/v1")], None), [backend("served")]);
        // The encoder has a backend of its own, and counts if there is one.
        let (device, model) = (("compressor.device", "cuda:0,cuda:1"), ("compressor.model", "m"));
        let encoder = (ENCODER_BACKEND, "torch".to_string());
        let with = |changes: &[(&str, &str)], held| settled(&[&[("scorer.backend", "cpu")], changes].concat(), held);
        assert_eq!(with(&[device], None), []);
        assert_eq!(with(&[device, model], None), std::slice::from_ref(&encoder));
        assert_eq!(with(&[model], Some(&[(ENCODER_BACKEND, "torch")])), std::slice::from_ref(&encoder));
        assert_eq!(with(&[model], Some(&[])), []);
        assert_eq!(with(&[device, model], Some(&[])), [encoder]);
        assert_eq!(with(&[("compressor.device", "cpu"), model], Some(&[(ENCODER_BACKEND, "torch")])), []);
    }

    #[test]
    fn what_a_machine_lacks_is_said_without_a_model() {
        let changes = [("compressor.device", "cuda:0"), ("scorer.python", "/nowhere/python")];
        let place = Place::of_encoder_here(&settings(&changes)).to_string();
        let expected =
            "torch, f32 on cuda:0, which this machine cannot do: asap.scorer.python = '/nowhere/python' does not";
        assert!(place.starts_with(expected), "{place}");
        let misfit = [("compressor.backend", "cpu"), ("compressor.device", "cuda:0")];
        let place = Place::of_encoder_here(&settings(&misfit));
        assert_eq!((place.backend, place.dtype), ("cpu", Some("f32")));
        assert!(place.lacks.unwrap().contains("does not fit asap.compressor.backend = 'cpu'"));
        assert_eq!(Place::of_encoder_here(&Settings::default()).to_string(), "f32 on cpu");
        let cards = [("scorer.device", "cuda:0,cuda:1"), ("scorer.dtype", "f32")];
        for (backend, expected) in [("cuda", "f16 on cuda:0,cuda:1"), ("torch", "torch, f32 on cuda:0,cuda:1")] {
            let place = Place::of_scorer(&settings(&[&cards[..], &[("scorer.backend", backend)]].concat()));
            assert_eq!(place.to_string(), expected);
        }
    }

    #[test]
    fn candle_needs_its_feature_and_one_of_its_families() {
        let (folder, memory) = (asap_lm::locate(asap_lm::SMALL).unwrap(), Arc::default());
        let tokenizer = Arc::new(Tokenizer::load_within(&folder, &memory).unwrap());
        let error = open(&folder, &settings(&[("scorer.backend", "candle")]), &tokenizer, &memory).unwrap_err();
        let expected = match cfg!(feature = "candle") {
            true => "the backend candle does not run the model_type 'qwen2': expected one of phi3, gemma2, qwen3_moe",
            false => {
                "install asap with `cargo install --locked --path . --features candle`, or set asap.scorer.backend"
            }
        };
        assert!(error.to_string().contains(expected), "{error}");
    }
}
