//! candle-transformers, for families that asap's own engine lacks and machines without PyTorch.

use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use asap_lm::{Dtype, LmError, LoadedModel, Tokenizer};

use super::kind::{Fit, Kind, Opening, Runs, Settled};
use super::{BACKEND, DEVICE, DTYPE, misfit};
use crate::settings::Settings;

pub(super) struct Candle;

impl Kind for Candle {
    fn name(&self) -> &'static str {
        "candle"
    }

    fn settled(&self, _: &Settings) -> Settled {
        Settled { devices: None, dtype: None, computes_in: Some("f32"), runs: Runs::Here }
    }

    fn fits(&self, folder: &Path, settings: &Settings) -> Fit {
        let devices = settings.scorer_device.as_ref().filter(|devices| !devices.is_cpu());
        let mut wrong: Vec<LmError> =
            devices.map(|devices| misfit([DEVICE, BACKEND], devices, "candle")).into_iter().collect();
        if settings.scorer_dtype == Some(Dtype::Bf16) {
            wrong.push(misfit([DTYPE, BACKEND], "bf16", "candle"));
        }
        wrong.extend(check(folder).err());
        if wrong.is_empty() { Ok(self.settled(settings)) } else { Err(wrong) }
    }

    fn open(&self, _: &Settled, opening: &Opening) -> asap_lm::Result<LoadedModel> {
        let Opening { folder, tokenizer, memory, .. } = *opening;
        open(folder, tokenizer, memory)
    }
}

#[cfg(feature = "candle")]
use asap_lm::candle::{check, open};

#[cfg(not(feature = "candle"))]
fn check(_: &Path) -> asap_lm::Result<()> {
    Err(LmError::Backend(format!(
        "{setting} = 'candle' is not supported by this build: install asap with `cargo install --locked --path . \
         --features candle`, or set {setting} = torch",
        setting = Setting(BACKEND)
    )))
}

#[cfg(not(feature = "candle"))]
fn open(folder: &Path, _: &Arc<Tokenizer>, _: &Arc<Memory>) -> asap_lm::Result<LoadedModel> {
    check(folder).and(Err(LmError::Abandoned))
}
