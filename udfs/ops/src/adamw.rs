//! One AdamW step.

use asap_kernels::vectorized;

#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Factor on the gradient that applies gradient clipping.
    pub clipped: f32,
    /// Learning rate divided by the bias correction of the first moment.
    pub size: f32,
    /// Square root of the bias correction of the second moment.
    pub second_correction: f32,
    /// 1 − β₁
    pub towards_first: f32,
    /// β₂
    pub keep_second: f32,
    /// 1 − β₂
    pub towards_second: f32,
    pub epsilon: f32,
}

impl Step {
    /// Updates `values` and their moments in place. Weight decay multiplies each value by `keep`.
    pub fn make(&self, values: &mut [f32], [first, second]: [&mut [f32]; 2], gradient: &[f32], keep: f32) {
        vectorized!({
            let moments = first.iter_mut().zip(second.iter_mut());
            for ((value, (first, second)), gradient) in values.iter_mut().zip(moments).zip(gradient) {
                let gradient = gradient * self.clipped;
                *first += (gradient - *first) * self.towards_first;
                *second = *second * self.keep_second + gradient * gradient * self.towards_second;
                let root = second.sqrt() / self.second_correction + self.epsilon;
                *value = *value * keep - self.size * (*first / root);
            }
        });
    }
}
