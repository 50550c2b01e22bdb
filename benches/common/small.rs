//! The small shape of the training benches.

/// The shape of a model with 2.7 million parameters.
pub(crate) const SMALL: &str = r#"{
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 192,
    "intermediate_size": 768, "max_position_embeddings": 32768, "num_attention_heads": 6, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true, "vocab_size": 2816
}"#;
