//! The sizes of an experiment.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Preset {
    /// Check in half a minute that all parts work. The model learns nothing, so the report compares no methods
    Smoke,
    /// Compare methods in about 80 minutes on two cores
    Mini,
}

/// Rows and epochs of a preset.
pub(super) struct Sizes {
    /// Sums whose concise chains the base model learns first, and sums whose mixed chains it learns then.
    pub concise: u64,
    pub mixed: u64,
    /// Sums that each arm prunes and trains on.
    pub pruned: u64,
    /// Sums that models are evaluated on.
    pub held_out: u64,
    pub arm_epochs: u64,
}

impl Preset {
    pub(super) fn sizes(self) -> Sizes {
        match self {
            Self::Smoke => Sizes { concise: 20, mixed: 20, pruned: 8, held_out: 6, arm_epochs: 1 },
            Self::Mini => Sizes { concise: 12_000, mixed: 12_000, pruned: 1_200, held_out: 400, arm_epochs: 2 },
        }
    }

    pub(super) fn seeds(self) -> u64 {
        match self {
            Self::Smoke => 1,
            Self::Mini => 3,
        }
    }

    /// The share of the held-out problems that a base model has to solve.
    pub(super) fn least_accuracy(self) -> f64 {
        match self {
            Self::Smoke => 0.0,
            Self::Mini => 0.6,
        }
    }

    /// The config of the model, in Hugging Face's format.
    pub(super) fn config(self) -> Value {
        let (hidden, layers, vocabulary) = match self {
            Self::Smoke => (32, 2, 320),
            Self::Mini => (128, 4, 512),
        };
        json!({
            "architectures": ["Qwen2ForCausalLM"], "dtype": "float32", "hidden_act": "silu", "hidden_size": hidden,
            "intermediate_size": 3 * hidden, "max_position_embeddings": 2048, "model_type": "qwen2",
            "num_attention_heads": 4, "num_hidden_layers": layers, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
            "rope_theta": 1e4, "tie_word_embeddings": true, "vocab_size": vocabulary,
        })
    }

    /// The space that an experiment with this number of models needs, in bytes: measured, with a margin.
    pub(super) fn bytes(self, models: u64) -> u64 {
        match self {
            Self::Smoke => 20_000_000 + models * 1_000_000,
            Self::Mini => 150_000_000 + models * 10_000_000,
        }
    }
}
