//! The reference: the same decoder composed of operations that candle differentiates.

use std::collections::HashMap;

use candle_core::{D, Device, Tensor, Var};
use candle_nn::ops::{rms_norm_slow, softmax};
use candle_nn::rotary_emb::rope_slow;
use serde_json::json;

use super::{assert_gradients, gradient};
use crate::model::config::ModelConfig;
use crate::model::decoder::Decoder;
use crate::model::rope::Rope;
use crate::model::weights::{LayerWeights, Weights};
use crate::ops::Linear;
use crate::testing::changed;
use crate::train::{Activations, Batch, Example, Keep};

fn config(family: &str, architecture: &str, more: serde_json::Value) -> ModelConfig {
    let config = json!({
        "model_type": family, "architectures": [architecture], "hidden_act": "silu", "hidden_size": 24,
        "intermediate_size": 40, "max_position_embeddings": 1024, "num_attention_heads": 6, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "vocab_size": 31,
    });
    ModelConfig::parse(&changed(config, &more).to_string()).unwrap()
}

fn variables(config: &ModelConfig) -> (Weights, HashMap<String, Var>) {
    let mut variables = HashMap::new();
    let weights = Weights::build(config, |name, shape| {
        let count: usize = shape.iter().product();
        let phase = name.bytes().map(f64::from).sum::<f64>();
        let number = |i: usize| ((i as f64 * 12.9898 + phase).sin() * 43_758.545_3).fract() as f32;
        let offset = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let numbers: Vec<f32> = (0..count).map(|i| 0.5 * number(i) + offset).collect();
        let variable = Var::from_vec(numbers, shape, &Device::Cpu)?;
        variables.insert(name.to_string(), variable.clone());
        Ok(variable.into_inner())
    });
    (weights.unwrap(), variables)
}

fn linear(x: &Tensor, linear: &Linear) -> candle_core::Result<Tensor> {
    let y = x.matmul(&linear.weight.t()?)?;
    linear.bias.as_ref().map_or(Ok(y.clone()), |bias| y.broadcast_add(bias))
}

fn layer(config: &ModelConfig, layer: &LayerWeights, x: &Tensor) -> candle_core::Result<Tensor> {
    let (tokens, width, epsilon) = (x.dim(0)?, config.head_dim, config.rms_norm_eps as f32);
    let group = config.num_attention_heads / config.num_key_value_heads;
    let table = Rope::new(&config.rope, width).table(tokens);
    let angles = |angles: &[f32]| Tensor::from_slice(&angles[..tokens * width / 2], (tokens, width / 2), &Device::Cpu);
    let (cos, sin) = (angles(&table.cos)?, angles(&table.sin)?);
    let heads = |x: Tensor| x.reshape((1, tokens, (), width))?.transpose(1, 2)?.contiguous();
    let normed_heads = |x: Tensor, norm: &Option<Tensor>| match norm {
        Some(weight) => rms_norm_slow(&heads(x)?, weight, epsilon),
        None => heads(x),
    };
    let repeated = |x: Tensor| -> candle_core::Result<Tensor> {
        let (one, heads, tokens, width) = x.dims4()?;
        let repeated = x.unsqueeze(2)?.broadcast_as((one, heads, group, tokens, width))?;
        repeated.contiguous()?.reshape((one, heads * group, tokens, width))
    };

    let normed = rms_norm_slow(x, &layer.input_norm, epsilon)?;
    let q = rope_slow(&normed_heads(linear(&normed, &layer.q)?, &layer.q_norm)?, &cos, &sin)?;
    let k = repeated(rope_slow(&normed_heads(linear(&normed, &layer.k)?, &layer.k_norm)?, &cos, &sin)?)?;
    let v = repeated(heads(linear(&normed, &layer.v)?)?)?;
    let hidden = (0..tokens * tokens).map(|i| if i % tokens > i / tokens { f32::NEG_INFINITY } else { 0.0 });
    let mask = Tensor::from_vec(hidden.collect::<Vec<_>>(), (tokens, tokens), &Device::Cpu)?;
    let scores = (q.matmul(&k.t()?)? / (width as f64).sqrt())?.broadcast_add(&mask)?;
    let gathered = softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(1, 2)?.reshape((tokens, ()))?;
    let half = (x + linear(&gathered, &layer.o)?)?;

    let normed = rms_norm_slow(&half, &layer.post_norm, epsilon)?;
    let gate = normed.matmul(&layer.gate.t()?)?.silu()?;
    let product = (gate * normed.matmul(&layer.up.t()?)?)?;
    half + product.matmul(&layer.down.t()?)?
}

/// The sum of −ln P over the tokens to learn, example by example.
fn loss(config: &ModelConfig, weights: &Weights, examples: &[Example]) -> candle_core::Result<Tensor> {
    let mut sum = Tensor::zeros((), candle_core::DType::F32, &Device::Cpu)?;
    for example in examples {
        let ids = Tensor::new(&example.ids[..example.ids.len() - 1], &Device::Cpu)?;
        let mut x = weights.embed.index_select(&ids, 0)?;
        for weights in &weights.layers {
            x = layer(config, weights, &x)?;
        }
        let hidden = rms_norm_slow(&x, &weights.norm, config.rms_norm_eps as f32)?;
        let rows: Vec<u32> = example.places().map(|place| place as u32 - 1).collect();
        let targets: Vec<u32> = example.places().map(|place| example.ids[place]).collect();
        let logits = hidden.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?.matmul(&weights.output().t()?)?;
        let mean = candle_nn::loss::cross_entropy(&logits, &Tensor::new(targets.as_slice(), &Device::Cpu)?)?;
        sum = (sum + (mean * targets.len() as f64)?)?;
    }
    Ok(sum)
}

/// Examples of one token, with steps that are not learned, of less than a block, and of several blocks of queries and of keys. Together they have more
/// rows to learn than a pass of the output layer.
fn examples() -> Vec<Example> {
    let example =
        |length: usize, prompt: usize| Example::new((0..length as u32).map(|i| (i * i + i / 7) % 31).collect(), prompt);
    let masked = Example { learned: vec![12..15, 18..19, 25..60], ..example(60, 11) };
    vec![example(2, 1), example(40, 11), masked, example(530, 5), example(9, 8)]
}

/// Every weight has a gradient, equal to autograd's within 2e-5 of the tensor's largest number.
#[test]
fn all_families_have_the_gradients_of_autograd() {
    let llama3 = json!({"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64});
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64});
    let examples = examples();
    for (family, architecture, more) in [
        ("qwen2", "Qwen2ForCausalLM", json!({"tie_word_embeddings": true})),
        ("qwen3", "Qwen3ForCausalLM", json!({"head_dim": 8})),
        ("llama", "LlamaForCausalLM", json!({"attention_bias": true, "rope_scaling": llama3})),
        ("mistral", "MistralForCausalLM", json!({"rope_scaling": yarn})),
    ] {
        let config = config(family, architecture, more);
        let (weights, variables) = variables(&config);
        let expected = loss(&config, &weights, &examples).unwrap();
        let gradients = expected.backward().unwrap();
        let gradients =
            variables.iter().map(|(name, variable)| (name.clone(), gradients.get(variable).unwrap().clone()));

        let decoder = Decoder::new(config, weights);
        let (nats, found) = gradient(&decoder, &Batch::new(&examples), 1.0);
        let expected = f64::from(expected.to_scalar::<f32>().unwrap());
        assert!((nats / expected - 1.0).abs() < 1e-5, "{nats} against {expected}");
        assert_gradients(&decoder.weights, &found, &gradients.collect(), 2e-5);

        let outside = Batch::new(&[Example::new(vec![1, 31], 1)]);
        let refused = Activations::new(Keep::All).gradient(&decoder, &outside, 1.0, &mut found.clone(), &|| true);
        assert!(refused.unwrap_err().to_string().contains("below 31, found 31"));
    }
}
