//! Loops compiled for the vector instructions of the CPU that runs them.

use pulp::{Arch, Simd, WithSimd};

struct Work<F>(F);

impl<R, F: FnMut() -> R> WithSimd for Work<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _simd: S) -> R {
        (self.0)()
    }
}

/// Runs a closure that [`vectorized!`](crate::vectorized!) made, whose code is inlined.
///
/// Passing the closure to `pulp` directly goes through the shim of `FnOnce`, which is not inlined.
pub fn vectorized<R>(work: impl FnMut() -> R) -> R {
    Arch::new().dispatch(Work(work))
}

/// Runs an expression compiled for the widest vector instructions of this CPU. Only inlined code profits: every function
/// that it calls must be `#[inline(always)]`.
#[macro_export]
macro_rules! vectorized {
    ($work:expr) => {
        $crate::vectorized::vectorized(
            #[inline(always)]
            || $work,
        )
    };
}
