//! candle as a peer: scores a chain with the Qwen2 model of candle-transformers, and runs training steps with candle's
//! autograd. Weights and tokens are those of the benches `scoring` and `training`. `benches/peers/scoring.py` and
//! `benches/peers/training.py` run both sides and compare their results.
//!
//! Each case runs in its own process, on one thread, and prints one line of JSON. Names of cases after `--` select cases.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::collections::HashMap;

use asap_lm::config::ModelConfig;
use asap_lm::train;
use asap_lm::weights::Weights;
use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::loss::cross_entropy;
use candle_nn::ops::{log_softmax, rms_norm_slow, softmax};
use candle_nn::rotary_emb::rope_slow;
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarBuilder};
use candle_transformers::models::qwen2;
use cpu_time::ProcessTime;
use random::Random;

#[path = "common/processes.rs"]
mod processes;
#[path = "common/random.rs"]
mod random;
#[path = "common/small.rs"]
mod small;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    match processes::case().as_deref() {
        Some("f32") => score().unwrap(),
        Some("16x256") => train("16x256", 16, 256).unwrap(),
        Some("64x54") => train("64x54", 64, 54).unwrap(),
        Some(other) => panic!("expected f32, 16x256 or 64x54, found {other}"),
        None => ["f32", "16x256", "64x54"].iter().for_each(|case| processes::run(case, 1, &[], true)),
    }
}

/// Scores 40 positions of 2,048 tokens and prints the best of three runs.
fn score() -> Result<()> {
    let config = ModelConfig::parse(processes::HALF_A_BILLION).unwrap();
    let weights: Weights = Random(1).weights(&config);
    let named = weights.named().into_iter().map(|(name, tensor)| (name, tensor.clone())).collect();
    // Fields that candle requires and that change nothing here.
    let mut fields: serde_json::Value = serde_json::from_str(processes::HALF_A_BILLION).unwrap();
    fields["sliding_window"] = config.max_position_embeddings.into();
    fields["max_window_layers"] = config.num_hidden_layers.into();
    fields["use_sliding_window"] = false.into();
    let builder = VarBuilder::from_tensors(named, DType::F32, &Device::Cpu);
    let mut model = qwen2::Model::new(&serde_json::from_value(fields).unwrap(), builder)?;

    let (ids, rows) = random::chain(2048, config.vocab_size);
    let targets: Vec<u32> = rows.iter().map(|row| ids[*row as usize + 1]).collect();
    let ids = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
    let (rows, targets) = (Tensor::new(rows, &Device::Cpu)?, Tensor::new(targets, &Device::Cpu)?);
    let (mut cpu, mut surprisal) = (f64::MAX, vec![]);
    for _ in 0..3 {
        let begun = ProcessTime::now();
        model.clear_kv_cache();
        let hidden = model.forward(&ids, 0, None)?.squeeze(0)?.index_select(&rows, 0)?;
        let scores = log_softmax(&hidden.matmul(&weights.output().t()?)?, D::Minus1)?;
        surprisal = scores.gather(&targets.unsqueeze(1)?, 1)?.neg()?.flatten_all()?.to_vec1::<f32>()?;
        cpu = cpu.min(begun.elapsed().as_secs_f64());
    }
    let peak = processes::peak();
    println!(r#"{{"case": "f32", "tokens": 2048, "cpu": {cpu:.3}, "peak": {peak}, "surprisal": {surprisal:?}}}"#);
    Ok(())
}

/// Makes one step to warm up and five more, and prints the best of those.
fn train(name: &str, chains: usize, tokens: usize) -> Result<()> {
    let config = ModelConfig::parse(small::SMALL).unwrap();
    let mut variables = HashMap::new();
    for (name, tensor) in train::random::weights(&config, 1).unwrap().named() {
        variables.insert(name, Var::from_tensor(tensor)?);
    }
    let parameters = ParamsAdamW { lr: 1e-4, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
    let mut optimizer = AdamW::new(variables.values().cloned().collect(), parameters)?;
    let ids: Vec<u32> = (0..chains * (tokens + 1)).map(|i| (i * 7919 % config.vocab_size) as u32).collect();
    let ids = Tensor::from_vec(ids, (chains, tokens + 1), &Device::Cpu)?;
    let inputs = ids.narrow(1, 0, tokens)?.contiguous()?;
    let targets = ids.narrow(1, 1, tokens)?.contiguous()?.flatten_all()?;
    let model = Model { config: &config, variables: &variables };
    let (mut cpu, mut losses) = (f64::MAX, vec![]);
    for step in 0..=5 {
        let begun = ProcessTime::now();
        let loss = cross_entropy(&model.logits(&inputs)?, &targets)?;
        let mut gradients = loss.backward()?;
        // Clips the norm to 1.
        let mut squares = 0.0;
        for variable in variables.values() {
            squares += gradients.get(variable).unwrap().sqr()?.sum_all()?.to_scalar::<f32>()?;
        }
        let scale = f64::from(1.0 / (squares.sqrt() + 1e-6)).min(1.0);
        for variable in variables.values() {
            let clipped = (gradients.get(variable).unwrap() * scale)?;
            gradients.insert(variable, clipped);
        }
        optimizer.step(&gradients)?;
        losses.push(loss.to_scalar::<f32>()?);
        // The first step allocates the memory.
        if step > 0 {
            cpu = cpu.min(begun.elapsed().as_secs_f64());
        }
    }
    let (tokens, peak) = (chains * tokens, processes::peak());
    println!(r#"{{"case": "{name}", "tokens": {tokens}, "cpu": {cpu:.3}, "peak": {peak}, "losses": {losses:?}}}"#);
    Ok(())
}

/// Qwen2 composed of operations that candle differentiates: the models of candle-transformers use others.
struct Model<'a> {
    config: &'a ModelConfig,
    variables: &'a HashMap<String, Var>,
}

impl Model<'_> {
    /// The logits of chains of equal length, [chains × tokens, vocabulary].
    fn logits(&self, ids: &Tensor) -> Result<Tensor> {
        let (chains, tokens) = ids.dims2()?;
        let width = self.config.head_dim;
        let angle = |i: usize| {
            let (position, pair) = (i / (width / 2), i % (width / 2));
            position as f64 * 1e6_f64.powf(-2.0 * pair as f64 / width as f64)
        };
        let angles = || (0..tokens * width / 2).map(angle);
        let cos = Tensor::from_iter(angles().map(|angle| angle.cos() as f32), &Device::Cpu)?;
        let sin = Tensor::from_iter(angles().map(|angle| angle.sin() as f32), &Device::Cpu)?;
        let rope = [cos.reshape((tokens, width / 2))?, sin.reshape((tokens, width / 2))?];
        let hidden = (0..tokens * tokens).map(|i| if i % tokens > i / tokens { f32::NEG_INFINITY } else { 0.0 });
        let mask = Tensor::from_iter(hidden, &Device::Cpu)?.reshape((tokens, tokens))?;
        let embed = &self.variables["model.embed_tokens.weight"];
        let mut x = embed.index_select(&ids.flatten_all()?, 0)?;
        for layer in 0..self.config.num_hidden_layers {
            x = self.layer(&format!("model.layers.{layer}"), &x, chains, &rope, &mask)?;
        }
        self.norm("model.norm.weight", &x)?.matmul(&embed.t()?)
    }

    fn layer(&self, at: &str, x: &Tensor, chains: usize, [cos, sin]: &[Tensor; 2], mask: &Tensor) -> Result<Tensor> {
        let (tokens, width) = (x.dim(0)? / chains, self.config.head_dim);
        let group = self.config.num_attention_heads / self.config.num_key_value_heads;
        let heads = |x: Tensor| x.reshape((chains, tokens, (), width))?.transpose(1, 2)?.contiguous();
        let repeated = |x: Tensor| {
            let (chains, heads, tokens, width) = x.dims4()?;
            let all = x.unsqueeze(2)?.broadcast_as((chains, heads, group, tokens, width))?;
            all.contiguous()?.reshape((chains, heads * group, tokens, width))
        };
        let normed = self.norm(&format!("{at}.input_layernorm.weight"), x)?;
        let project = |name: &str| {
            let product = self.linear(&format!("{at}.self_attn.{name}.weight"), &normed)?;
            heads(product.broadcast_add(&self.variables[&format!("{at}.self_attn.{name}.bias")])?)
        };
        let q = rope_slow(&project("q_proj")?, cos, sin)?;
        let k = repeated(rope_slow(&project("k_proj")?, cos, sin)?)?;
        let v = repeated(project("v_proj")?)?;
        let scores = (q.matmul(&k.t()?)? / (width as f64).sqrt())?.broadcast_add(mask)?;
        let gathered = softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(1, 2)?.reshape((chains * tokens, ()))?;
        let half = (x + self.linear(&format!("{at}.self_attn.o_proj.weight"), &gathered)?)?;
        let normed = self.norm(&format!("{at}.post_attention_layernorm.weight"), &half)?;
        let gate = self.linear(&format!("{at}.mlp.gate_proj.weight"), &normed)?.silu()?;
        let up = self.linear(&format!("{at}.mlp.up_proj.weight"), &normed)?;
        half + self.linear(&format!("{at}.mlp.down_proj.weight"), &(gate * up)?)?
    }

    fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.variables[name].t()?)
    }

    fn norm(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        rms_norm_slow(x, &self.variables[name], self.config.rms_norm_eps as f32)
    }
}
