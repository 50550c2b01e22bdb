//! Where models are computed, in words and as data.

use std::fmt;

use asap_lm::Dtype;
use serde::Serialize;

use super::{Chosen, check_cards, check_torch, choose, choose_encoder, encodes_by_torch};
use crate::settings::{Devices, ScorerBackend, Settings};

/// What computes a model by settings that are settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `auto` if no backend can run the model on this machine.
    pub backend: &'static str,
    /// None for `served` and `auto`.
    pub device: Option<String>,
    /// None for `served` and `auto`.
    pub dtype: Option<&'static str>,
    /// Why this machine cannot compute it, as far as that is known before the model is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

impl Place {
    /// Where `asap.scorer.model` is computed. Looks at no device: `lacks` is None.
    pub fn of_scorer(settings: &Settings) -> Self {
        let dtype = settings.scorer_dtype.unwrap_or(Dtype::F32).name();
        let devices = |usual: &str| settings.scorer_device.as_ref().map_or(usual.to_string(), Devices::to_string);
        let (backend, device, dtype) = match settings.scorer_backend {
            ScorerBackend::Auto => ("auto", None, None),
            ScorerBackend::Cpu => ("cpu", Some(devices("cpu")), Some(dtype)),
            ScorerBackend::Cuda => ("cuda", Some(devices("cuda")), Some("f16")),
            ScorerBackend::Torch => ("torch", Some(devices("cpu")), Some(dtype)),
            ScorerBackend::Served => ("served", None, None),
            ScorerBackend::Candle => ("candle", Some(devices("cpu")), Some("f32")),
        };
        Self { backend, device, dtype, lacks: None }
    }

    /// Where `asap.scorer.model` is computed, and whether this machine can.
    pub fn of_scorer_here(settings: &Settings) -> Self {
        let chosen = asap_lm::locate(&settings.scorer_model)
            .and_then(|folder| choose(&folder, settings).map(|chosen| (folder, chosen)));
        let able = chosen.and_then(|(folder, chosen)| match chosen {
            Chosen::Cuda(cards) => check_cards(&folder, &cards),
            Chosen::Torch(devices, _) => check_torch(settings, &devices),
            Chosen::Cpu(_) | Chosen::Served | Chosen::Candle => Ok(()),
        });
        Self { lacks: able.err().map(|error| error.to_string()), ..Self::of_scorer(settings) }
    }

    /// Where `asap.compressor.model` is computed, and whether this machine can.
    pub fn of_encoder_here(settings: &Settings) -> Self {
        let chosen = choose_encoder(settings);
        let devices = chosen.as_ref().ok().and_then(Option::as_ref).or(settings.compressor_device.as_ref());
        let device = devices.map_or("cpu".to_string(), Devices::to_string);
        let able = chosen.and_then(|chosen| chosen.map_or(Ok(()), |devices| check_torch(settings, &devices)));
        let (by_torch, lacks) = (encodes_by_torch(settings), able.err().map(|error| error.to_string()));
        Self { backend: if by_torch { "torch" } else { "cpu" }, device: Some(device), dtype: Some("f32"), lacks }
    }
}

/// Such as `f32 on cpu` or `torch, bf16 on cuda:0`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, device, dtype, lacks } = self;
        match (device, dtype) {
            (Some(device), Some(dtype)) if ["cpu", "cuda"].contains(backend) => write!(f, "{dtype} on {device}")?,
            (Some(device), Some(dtype)) => write!(f, "{backend}, {dtype} on {device}")?,
            _ => f.write_str(backend)?,
        }
        lacks.as_ref().map_or(Ok(()), |why| write!(f, ", which this machine cannot do: {why}"))
    }
}
