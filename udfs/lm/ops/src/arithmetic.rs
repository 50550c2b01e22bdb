//! Which instructions multiply by weights in bf16: what is fastest differs from one CPU to the next.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use half::bf16;

use super::bf16::Bf16Matrix;
use super::gemm::Update;
#[cfg(target_arch = "x86_64")]
use super::{amx, dots};

/// How products with weights in bf16 are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// By the matrix unit (AMX), with activations rounded to bf16.
    #[cfg(target_arch = "x86_64")]
    MatrixUnit,
    /// By dot products of bf16 (AVX-512), with activations rounded to bf16.
    #[cfg(target_arch = "x86_64")]
    Dots,
    /// By products of f32, with widened weights and activations as they are.
    Widened,
}

impl Arithmetic {
    /// What this CPU can do.
    pub fn here() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let by_instructions = [(Self::MatrixUnit, amx::is_there()), (Self::Dots, dots::is_there())];
            let there = by_instructions.into_iter().filter_map(|(arithmetic, is_there)| is_there.then_some(arithmetic));
            there.chain([Self::Widened]).collect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Self::Widened]
    }

    /// The fastest of them, tried once in a process for some milliseconds: dot products of bf16 are twice as fast as those of
    /// f32 on some CPUs, and slower on others.
    pub fn fastest() -> Self {
        static FASTEST: LazyLock<Arithmetic> = LazyLock::new(|| {
            // In turns, so that what else the CPU does meets all of them.
            let trials = (0..TRIALS).flat_map(|_| Arithmetic::here());
            trials.min_by_key(|arithmetic| arithmetic.time()).unwrap_or(Arithmetic::Widened)
        });
        *FASTEST
    }

    /// The time of a product.
    fn time(self) -> Duration {
        let matrix = Bf16Matrix::pack(&vec![bf16::ONE; WIDTH * WIDTH], WIDTH, WIDTH);
        let (x, mut to) = (vec![0.5; ROWS * WIDTH], vec![0.0; ROWS * WIDTH]);
        let begun = Instant::now();
        matrix.multiply_by(self, &x, &mut to, Update::Replace);
        begun.elapsed()
    }
}

/// How often each is tried.
const TRIALS: usize = 3;
/// Rows, inputs and outputs of a product that tries one: 0.1 GFLOP.
const ROWS: usize = 192;
const WIDTH: usize = 512;
