//! Projections of rows, generic over the layout and type of the weight.

use std::fmt::Debug;

use candle_core::{DType, Tensor};

use super::{Arithmetic, Cores, Matrix, Result, Update, multiply, read};
use crate::gradients::add;

/// A weight of a projection, [outputs, inputs].
pub trait Weight: Sized {
    /// The data type of the weight, if the file has this one: f32, unless the type says otherwise.
    fn dtype(_: DType) -> DType {
        DType::F32
    }

    /// Converts a tensor, [outputs, inputs] of type [`Weight::dtype`].
    fn new(weight: Tensor) -> Result<Self>;
}

/// A projection's weight and bias, of types `M` and `V`.
#[derive(Debug, Clone)]
pub struct Linear<M = Tensor, V = Tensor> {
    /// [outputs, inputs]
    pub weight: M,
    pub bias: Option<V>,
}

impl<M: Projection> Linear<M> {
    /// Computes the projection of rows, including the bias, into `to`. `write` adds or replaces.
    pub fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        self.weight.multiply(x, to, write, cores)?;
        match &self.bias {
            Some(bias) => read([bias], |[bias]| to.chunks_exact_mut(bias.len()).for_each(|row| add(row, bias))),
            None => Ok(()),
        }
    }
}

pub trait Projection: Weight + Clone + Debug + Send + Sync {
    /// Computes x · Wᵀ for rows of inputs into `to`, with sums in f32. `write` adds or replaces.
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()>;

    /// The arithmetic of attention in a model with such weights.
    fn attention() -> Arithmetic {
        Arithmetic::Widened
    }
}

impl Weight for Tensor {
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
