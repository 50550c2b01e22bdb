//! What a layer multiplies its rows by, in the type that its weights are kept in.

use std::fmt::Debug;

use candle_core::{DType, Tensor};
use half::bf16;

use super::{Bf16Matrix, Cores, F32Matrix, Matrix, Result, Update, add_to_rows, multiply, read};

/// A weight of a projection, [outputs, inputs], as it is kept.
pub trait Weight: Sized {
    /// The type of its numbers where a file's are `stored`.
    fn dtype(stored: DType) -> DType;

    /// A weight of these numbers, [outputs, inputs] of type [`Weight::dtype`].
    ///
    /// # Errors
    /// If the tensor is no such matrix in the CPU's memory.
    fn new(weight: Tensor) -> Result<Self>;
}

/// A projection that may have a bias.
#[derive(Debug, Clone)]
pub struct Linear<M = Tensor> {
    /// [output, input].
    pub weight: M,
    /// [output].
    pub bias: Option<Tensor>,
}

impl<M: Projection> Linear<M> {
    /// The projection of rows of inputs, its bias included: written to `to`, or added to what is there.
    ///
    /// # Errors
    /// If weights cannot be read.
    pub fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        self.weight.multiply(x, to, write, cores)?;
        match &self.bias {
            Some(bias) => read([bias], |[bias]| add_to_rows(to, bias)),
            None => Ok(()),
        }
    }
}

/// A weight that the CPU multiplies by.
pub trait Projection: Weight + Clone + Debug + Send + Sync {
    /// x · Wᵀ for rows of inputs, summed up in f32: written to `to`, or added to what is there.
    ///
    /// # Errors
    /// If the weight cannot be read.
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()>;
}

impl Weight for Tensor {
    fn dtype(_: DType) -> DType {
        DType::F32
    }

    fn new(weight: Tensor) -> Result<Self> {
        Ok(weight)
    }
}

impl Projection for Tensor {
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        let (outputs, inputs) = self.dims2()?;
        let x = Matrix::dense(x, x.len() / inputs, inputs);
        read([self], |[weight]| multiply(x, Matrix::dense(weight, outputs, inputs).t(), 1.0, to, write, cores))
    }
}

impl Weight for F32Matrix {
    fn dtype(_: DType) -> DType {
        DType::F32
    }

    fn new(weight: Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        read([&weight], |[numbers]| Self::pack(numbers, outputs, inputs))
    }
}

impl Projection for F32Matrix {
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        Self::multiply(self, x, to, write, cores)
    }
}

impl Weight for Bf16Matrix {
    fn dtype(_: DType) -> DType {
        DType::BF16
    }

    fn new(weight: Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        read::<bf16, 1, _>([&weight], |[numbers]| Self::pack(numbers, outputs, inputs))
    }
}

impl Projection for Bf16Matrix {
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, _: Cores) -> Result<()> {
        Self::multiply(self, x, to, write);
        Ok(())
    }
}
