//! Products with f32 weights that are packed into panels once.

use candle_core::Tensor;

use super::gemm::{Cores, multiply_right};
use super::matrix::{Matrix, Update, common_rows};
use super::panels::{Panels, order, panel_width};
use super::projection::{Projection, Weight};
use super::tiles::Right;
use super::{Result, read};

/// An f32 weight of shape [outputs, inputs]. It is packed once, because packing it for each product would take a
/// noticeable part of the product's time.
#[derive(Debug, Clone)]
pub struct F32Matrix {
    outputs: usize,
    inputs: usize,
    values: Vec<f32>,
    first: usize,
}

impl F32Matrix {
    /// Packs a row-major weight.
    pub fn pack(values: &[f32], outputs: usize, inputs: usize) -> Self {
        assert_eq!(values.len(), outputs * inputs, "length of the weight");
        let mut panels = Vec::new();
        let first = order(Matrix::dense(values, outputs, inputs).t(), &mut panels).values.as_ptr();
        let first = (first.addr() - panels.as_ptr().addr()) / size_of::<f32>();
        Self { outputs, inputs, values: panels, first }
    }
}

impl Weight for F32Matrix {
    fn new(weight: Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        read([&weight], |[numbers]| Self::pack(numbers, outputs, inputs))
    }
}

impl Projection for F32Matrix {
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        let rows = common_rows(x, self.inputs, to, self.outputs);
        let width = panel_width();
        let panels = Panels::new(&self.values[self.first..], (self.inputs, self.outputs), width, self.inputs * width);
        let x = Matrix::dense(x, rows, self.inputs);
        multiply_right(x, Right::Panels(panels), 1.0, (to, self.outputs), write, cores);
        Ok(())
    }
}
