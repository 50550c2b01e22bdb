//! Products with weights in f32 that are ordered once, as gemm's kernels read them: what orders them for each product anew
//! takes a tenth of its time.

use std::ops::Range;

use super::gemm::{Cores, Matrix, Update, multiply_columns};
use super::{Result, on_all_cores};

/// Inputs that a product takes at once at most: a panel's weights of as many stay in the second cache for all rows.
const INPUTS: usize = 512;

/// Outputs of a panel and rows of a product that gemm takes as they lie, without ordering them first: as many as its tile is
/// high, and eight times as many as it is wide.
fn tile() -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return (64, 48);
    }
    (48, 32)
}

/// A weight, [outputs, inputs], in f32: in panels of outputs, input by input.
#[derive(Debug, Clone)]
pub struct F32Matrix {
    outputs: usize,
    inputs: usize,
    /// Outputs of a panel; the last one may have fewer.
    panel: usize,
    panels: Vec<f32>,
}

impl F32Matrix {
    /// Orders a weight that is stored output by output.
    ///
    /// # Panics
    /// If `values` has another length than outputs × inputs.
    pub fn pack(values: &[f32], outputs: usize, inputs: usize) -> Self {
        assert_eq!(values.len(), outputs * inputs, "numbers of a weight");
        let (panel, _) = tile();
        let mut panels = vec![0.0; values.len()];
        for (to, from) in panels.chunks_mut(panel * inputs).zip(values.chunks(panel * inputs)) {
            let outputs = from.len() / inputs;
            for (input, to) in to.chunks_exact_mut(outputs).enumerate() {
                to.iter_mut().enumerate().for_each(|(output, to)| *to = from[output * inputs + input]);
            }
        }
        Self { outputs, inputs, panel, panels }
    }

    /// x · Wᵀ for rows of `inputs` numbers: written to `to`, `outputs` numbers a row, or added to what is there.
    ///
    /// # Errors
    /// None of its own.
    ///
    /// # Panics
    /// If `x` and `to` do not have the same number of whole rows.
    pub fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        let panels = self.outputs.div_ceil(self.panel);
        let cores = if cores == Cores::All { rayon::current_num_threads().min(panels) } else { 1 };
        if cores == 1 {
            self.multiply_panels(0..panels, x, to, write);
            return Ok(());
        }
        // Each core has panels and a product of its own.
        let width = self.panel * panels.div_ceil(cores);
        let parts = (0..self.outputs).step_by(width).map(|first| first..self.outputs.min(first + width)).collect();
        let own = on_all_cores(parts, |outputs: Range<usize>| -> Result<_> {
            let mut part = vec![0.0; x.len() / self.inputs * outputs.len()];
            let panels = outputs.start / self.panel..outputs.end.div_ceil(self.panel);
            self.multiply_panels(panels, x, &mut part, Update::Replace);
            Ok((outputs, part))
        })?;
        for (outputs, part) in own {
            let rows = to.chunks_exact_mut(self.outputs).zip(part.chunks_exact(outputs.len()));
            rows.for_each(|(to, part)| {
                let to = &mut to[outputs.clone()];
                match write {
                    Update::Replace => to.copy_from_slice(part),
                    Update::Add => to.iter_mut().zip(part).for_each(|(to, x)| *to += x),
                }
            });
        }
        Ok(())
    }

    /// The outputs of some panels.
    fn multiply_panels(&self, panels: Range<usize>, x: &[f32], to: &mut [f32], write: Update) {
        let part = self.inputs.div_ceil(self.inputs.div_ceil(INPUTS));
        let outputs = self.outputs.min(panels.end * self.panel) - panels.start * self.panel;
        let from = panels.start * self.panel * self.inputs;
        for (panel, weights) in
            self.panels[from..][..outputs * self.inputs].chunks(self.panel * self.inputs).enumerate()
        {
            let height = weights.len() / self.inputs;
            for first in (0..self.inputs).step_by(part) {
                let inputs = part.min(self.inputs - first);
                let weights = Matrix::dense(&weights[first * height..][..inputs * height], inputs, height);
                let write = if first == 0 { write } else { Update::Add };
                multiply_panel((x, self.inputs), first, weights, (&mut *to, outputs), panel * self.panel, write);
            }
        }
    }
}

/// x · w for rows of `x`, of which the numbers from `first` on are multiplied, by the weights `w` of a panel, [inputs, outputs]:
/// written to `to` from the output `from` on, or added to what is there. Rows of `x` and `to` have the widths beside them.
pub(super) fn multiply_panel(
    (x, width): (&[f32], usize),
    first: usize,
    weights: Matrix,
    (to, to_width): (&mut [f32], usize),
    from: usize,
    write: Update,
) {
    let (_, rows) = tile();
    for (x, to) in x.chunks(rows * width).zip(to.chunks_mut(rows * to_width)) {
        let x = Matrix::new(&x[first..], (x.len() / width, weights.rows()), (width, 1));
        multiply_columns(x, weights, to, from, to_width, write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_agree_with_the_definition(
            rows in 0_usize..100, outputs in 1_usize..140, inputs in prop_oneof![1_usize..70, 500_usize..530], all in any::<bool>(),
        ) {
            let value = |i: usize| ((i * 37) % 11) as f32 - 5.0;
            let x: Vec<f32> = (0..rows * inputs).map(value).collect();
            let weight: Vec<f32> = (0..outputs * inputs).map(|i| value(i + 3)).collect();
            let matrix = F32Matrix::pack(&weight, outputs, inputs);
            let cores = if all { Cores::All } else { Cores::One };
            let mut product = vec![7.0; rows * outputs];
            matrix.multiply(&x, &mut product, Update::Replace, cores).unwrap();
            matrix.multiply(&x, &mut product, Update::Add, cores).unwrap();
            for (x, product) in x.chunks(inputs).zip(product.chunks(outputs)) {
                for (weight, found) in weight.chunks(inputs).zip(product) {
                    let exact: f32 = x.iter().zip(weight).map(|(a, b)| a * b).sum();
                    prop_assert_eq!(*found, 2.0 * exact);
                }
            }
        }
    }
}
