//! Projections of rows, generic over the layout and type of the weight.

use std::fmt::Debug;

use candle_core::{DType, Tensor};
use half::bf16;

use super::{Bf16Matrix, Cores, F32Matrix, Matrix, Result, Update, add_to_rows, multiply, read};

/// A weight of a projection, [outputs, inputs].
pub trait Weight: Sized {
    /// The data type of the weight, if the file has `stored`.
    fn dtype(stored: DType) -> DType;

    /// Converts a tensor, [outputs, inputs] of type [`Weight::dtype`].
    ///
    /// # Errors
    /// If the tensor is not such a matrix in CPU memory.
    fn new(weight: Tensor) -> Result<Self>;
}

#[derive(Debug, Clone)]
pub struct Linear<M = Tensor> {
    /// [outputs, inputs]
    pub weight: M,
    pub bias: Option<Tensor>,
}

impl<M: Projection> Linear<M> {
    /// Computes the projection of rows, including the bias, into `to`. `write` adds or replaces.
    pub fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        self.weight.multiply(x, to, write, cores)?;
        match &self.bias {
            Some(bias) => read([bias], |[bias]| add_to_rows(to, bias)),
            None => Ok(()),
        }
    }
}

pub trait Projection: Weight + Clone + Debug + Send + Sync {
    /// Computes x · Wᵀ for rows of inputs into `to`, with sums in f32. `write` adds or replaces.
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
