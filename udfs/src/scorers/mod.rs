//! The backends of the scoring model and of the encoder: chosen by settings, model and machine, and opened before the
//! first row.

mod candle;
mod encoder;
mod kind;
mod own;
mod place;
mod registry;
mod served;
mod torch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use asap_lm::config::Limits;
use asap_lm::{Dtype, LmError, LoadedModel, Tokenizer};
use datafusion::common::config::ExtensionOptions;

use crate::settings::{CompressorBackend, ScorerBackend, Settings};

pub(crate) use encoder::open_encoder;
pub use kind::{Fit, Kind, Opening, Runs, Settled};
pub use place::Place;
pub use registry::{kinds, register};

/// The settings that decide what computes scores, and with which type.
pub const BACKEND: &str = "asap.scorer.backend";
/// See [`BACKEND`].
pub const DTYPE: &str = "asap.scorer.dtype";
/// What runs the encoder that compresses texts.
pub const ENCODER_BACKEND: &str = "asap.compressor.backend";
const DEVICE: &str = "asap.scorer.device";

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
    let opened = choose(folder, settings).and_then(|(kind, settled)| {
        // Backends take memory by the sizes of a config before they look at the weights.
        Limits::load(folder)?;
        kind.open(&settled, &Opening { folder, settings, tokenizer, memory })
    });
    opened.map_err(|error| match error {
        LmError::Abandoned => LmError::Unavailable("interrupted before the scoring model was ready".to_string()),
        error => error,
    })
}

/// Settles the backends, their devices and the data type: an output keeps those that it was begun with, a new one gets
/// those that fit model and machine. Nothing changes if no backend can run the model; opening it says why.
pub fn settle(settings: &mut Settings, held: Option<&BTreeMap<String, String>>) {
    if let Some(held) = held {
        // A value that this version does not know stays different, and is reported so.
        if settings.scorer_backend == ScorerBackend::AUTO && settings.scorer_device.is_none() {
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
    let chosen = settings.scorer_folder().and_then(|folder| choose(&folder, settings));
    if let Ok((kind, settled)) = chosen {
        settings.scorer_backend = ScorerBackend::of(kind.name());
        (settings.scorer_dtype, settings.scorer_device) =
            (settled.dtype, settled.devices.or(settings.scorer_device.take()));
    }
}

/// Returns what computes by settings that are settled; asap's own engine on CPUs for those that are not.
pub fn settled(settings: &Settings) -> Settled {
    registry::named(settings).unwrap_or(&own::Cpu).settled(settings)
}

/// What determines scores and compressions besides the models: the backends and the data type. Empty for f32 on CPUs.
pub fn identity(settings: &Settings) -> Vec<(&'static str, String)> {
    let kind = registry::named(settings).unwrap_or(&own::Cpu);
    let is_cpu = kind.name() == own::Cpu.name();
    let backend = (!is_cpu).then(|| (BACKEND, kind.name().to_string()));
    let dtype = kind.settled(settings).dtype.filter(|dtype| !is_cpu || *dtype != Dtype::F32);
    let by_torch = settings.compressor_model.is_some() && encoder::by_torch(settings);
    let encoder = by_torch.then(|| (ENCODER_BACKEND, "torch".to_string()));
    backend.into_iter().chain(dtype.map(|dtype| (DTYPE, dtype.name().to_string()))).chain(encoder).collect()
}

/// The kind that settings name, or the first that fits.
fn choose(folder: &Path, settings: &Settings) -> asap_lm::Result<(&'static dyn Kind, Settled)> {
    // An address names the kind too.
    let is_served = settings.scorer_backend == ScorerBackend::AUTO && settings.scorer_base_url.is_some();
    match if is_served { Some(&served::ServedKind as &dyn Kind) } else { registry::named(settings) } {
        None => auto(folder, settings),
        Some(kind) => match kind.fits(folder, settings) {
            Ok(settled) => Ok((kind, settled)),
            Err(mut why) if why.len() == 1 => Err(why.remove(0)),
            Err(why) => Err(LmError::Backend(sentences(&why))),
        },
    }
}

/// The first kind that fits. Says what it chose and why, unless that is the engine that every machine has.
fn auto(folder: &Path, settings: &Settings) -> asap_lm::Result<(&'static dyn Kind, Settled)> {
    let setting = Setting(BACKEND);
    let mut refused: Vec<(String, Vec<&str>)> = Vec::new();
    let said = |refused: &[(String, Vec<&str>)]| {
        refused.iter().map(|(why, names)| format!(". {}: {why}", names.join(", "))).collect::<String>()
    };
    for kind in kinds() {
        match kind.fits(folder, settings) {
            Ok(settled) => {
                if kind.name() != own::Cpu.name() {
                    let place = Place::of(kind, &settled, settings).in_full();
                    tracing::warn!("{setting} = auto chose {place}{}", said(&refused));
                }
                return Ok((kind, settled));
            }
            Err(why) if why.iter().any(|why| matches!(why, LmError::Abandoned)) => return Err(LmError::Abandoned),
            Err(why) => {
                let why = sentences(&why);
                match refused.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) => names.push(kind.name()),
                    None => refused.push((why, vec![kind.name()])),
                }
            }
        }
    }
    Err(LmError::Backend(format!("{setting} = auto found no backend that runs the model{}", said(&refused))))
}

fn sentences(why: &[LmError]) -> String {
    why.iter().map(LmError::to_string).collect::<Vec<_>>().join("; ")
}

fn misfit([key, backends]: [&str; 2], value: impl std::fmt::Display, backend: &str) -> LmError {
    let (key, backends) = (Setting(key), Setting(backends));
    LmError::Backend(format!("{key} = '{value}' does not fit {backends} = '{backend}': leave out one of them"))
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
    fn each_kind_is_a_value_of_its_setting() {
        let error = Settings::default().set("scorer.backend", "none").unwrap_err().to_string();
        for kind in kinds() {
            settings(&[("scorer.backend", kind.name())]);
            assert!(error.contains(&format!("'{}'", kind.name())), "{error}");
        }
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
