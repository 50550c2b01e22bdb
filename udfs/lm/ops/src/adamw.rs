//! One step of AdamW over numbers, their moments and their gradient.

use asap_kernels::vectorized::vectorized;

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What the gradient is multiplied by, to be no longer than the clip.
    pub clipped: f32,
    /// The learning rate, over what the first moment lacks after so many steps.
    pub size: f32,
    /// The root of what the second moment lacks.
    pub second_correction: f32,
    /// 1 − β₁.
    pub towards_first: f32,
    /// β₂.
    pub keep_second: f32,
    /// 1 − β₂.
    pub towards_second: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
}

impl Step {
    /// Changes `values` and their moments, where they are, by the gradient by them. `keep` is what weight decay leaves of a
    /// value.
    pub fn make(&self, values: &mut [f32], [first, second]: [&mut [f32]; 2], gradient: &[f32], keep: f32) {
        vectorized(
            #[inline(always)]
            || {
                let moments = first.iter_mut().zip(second.iter_mut());
                for ((value, (first, second)), gradient) in values.iter_mut().zip(moments).zip(gradient) {
                    let gradient = gradient * self.clipped;
                    *first += (gradient - *first) * self.towards_first;
                    *second = *second * self.keep_second + gradient * gradient * self.towards_second;
                    let root = second.sqrt() / self.second_correction + self.epsilon;
                    *value = *value * keep - self.size * (*first / root);
                }
            },
        );
    }
}
