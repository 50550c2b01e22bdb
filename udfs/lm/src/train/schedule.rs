//! The learning rate schedule.

use std::f64::consts::PI;

/// Linear warm-up from zero to the peak, then half a cosine down to a floor (`cosine_with_min_lr` of transformers).
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Peak learning rate, reached at the end of warm-up.
    pub peak: f64,
    /// Learning rate after the last step, as a fraction of the peak.
    pub floor: f64,
    pub warmup_steps: usize,
    /// Total steps, including warm-up.
    pub total_steps: usize,
}

impl Schedule {
    /// Returns the learning rate of a step, counted from 0. With warm-up the first step's rate is 0.
    pub fn rate(&self, step: usize) -> f64 {
        if step < self.warmup_steps {
            return self.peak * step as f64 / self.warmup_steps as f64;
        }
        let after_warmup = self.total_steps.saturating_sub(self.warmup_steps).max(1);
        let progress = (step - self.warmup_steps) as f64 / after_warmup as f64;
        let cosine = 0.5 * (1.0 + (PI * progress.min(1.0)).cos());
        self.peak * (cosine * (1.0 - self.floor) + self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_stays_after_the_last_step_and_without_warmup_the_first_step_is_the_highest() {
        let schedule = Schedule { peak: 2e-3, floor: 0.1, warmup_steps: 4, total_steps: 104 };
        assert!((schedule.rate(104) - 0.2e-3).abs() < 1e-12);
        assert_eq!(schedule.rate(1_000), schedule.rate(104));
        let schedule = Schedule { peak: 1.0, floor: 0.0, warmup_steps: 0, total_steps: 1 };
        assert_eq!(schedule.rate(0), 1.0);
    }
}
