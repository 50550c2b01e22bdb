//! RoPE frequencies and tables.
//!
//! Dimension i of a head is rotated together with dimension i + head_dim / 2. Frequencies and angles are rounded to f32
//! where transformers and vLLM round them: models are trained with these angles. At 1,400 tokens, exact angles would move
//! scores by 1e-4 nats.

use std::f64::consts::PI;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::config::{RopeConfig, RopeScaling};
use crate::ops::RopeTable;

#[derive(Debug, Clone)]
pub(crate) struct Rope {
    frequencies: Vec<f32>,
    attention_factor: f64,
    /// The longest table so far.
    held: Arc<Mutex<Arc<RopeTable>>>,
}

impl Rope {
    pub(crate) fn new(config: &RopeConfig, head_dim: usize) -> Self {
        let plain = |pair: usize| {
            let exponent = 2.0 * pair as f32 / head_dim as f32;
            f64::from(1.0 / (config.theta.powf(f64::from(exponent)) as f32))
        };
        let mut frequencies: Vec<f64> = (0..head_dim / 2).map(plain).collect();
        let mut attention_factor = 1.0;
        match config.scaling {
            RopeScaling::Default => {}
            RopeScaling::Linear { factor } => frequencies.iter_mut().for_each(|frequency| *frequency /= factor),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: window,
            } => {
                for frequency in &mut frequencies {
                    let turns = window * *frequency / (2.0 * PI);
                    let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                    *frequency *= kept + (1.0 - kept) / factor;
                }
            }
            RopeScaling::Yarn {
                factor,
                original_max_position_embeddings: window,
                beta_fast,
                beta_slow,
                truncate,
                attention_factor: given,
            } => {
                attention_factor = given;
                // The dimension whose pair makes this many turns within the original window.
                let dimension =
                    |turns: f64| head_dim as f64 * (window / (turns * 2.0 * PI)).ln() / (2.0 * config.theta.ln());
                let (mut low, mut high) = (dimension(beta_fast), dimension(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
                if low == high {
                    high += 0.001;
                }
                for (pair, frequency) in frequencies.iter_mut().enumerate() {
                    let stretched = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    *frequency *= (1.0 - stretched) + stretched / factor;
                }
            }
        }
        let frequencies = frequencies.into_iter().map(|frequency| frequency as f32).collect();
        let held = Arc::new(RopeTable { cos: vec![], sin: vec![], pairs: head_dim / 2 });
        Self { frequencies, attention_factor, held: Arc::new(Mutex::new(held)) }
    }

    /// The table of at least the positions 0 … `positions` − 1, which is computed once.
    pub(crate) fn table(&self, positions: usize) -> Arc<RopeTable> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.positions() < positions {
            *held = Arc::new(self.compute(positions.next_power_of_two()));
        }
        Arc::clone(&held)
    }

    fn compute(&self, positions: usize) -> RopeTable {
        let pairs = self.frequencies.len();
        let mut table =
            RopeTable { cos: Vec::with_capacity(positions * pairs), sin: Vec::with_capacity(positions * pairs), pairs };
        for position in 0..positions {
            for frequency in &self.frequencies {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                table.cos.push((cos * self.attention_factor) as f32);
                table.sin.push((sin * self.attention_factor) as f32);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_cosine_and_sine_of_position_times_frequency() {
        let rope = Rope::new(&RopeConfig { theta: 10_000.0, scaling: RopeScaling::Default }, 4);
        let table = rope.table(30_001);
        assert_eq!(table.pairs, 2);
        let last = 30_000 * 2;
        assert_eq!(table.cos[last], 30_000_f64.cos() as f32);
        assert_eq!(table.sin[last + 1], 300_f64.sin() as f32);
        assert_eq!((table.cos[0], table.sin[0]), (1.0, 0.0));
    }
}
