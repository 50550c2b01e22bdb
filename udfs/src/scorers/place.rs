//! Where models are computed, in words and as data.

use std::fmt;

use serde::Serialize;

use super::kind::{Kind, Settled};
use super::{choose, encoder, registry, torch};
use crate::settings::{Devices, Settings};

/// What computes a model by settings that are settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `auto` if no backend can run the model on this machine.
    pub backend: &'static str,
    /// None if the backend does not say.
    pub device: Option<String>,
    /// None if the backend does not say.
    pub dtype: Option<&'static str>,
    /// Why this machine cannot compute it, as far as that is known before the model is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

impl Place {
    /// Where `asap.scorer.model` is computed. Looks at no device: `lacks` is None.
    pub fn of_scorer(settings: &Settings) -> Self {
        match registry::named(settings) {
            Some(kind) => Self::of(kind, &kind.settled(settings), settings),
            None => Self { backend: "auto", device: None, dtype: None, lacks: None },
        }
    }

    pub(super) fn of(kind: &dyn Kind, settled: &Settled, settings: &Settings) -> Self {
        let dtype = settled.computes_in;
        let devices = settled.devices.as_ref().or(settings.scorer_device.as_ref());
        let device = devices.map_or("cpu".to_string(), Devices::to_string);
        Self { backend: kind.name(), device: dtype.map(|_| device), dtype, lacks: None }
    }

    /// Where `asap.scorer.model` is computed, and whether this machine can.
    pub fn of_scorer_here(settings: &Settings) -> Self {
        let folder = settings.scorer_folder();
        let lacks = folder.and_then(|folder| {
            let (kind, _) = choose(&folder, settings)?;
            Ok(kind.lacks(&folder, settings))
        });
        let lacks = lacks.unwrap_or_else(Some).map(|error| error.to_string());
        Self { lacks, ..Self::of_scorer(settings) }
    }

    /// Where `asap.compressor.model` is computed, and whether this machine can.
    pub fn of_encoder_here(settings: &Settings) -> Self {
        let chosen = encoder::devices(settings);
        let devices = chosen.as_ref().ok().and_then(Option::as_ref).or(settings.compressor_device.as_ref());
        let device = devices.map_or("cpu".to_string(), Devices::to_string);
        let able = chosen.and_then(|chosen| chosen.map_or(Ok(()), |devices| torch::check(settings, &devices)));
        let (by_torch, lacks) = (encoder::by_torch(settings), able.err().map(|error| error.to_string()));
        Self { backend: if by_torch { "torch" } else { "cpu" }, device: Some(device), dtype: Some("f32"), lacks }
    }

    /// Such as `torch on cuda:0 in bf16`.
    pub(super) fn in_full(&self) -> String {
        match (&self.device, self.dtype) {
            (Some(device), Some(dtype)) => format!("{} on {device} in {dtype}", self.backend),
            _ => self.backend.to_string(),
        }
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
