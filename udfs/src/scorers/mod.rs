//! The backend of the scoring model: chosen by settings, model and machine, and opened before the first row.

mod served;
mod torch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_lm::config::{Limits, ModelConfig};
use asap_lm::memo::Memory;
use asap_lm::{Computed, Dtype, LmError, LoadedModel, Tokenizer};

use datafusion::common::config::ExtensionOptions;

use crate::settings::{Device, Devices, ScorerBackend, Settings};

/// The settings that decide what computes scores, and with which type.
pub const BACKEND: &str = "asap.scorer.backend";
/// See [`BACKEND`].
pub const DTYPE: &str = "asap.scorer.dtype";
const DEVICE: &str = "asap.scorer.device";

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

/// Settles the backend, its devices and its data type: an output keeps those that it was begun with, a new one gets
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
    }
    let chosen = asap_lm::locate(&settings.scorer_model).and_then(|folder| choose(&folder, settings));
    match chosen {
        Ok(Chosen::Cpu(_)) => settings.scorer_backend = ScorerBackend::Cpu,
        Ok(Chosen::Cuda(_)) => settings.scorer_backend = ScorerBackend::Cuda,
        Ok(Chosen::Candle) => settings.scorer_backend = ScorerBackend::Candle,
        Ok(Chosen::Torch(devices, dtype)) => {
            settings.scorer_backend = ScorerBackend::Torch;
            (settings.scorer_device, settings.scorer_dtype) = (Some(devices), Some(dtype));
        }
        Ok(Chosen::Served) => settings.scorer_backend = ScorerBackend::Served,
        Err(_) => {}
    }
}

/// How settled settings compute scores, such as `f32 on cpu`.
pub fn described(settings: &Settings) -> String {
    let on = |dtype: Dtype| {
        let devices = settings.scorer_device.as_ref().map_or("cpu".to_string(), Devices::to_string);
        format!("{dtype:?} on {devices}").to_lowercase()
    };
    let dtype = settings.scorer_dtype.unwrap_or(Dtype::F32);
    match settings.scorer_backend {
        ScorerBackend::Auto | ScorerBackend::Cpu => on(dtype),
        ScorerBackend::Cuda => "f16 on cuda".to_string(),
        ScorerBackend::Torch => format!("torch, {}", on(dtype)),
        ScorerBackend::Served => "served".to_string(),
        ScorerBackend::Candle => "candle, f32 on cpu".to_string(),
    }
}

/// What determines scores besides the model: the backend and its data type. Empty for f32 on CPUs, and for settings
/// that are not settled.
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
    changed.map(|(key, value, _)| (key, value)).collect()
}

fn choose(folder: &Path, settings: &Settings) -> asap_lm::Result<Chosen> {
    let devices = settings.scorer_device.as_ref();
    let on_cpu = || Chosen::Cpu(settings.scorer_dtype.unwrap_or(Dtype::F32));
    match settings.scorer_backend {
        ScorerBackend::Auto if settings.scorer_base_url.is_none() => auto(folder, settings),
        ScorerBackend::Cpu => match devices.filter(|devices| !devices.is_cpu()) {
            Some(devices) => Err(misfit(DEVICE, devices, ScorerBackend::Cpu)),
            None => Ok(on_cpu()),
        },
        ScorerBackend::Cuda => match devices {
            None => Ok(Chosen::Cuda(vec![0])),
            Some(devices) if devices.is_cpu() => Err(misfit(DEVICE, devices, ScorerBackend::Cuda)),
            Some(devices) => Ok(Chosen::Cuda(devices.cards())),
        },
        ScorerBackend::Torch => torch_on(settings),
        ScorerBackend::Auto | ScorerBackend::Served => match (devices, settings.scorer_dtype) {
            (Some(devices), _) => Err(misfit(DEVICE, devices, ScorerBackend::Served)),
            (None, Some(dtype)) => Err(misfit(DTYPE, format!("{dtype:?}").to_lowercase(), ScorerBackend::Served)),
            (None, None) => Ok(Chosen::Served),
        },
        ScorerBackend::Candle => match (devices.filter(|devices| !devices.is_cpu()), settings.scorer_dtype) {
            (Some(devices), _) => Err(misfit(DEVICE, devices, ScorerBackend::Candle)),
            (None, Some(Dtype::Bf16)) => Err(misfit(DTYPE, "bf16", ScorerBackend::Candle)),
            (None, _) => Ok(Chosen::Candle),
        },
    }
}

fn misfit(key: &str, value: impl std::fmt::Display, backend: ScorerBackend) -> LmError {
    let backend = format!("{backend:?}").to_lowercase();
    let (key, setting) = (Setting(key), Setting(BACKEND));
    LmError::Backend(format!("{key} = '{value}' does not fit {setting} = '{backend}': leave out one of them"))
}

/// The four families run on the CPU, or on a card that holds them; PyTorch runs the others, or candle without PyTorch.
fn auto(folder: &Path, settings: &Settings) -> asap_lm::Result<Chosen> {
    Limits::load(folder)?;
    let chosen = match (ModelConfig::load(folder), &settings.scorer_device) {
        (Ok(_), Some(devices)) if devices.is_cpu() => Chosen::Cpu(settings.scorer_dtype.unwrap_or(Dtype::F32)),
        (Ok(_), Some(devices)) => Chosen::Cuda(devices.cards()),
        (Ok(config), None) if settings.scorer_dtype.is_none() && has_card(&config) => Chosen::Cuda(vec![0]),
        (Ok(_), None) => Chosen::Cpu(settings.scorer_dtype.unwrap_or(Dtype::F32)),
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
            let dtype = format!("{dtype:?}").to_lowercase();
            tracing::warn!("{setting} = auto chose torch on {devices} in {dtype}: asap's own engine lacks the family");
        }
        Chosen::Candle => tracing::warn!("{setting} = auto chose candle: there is no PyTorch"),
        Chosen::Cpu(_) | Chosen::Cuda(_) | Chosen::Served => {}
    }
    Ok(chosen)
}

fn torch_on(settings: &Settings) -> asap_lm::Result<Chosen> {
    let devices = match &settings.scorer_device {
        Some(devices) => devices.clone(),
        None if torch::has_card(&settings.scorer_python)? => Devices(vec![Device::Cuda(None)]),
        None => Devices(vec![Device::Cpu]),
    };
    let usual = if devices.is_cpu() { Dtype::F32 } else { Dtype::Bf16 };
    Ok(Chosen::Torch(devices, settings.scorer_dtype.unwrap_or(usual)))
}

#[cfg(feature = "cuda")]
fn has_card(config: &ModelConfig) -> bool {
    asap_lm::cuda::CudaModel::check(config, 0).is_ok()
}

#[cfg(not(feature = "cuda"))]
fn has_card(_: &ModelConfig) -> bool {
    false
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
    Err(LmError::Backend(format!(
        "{} = 'cuda' is not supported by this build: build asap with its default features, or set {} = torch",
        Setting(DEVICE),
        Setting(BACKEND)
    )))
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
        assert_eq!(settled(&[("scorer.dtype", "bf16")], None), [dtype("bf16")]);
        assert_eq!(settled(&[], Some(&[])), []);
        assert_eq!(settled(&[], Some(&[(DTYPE, "bf16")])), [dtype("bf16")]);
        // The number of devices is no part of it.
        assert_eq!(settled(&[("scorer.device", "cuda:0,cuda:1")], None), [backend("cuda")]);
        let cards = [("scorer.device", "cuda:0,cuda:1"), ("scorer.backend", "torch")];
        assert_eq!(settled(&cards, None), [backend("torch"), dtype("bf16")]);
        assert_eq!(settled(&cards, Some(torch)), [backend("torch"), dtype("bf16")]);
        assert_eq!(settled(&[("scorer.device", "cpu"), ("scorer.backend", "torch")], None)[1], dtype("f32"));
        // What is set differently stays different, and the run is refused.
        assert_eq!(settled(&[("scorer.backend", "cpu")], Some(torch)), [dtype("bf16")]);
        assert_eq!(settled(&[("scorer.backend", "served")], Some(&[])), [backend("served")]);
        assert_eq!(settled(&[("scorer.base_url", "http://localhost/v1")], None), [backend("served")]);
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
