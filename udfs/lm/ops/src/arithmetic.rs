//! Which instructions multiply by bf16 weights: the fastest ones differ between CPUs.

use std::sync::OnceLock;
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
use super::{amx, dots};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    #[cfg(target_arch = "x86_64")]
    MatrixUnit,
    #[cfg(target_arch = "x86_64")]
    Dots,
    Widened,
}

impl Arithmetic {
    pub(crate) fn here() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let by_instructions = [(Self::MatrixUnit, amx::is_there()), (Self::Dots, dots::is_there())];
            let there = by_instructions.into_iter().filter_map(|(arithmetic, is_there)| is_there.then_some(arithmetic));
            there.chain([Self::Widened]).collect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Self::Widened]
    }

    /// Returns the fastest arithmetic, timed once per process for a few milliseconds. bf16 dot products are twice as
    /// fast as f32 on some CPUs and slower on others.
    pub(crate) fn fastest(time: fn(Self) -> Duration) -> Self {
        static FASTEST: OnceLock<Arithmetic> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            // Interleave the trials, so that other load on the CPU affects all of them.
            let trials = (0..TRIALS).flat_map(|_| Self::here());
            trials.min_by_key(|arithmetic| time(*arithmetic)).unwrap_or(Self::Widened)
        })
    }
}

const TRIALS: usize = 3;
