//! The kinds of instructions for products of bf16 numbers.

#[cfg(target_arch = "x86_64")]
use super::{amx, dots};

/// Which instructions multiply bf16 numbers: the fastest ones differ between CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    #[cfg(target_arch = "x86_64")]
    MatrixUnit,
    #[cfg(target_arch = "x86_64")]
    Dots,
    /// Those of f32, without rounding.
    Widened,
}

impl Arithmetic {
    pub(crate) fn here() -> Vec<Self> {
        [
            #[cfg(target_arch = "x86_64")]
            amx::is_there().then_some(Self::MatrixUnit),
            #[cfg(target_arch = "x86_64")]
            dots::is_there().then_some(Self::Dots),
            Some(Self::Widened),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
