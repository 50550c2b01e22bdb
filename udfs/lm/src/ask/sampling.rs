//! Selects the next token.

use std::collections::BTreeSet;
use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::text::prompt::{named_token, read_json};
use crate::{LmError, Result, Tokenizer};

#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Divisor of the logits. At 0 the most likely token is selected, and `seed` and `top_p` have no effect.
    pub temperature: f64,
    /// Nucleus sampling: only the fewest most likely tokens with at least this total probability are drawn, from 0 to 1.
    /// The temperature is applied first.
    pub top_p: f64,
    /// Random seed; the same seed gives the same text.
    pub seed: u64,
    /// Most tokens of an answer; the model's window may end it earlier.
    pub max_tokens: usize,
    /// Texts that end an answer before them; none is empty.
    pub stop: Vec<String>,
}

/// Generation defaults from generation_config.json. Its temperature and nucleus are ignored: the caller sets them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GenerationConfig {
    /// Tokens that end an answer: `eos_token_id`, otherwise that of config.json, and the tokenizer's `eos_token`.
    pub ends: Vec<u32>,
    /// `repetition_penalty`: makes tokens that the text already has less likely; 1 has no effect.
    pub repetition_penalty: f32,
    /// `exponential_decay_length_penalty`: after this many tokens of an answer, each further token makes its end more
    /// likely by this factor.
    pub length_penalty: Option<(usize, f32)>,
}

impl GenerationConfig {
    pub(crate) fn load(folder: &Path, tokenizer: &Tokenizer) -> Result<Self> {
        let path = folder.join("generation_config.json");
        let config = read_json(&path)?;
        let wrong = |expected: &str, found: &Value| LmError::unsupported(&path, format!("{expected}, found {found}"));
        let above_zero = |found: &Value| found.as_f64().filter(|number| *number > 0.0).map(|number| number as f32);
        let repetition_penalty = match &config["repetition_penalty"] {
            Value::Null => 1.0,
            found => above_zero(found).ok_or_else(|| wrong("repetition_penalty must be a number above 0", found))?,
        };
        let length_penalty = match &config["exponential_decay_length_penalty"] {
            Value::Null => None,
            found => {
                let start = found[0].as_u64().and_then(|start| usize::try_from(start).ok());
                let expected = "exponential_decay_length_penalty must be a token count and a factor above 0";
                Some(start.zip(above_zero(&found[1])).ok_or_else(|| wrong(expected, found))?)
            }
        };
        let ends = ends(folder, &config, tokenizer)?;
        Ok(Self { ends, repetition_penalty, length_penalty })
    }
}

fn ends(folder: &Path, generation: &Value, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let mut path = folder.join("generation_config.json");
    let mut found = generation["eos_token_id"].clone();
    if found.is_null() {
        path = folder.join("config.json");
        found = read_json(&path)?["eos_token_id"].take();
    }
    let found = match found {
        Value::Array(ids) => ids,
        Value::Null => vec![],
        one => vec![one],
    };
    let wrong = |id: &Value| {
        LmError::unsupported(&path, format!("eos_token_id must be a token id or a list of them, found {id}"))
    };
    let token = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| wrong(id));
    let mut ends = found.iter().map(token).collect::<Result<Vec<u32>>>()?;
    ends.extend(named_token(folder, tokenizer, "eos_token")?);
    ends.sort_unstable();
    ends.dedup();
    Ok(ends)
}

#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    config: GenerationConfig,
    random: ChaCha8Rng,
    chosen: usize,
    /// Tokens of the text so far; none without a repetition penalty.
    seen: BTreeSet<u32>,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling, config: GenerationConfig, prompt: &[u32]) -> Self {
        let random = ChaCha8Rng::seed_from_u64(sampling.seed);
        let mut sampler = Self { sampling, config, random, chosen: 0, seen: BTreeSet::new() };
        prompt.iter().for_each(|id| sampler.see(*id));
        sampler
    }

    /// Selects the next token. `logits` become the penalized ones that the selection used.
    pub(crate) fn next(&mut self, logits: &mut [f32]) -> u32 {
        self.penalise(logits);
        let id = if self.sampling.temperature == 0.0 { likeliest(logits) } else { self.draw(logits) };
        self.see(id);
        self.chosen += 1;
        id
    }

    fn see(&mut self, id: u32) {
        if self.config.repetition_penalty != 1.0 {
            self.seen.insert(id);
        }
    }

    /// Applies the penalties like transformers: lowers the logits of tokens that the text already has, and after a
    /// given length raises the logits of end tokens by a growing share of their size.
    fn penalise(&self, logits: &mut [f32]) {
        let penalty = self.config.repetition_penalty;
        for id in &self.seen {
            if let Some(logit) = logits.get_mut(*id as usize) {
                *logit = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
            }
        }
        let Some((start, factor)) = self.config.length_penalty else { return };
        let Some(further) = self.chosen.checked_sub(start) else { return };
        for id in &self.config.ends {
            if let Some(logit) = logits.get_mut(*id as usize) {
                *logit += logit.abs() * (factor.powi(further.min(i32::MAX as usize) as i32) - 1.0);
            }
        }
    }

    fn draw(&mut self, logits: &[f32]) -> u32 {
        let (mass, weights) = self.nucleus(logits);
        let mut left = self.random.random::<f64>() * mass;
        for (id, weight) in &weights {
            left -= weight;
            if left < 0.0 {
                return *id;
            }
        }
        // Only reached by rounding: the rest of the mass belongs to the last token.
        weights.last().map_or(0, |(id, _)| *id)
    }

    /// Returns the tokens that may be drawn with their weights, and the sum of these.
    pub(crate) fn nucleus(&self, logits: &[f32]) -> (f64, Vec<(u32, f64)>) {
        let Sampling { temperature, top_p, .. } = self.sampling;
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: f32| (f64::from(logit - highest) / temperature).exp();
        let mut weights: Vec<(u32, f64)> = (0..).zip(logits.iter().map(|logit| weight(*logit))).collect();
        let mass: f64 = weights.iter().map(|(_, weight)| weight).sum();
        if top_p >= 1.0 {
            return (mass, weights);
        }
        // All tokens below this weight together have too little mass to be in the nucleus. Few are left to sort.
        let least = (1.0 - top_p) * mass / weights.len() as f64;
        weights.retain(|(_, weight)| *weight >= least);
        weights.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let (mut held, mut count) = (0.0, 0);
        while count < weights.len() && (count == 0 || held < top_p * mass) {
            held += weights[count].1;
            count += 1;
        }
        weights.truncate(count);
        (held, weights)
    }
}

/// The token with the largest logit. If several have it, the first, like argmax.
pub(crate) fn likeliest(logits: &[f32]) -> u32 {
    let larger = |best: (u32, f32), next: (u32, f32)| if next.1 > best.1 { next } else { best };
    (0..).zip(logits.iter().copied()).fold((0, f32::NEG_INFINITY), larger).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 7, max_tokens: 1, stop: Vec::new() };

    fn sampler(sampling: Sampling, repetition_penalty: f32, prompt: &[u32]) -> Sampler {
        let config = GenerationConfig { ends: vec![3], repetition_penalty, length_penalty: None };
        Sampler::new(sampling, config, prompt)
    }

    #[test]
    fn tokens_are_drawn_by_their_probability_within_the_nucleus() {
        let logits = [0.5_f32, 0.3, 0.15, 0.05].map(f32::ln);
        let shares = |top_p| {
            let mut sampler = sampler(Sampling { temperature: 1.0, top_p, ..GREEDY }, 1.0, &[]);
            let mut counts = [0.0; 4];
            (0..20_000).for_each(|_| counts[sampler.next(&mut logits.clone()) as usize] += 1.0 / 20_000.0);
            counts
        };
        let near = |found: [f64; 4], expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.02), "{found:?} against {expected:?}");
        };
        near(shares(1.0), [0.5, 0.3, 0.15, 0.05]);
        near(shares(0.7), [0.625, 0.375, 0.0, 0.0]);
        near(shares(0.4), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_first_of_the_likeliest_tokens_is_taken() {
        let mut sampler = sampler(GREEDY, 1.0, &[]);
        assert_eq!(sampler.next(&mut [-3.0, 2.0, 2.0, -1.0]), 1);
        assert_eq!(sampler.next(&mut [-3.0, -2.0, -2.0, -9.0]), 1);
    }

    #[test]
    fn what_generation_config_says_is_read_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::load(&crate::testing::golden("qwen2")).unwrap();
        let load = |text: &str| {
            std::fs::write(folder.path().join("generation_config.json"), text).unwrap();
            GenerationConfig::load(folder.path(), &tokenizer)
        };
        let read = load(
            r#"{"eos_token_id": [9, 4, 9], "repetition_penalty": 1.1, "exponential_decay_length_penalty": [5, 1.5], "top_k": 20}"#,
        );
        let expected = GenerationConfig { ends: vec![4, 9], repetition_penalty: 1.1, length_penalty: Some((5, 1.5)) };
        assert_eq!(read.unwrap(), expected);
        let none = GenerationConfig { ends: vec![], repetition_penalty: 1.0, length_penalty: None };
        assert_eq!(load("{}").unwrap(), none);
        for (wrong, named) in [
            (r#"{"eos_token_id": "end"}"#, "eos_token_id"),
            (r#"{"repetition_penalty": 0}"#, "repetition_penalty"),
            (r#"{"exponential_decay_length_penalty": [5]}"#, "exponential_decay_length_penalty"),
        ] {
            let error = load(wrong).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("generation_config.json"), "{error}");
        }
    }
}
