//! Loops compiled for the vector instructions of the machine that they run on.

use pulp::{Arch, Simd, WithSimd};

struct Work<F>(F);

impl<R, F: FnMut() -> R> WithSimd for Work<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _simd: S) -> R {
        (self.0)()
    }
}

/// Runs a loop compiled for the widest vector instructions of this machine. Only what is inlined profits: `work` and all
/// that it calls must be `#[inline(always)]`.
///
/// (A closure that is given to `pulp` as it is goes through the shim of `FnOnce`, which is not inlined.)
pub fn vectorized<R>(work: impl FnMut() -> R) -> R {
    Arch::new().dispatch(Work(work))
}
