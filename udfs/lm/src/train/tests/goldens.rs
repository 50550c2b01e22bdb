use std::ops::Range;

use candle_core::Device;
use candle_core::safetensors::load;
use serde_json::Value;

use super::{assert_gradients, distance, gradient};
use crate::model::decoder::Decoder;
use crate::testing::{golden, lines};
use crate::train::{Activations, AdamW, AdamWConfig, Batch, Example, Gradient, Keep, Schedule};

struct Golden {
    decoder: Decoder,
    examples: Vec<Example>,
    trace: Value,
}

#[derive(serde::Deserialize)]
struct Tokens {
    prompt_ids: Vec<u32>,
    response_ids: Vec<u32>,
}

fn read(name: &str) -> Golden {
    let decoder = Decoder::load(&golden(name)).unwrap();
    let folder = golden(&format!("train_{name}"));
    let example = |Tokens { prompt_ids, response_ids }: Tokens| {
        Example::new([prompt_ids.as_slice(), &response_ids].concat(), prompt_ids.len())
    };
    let examples = lines(folder.join("examples.jsonl")).into_iter().map(example).collect();
    let trace = serde_json::from_str(&std::fs::read_to_string(folder.join("trace.json")).unwrap()).unwrap();
    Golden { decoder, examples, trace }
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap()
}

fn relative(found: f64, expected: f64) -> f64 {
    (found / expected - 1.0).abs()
}

/// Loss within 1e-6 relative, every gradient within 1e-5 of its tensor's largest number.
#[test]
fn one_batch_is_as_torch_computes_it() {
    for name in ["qwen2", "llama"] {
        let Golden { decoder, examples, trace, .. } = read(name);
        let batch = Batch::new(&examples);
        let tokens = batch.targets.len();
        let (nats, found) = gradient(&decoder, &batch, 1.0 / tokens as f32);
        assert_eq!(tokens as f64, number(&trace["one_batch"], "supervised_tokens"));
        assert!(relative(nats / tokens as f64, number(&trace["one_batch"], "loss")) < 1e-6);
        let expected = load(golden(&format!("train_{name}/grads.safetensors")), &Device::Cpu).unwrap();
        assert_gradients(&decoder.weights, &found, &expected, 1e-5);
        assert!(relative(found.norm(), number(&trace["one_batch"], "grad_norm")) < 1e-6);
    }
}

/// Masked examples, packed and one after the other: loss within 1e-6 relative, every number of the gradient within 1e-6.
/// `tests/readers/sft.py` compares `asap.sft` with the same golden.
#[test]
fn masked_examples_are_as_torch_computes_them() {
    let Golden { decoder, examples, .. } = read("qwen2");
    // Of each response, every second run of seven tokens is learned.
    let runs = |own: &Range<usize>| own.clone().step_by(14).map(|begin| begin..own.end.min(begin + 7)).collect();
    let masked = |example: &Example| Example { learned: runs(&example.learned[0]), ids: example.ids.clone() };
    let examples: Vec<Example> = examples[..6].iter().map(masked).collect();
    let mut expected = load(golden("train_qwen2/masked.safetensors"), &Device::Cpu).unwrap();
    let loss = f64::from(expected.remove("loss").unwrap().to_scalar::<f32>().unwrap());
    let tokens: usize = examples.iter().map(Example::learned_tokens).sum();
    let packed = gradient(&decoder, &Batch::new(&examples), 1.0 / tokens as f32);
    let mut alone = (0.0, Gradient::zeros(&decoder.weights));
    for example in &examples {
        let (batch, mut activations) = (Batch::new([example]), Activations::new(Keep::Inputs));
        alone.0 += activations.gradient(&decoder, &batch, 1.0 / tokens as f32, &mut alone.1, &|| true).unwrap();
    }
    for (nats, found) in [packed, alone] {
        assert!(relative(nats / tokens as f64, loss) < 1e-6, "{nats} nats");
        assert_eq!(found.tensors.len(), expected.len());
        for ((name, _), found) in decoder.weights.named().iter().zip(&found.tensors) {
            let (distance, _) = distance(found, &expected[name]);
            assert!(distance < 1e-6, "{name} is off by {distance}");
        }
    }
}

/// 24 steps: learning rates exact, losses within 1e-6 and norms within 1e-5 relative, final weights within 5e-5. (Where
/// a gradient is almost zero, its rounding decides the direction of the AdamW step.)
#[test]
fn steps_are_as_torch_makes_them() {
    for name in ["qwen2", "llama"] {
        let Golden { decoder, examples, trace } = read(name);
        let constants = &trace["optimizer"];
        let config = AdamWConfig {
            beta1: constants["betas"][0].as_f64().unwrap(),
            beta2: constants["betas"][1].as_f64().unwrap(),
            epsilon: number(constants, "eps"),
            weight_decay: number(constants, "weight_decay"),
            clip: number(constants, "clip"),
        };
        let mut optimizer = AdamW::new(config, &decoder.weights);
        let mut activations = Activations::new(Keep::Inputs);
        let schedule = Schedule {
            peak: number(constants, "peak_lr"),
            floor: number(constants, "min_lr_rate"),
            warmup_steps: number(constants, "warmup_steps") as usize,
            total_steps: number(constants, "steps") as usize,
        };
        for (step, expected) in trace["steps"].as_array().unwrap().iter().enumerate() {
            let batches = (4 * step..4 * step + 4).map(|index| Batch::new([&examples[index % examples.len()]]));
            let batches: Vec<Batch> = batches.collect();
            let tokens: usize = batches.iter().map(|batch| batch.targets.len()).sum();
            let mut sum = Gradient::zeros(&decoder.weights);
            let mut nats = 0.0;
            for batch in &batches {
                nats += activations.gradient(&decoder, batch, 1.0 / tokens as f32, &mut sum, &|| true).unwrap();
            }
            let rate = schedule.rate(step);
            let norm = sum.norm();
            optimizer.step(&decoder.weights, &sum, norm, rate).unwrap();
            assert!((rate - number(expected, "lr")).abs() < 1e-15, "rate of step {step}");
            assert!(relative(nats / tokens as f64, number(expected, "loss")) < 1e-6, "loss of step {step}");
            assert!(relative(norm, number(expected, "grad_norm_before_clip")) < 1e-5, "norm of step {step}");
        }
        let expected = load(golden(&format!("train_{name}/weights_after.safetensors")), &Device::Cpu).unwrap();
        for (name, found) in decoder.weights.named() {
            let (distance, _) = distance(&found.flatten_all().unwrap().to_vec1().unwrap(), &expected[&name]);
            assert!(distance < 5e-5, "{name} is off by {distance}");
        }
    }
}
