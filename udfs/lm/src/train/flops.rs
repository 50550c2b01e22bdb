//! FLOPs of a training step, and the peak FLOPS of this machine.

use std::time::Instant;

use super::Batch;
use crate::model::config::ModelConfig;
use crate::ops::{Cores, Matrix, Update, multiply};

/// Floating-point operations of forward and backward pass of a batch: a multiplication and an addition per weight and
/// token, and twice that for the gradient. Recomputation is not counted. A token attends to half of its example on
/// average, once for scores and once for values.
pub(super) fn flops(config: &ModelConfig, batch: &Batch) -> f64 {
    let heads = config.heads();
    let attention = 2 * config.hidden_size * (heads.query_width() + heads.key_width());
    let layers = (attention + 3 * config.hidden_size * config.intermediate_size) * config.num_hidden_layers;
    let output = config.vocab_size * config.hidden_size;
    let queries = heads.query_width() * config.num_hidden_layers;
    let pairs: f64 = batch.lengths.iter().map(|length| (length * length) as f64 / 2.0).sum();
    let weights = (layers * batch.ids.len() + output * batch.targets.len()) as f64;
    6.0 * (weights + 2.0 * queries as f64 * pairs)
}

/// Returns the peak FLOPS of all cores in f32 products: the best of a few timings of milliseconds.
pub fn peak_flops() -> f64 {
    const ROWS: usize = 512;
    const WIDTH: usize = 768;
    const PRODUCTS: usize = 5;
    let (a, b) = (vec![0.5; ROWS * WIDTH], vec![0.25; WIDTH * WIDTH]);
    let each = |_: rayon::BroadcastContext| {
        let mut to = vec![0.0; ROWS * WIDTH];
        let product = |_| {
            let begun = Instant::now();
            let (a, b) = (Matrix::dense(&a, ROWS, WIDTH), Matrix::dense(&b, WIDTH, WIDTH));
            multiply(a, b, 1.0, &mut to, Update::Replace, Cores::One);
            begun.elapsed().as_secs_f64()
        };
        (0..PRODUCTS).map(product).fold(f64::MAX, f64::min)
    };
    let flops = (2 * ROWS * WIDTH * WIDTH) as f64;
    rayon::broadcast(each).into_iter().map(|seconds| flops / seconds.max(1e-9)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Example;

    #[test]
    fn a_token_takes_six_operations_a_weight() {
        let config = r#"{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 8,
            "intermediate_size": 16, "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 3,
            "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "vocab_size": 10}"#;
        let batch = Batch::new(&[Example::new(vec![1; 5], 3)]);
        // Weights of 3 layers: q and o have 8 × 8, k and v 8 × 4, gate, up and down 8 × 16. Four tokens are read and two
        // of them learned; four tokens attend to 8 pairs.
        let expected = 6.0 * (4.0 * 1728.0 + 2.0 * 80.0 + 2.0 * 24.0 * 8.0);
        assert_eq!(flops(&ModelConfig::parse(config).unwrap(), &batch), expected);
    }

    #[test]
    fn cores_do_some_work() {
        assert!(peak_flops() > 1e6);
    }
}
