//! The decoder that the four families share: embedding, layers of attention and MLP, final norm.

use std::path::Path;

use candle_core::{Device, Tensor};

use super::Result;
use super::config::ModelConfig;
use super::ops::{self, Attention, Direction, Heads};
use super::rope::{Rope, RopeTable};
use super::weights::{LayerWeights, Weights};

/// Tokens that go through an MLP at a time: between its projections a token is several times as wide.
const MLP_TOKENS: usize = 1024;

/// A model that turns tokens into hidden states.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// The model's shape.
    pub config: ModelConfig,
    /// The model's weights.
    pub weights: Weights,
    rope: Rope,
}

/// Chains that follow each other in one run of tokens, without padding.
#[derive(Debug, Clone)]
pub struct Packing {
    /// Tokens of each chain.
    pub lengths: Vec<usize>,
    /// Each token's place in its chain, from 0.
    pub positions: Vec<usize>,
    /// The rotations of all positions.
    pub table: RopeTable,
}

/// What the attention half of a layer computes.
#[derive(Debug, Clone)]
pub struct AttentionHalf {
    /// The input, normalised: [tokens, hidden].
    pub normed: Tensor,
    /// Rotated queries: [tokens, heads × head_dim].
    pub q: Tensor,
    /// Rotated keys: [tokens, key heads × head_dim].
    pub k: Tensor,
    /// Values: [tokens, key heads × head_dim].
    pub v: Tensor,
    /// What the heads gathered.
    pub attention: Attention,
    /// The input plus the projection of what the heads gathered: [tokens, hidden].
    pub output: Tensor,
}

/// The rotated keys and the values of the tokens of one chain, in every layer.
#[derive(Debug, Clone)]
pub struct KeysAndValues {
    tokens: usize,
    /// Each [tokens, key heads × head_dim].
    layers: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Decoder {
    /// Reads config and weights of a folder in Hugging Face's layout.
    ///
    /// # Errors
    /// As [`ModelConfig::load`] and [`Weights::load`].
    pub fn load(folder: &Path) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        let weights = Weights::load(folder, &config)?;
        Ok(Self::new(config, weights))
    }

    /// A decoder of these weights.
    pub fn new(config: ModelConfig, weights: Weights) -> Self {
        let rope = Rope::new(&config.rope, config.head_dim);
        Self { config, weights, rope }
    }

    /// The positions and rotations of chains of these lengths.
    pub fn packing(&self, lengths: &[usize]) -> Packing {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        Packing {
            lengths: lengths.to_vec(),
            positions: lengths.iter().flat_map(|length| 0..*length).collect(),
            table: self.rope.table(longest),
        }
    }

    /// The hidden states after the final norm, [tokens, hidden], of chains that follow each other in `ids`, `lengths`
    /// tokens each. Chains do not see each other.
    pub fn hidden(&self, ids: &[u32], lengths: &[usize]) -> Result<Tensor> {
        let packing = self.packing(lengths);
        let mut x = self.embed(ids)?;
        for layer in &self.weights.layers {
            x = self.attention(layer, &x, &packing)?.output;
            x = self.mlp(layer, &x)?;
        }
        ops::rms_norm(&x, &self.weights.norm, self.config.rms_norm_eps)
    }

    /// The embeddings of tokens: [tokens, hidden].
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        Ok(self.weights.embed.index_select(&Tensor::new(ids, &Device::Cpu)?, 0)?)
    }

    /// The attention half of a layer.
    pub fn attention(&self, layer: &LayerWeights, x: &Tensor, packing: &Packing) -> Result<AttentionHalf> {
        let (normed, [q, k, v]) = self.projections(layer, x, &packing.positions, &packing.table)?;
        let attention = ops::attention(&q, &k, &v, self.heads(), &packing.lengths)?;
        let output = (x + ops::linear(&attention.output, &layer.o)?)?;
        Ok(AttentionHalf { normed, q, k, v, attention, output })
    }

    /// The normalised input of a layer, and its rotated queries, rotated keys and values at these positions.
    fn projections(
        &self,
        layer: &LayerWeights,
        x: &Tensor,
        positions: &[usize],
        table: &RopeTable,
    ) -> Result<(Tensor, [Tensor; 3])> {
        let epsilon = self.config.rms_norm_eps;
        let normed = ops::rms_norm(x, &layer.input_norm, epsilon)?;
        let mut q = ops::linear(&normed, &layer.q)?;
        let mut k = ops::linear(&normed, &layer.k)?;
        let v = ops::linear(&normed, &layer.v)?;
        if let (Some(q_norm), Some(k_norm)) = (&layer.q_norm, &layer.k_norm) {
            q = ops::rms_norm(&q, q_norm, epsilon)?;
            k = ops::rms_norm(&k, k_norm, epsilon)?;
        }
        let q = ops::rotate(&q, positions, table, Direction::Forward)?;
        let k = ops::rotate(&k, positions, table, Direction::Forward)?;
        Ok((normed, [q, k, v]))
    }

    /// The hidden states after the final norm of a chain's first tokens, and what its next token needs of them.
    pub fn prefill(&self, ids: &[u32]) -> Result<(Tensor, KeysAndValues)> {
        let packing = self.packing(&[ids.len()]);
        let mut layers = Vec::with_capacity(self.weights.layers.len());
        let mut x = self.embed(ids)?;
        for layer in &self.weights.layers {
            let half = self.attention(layer, &x, &packing)?;
            layers.push(ops::read([&half.k, &half.v], |[k, v]| (k.to_vec(), v.to_vec()))?);
            x = self.mlp(layer, &half.output)?;
        }
        let hidden = ops::rms_norm(&x, &self.weights.norm, self.config.rms_norm_eps)?;
        Ok((hidden, KeysAndValues { tokens: ids.len(), layers }))
    }

    /// The hidden state after the final norm of one more token, [1, hidden]. `table` holds its position.
    pub fn next(&self, id: u32, before: &mut KeysAndValues, table: &RopeTable) -> Result<Tensor> {
        let mut x = self.embed(&[id])?;
        for (layer, (keys, values)) in self.weights.layers.iter().zip(&mut before.layers) {
            let (_, [q, k, v]) = self.projections(layer, &x, &[before.tokens], table)?;
            ops::read([&k, &v], |[k, v]| {
                keys.extend_from_slice(k);
                values.extend_from_slice(v);
            })?;
            let gathered = ops::attention_of_next(&q, keys, values, self.heads())?;
            x = self.mlp(layer, &(x + ops::linear(&gathered, &layer.o)?)?)?;
        }
        before.tokens += 1;
        ops::rms_norm(&x, &self.weights.norm, self.config.rms_norm_eps)
    }

    /// The rotations of the positions before `positions`.
    pub fn rope_table(&self, positions: usize) -> RopeTable {
        self.rope.table(positions)
    }

    /// The MLP half of a layer: x plus what the MLP makes of its norm.
    pub fn mlp(&self, layer: &LayerWeights, x: &Tensor) -> Result<Tensor> {
        let (tokens, hidden) = x.dims2()?;
        let mut values = Vec::with_capacity(tokens * hidden);
        for from in (0..tokens).step_by(MLP_TOKENS) {
            let part = x.narrow(0, from, MLP_TOKENS.min(tokens - from))?;
            let normed = ops::rms_norm(&part, &layer.post_norm, self.config.rms_norm_eps)?;
            let gate = ops::matrix(ops::product(&normed, &layer.gate.t()?)?, self.config.intermediate_size)?;
            let up = ops::matrix(ops::product(&normed, &layer.up.t()?)?, self.config.intermediate_size)?;
            values.extend(ops::product(&ops::swiglu(&gate, &up)?, &layer.down.t()?)?);
        }
        Ok((x + ops::matrix(values, hidden)?)?)
    }

    /// The heads of every layer.
    pub fn heads(&self) -> Heads {
        Heads {
            query: self.config.num_attention_heads,
            key: self.config.num_key_value_heads,
            width: self.config.head_dim,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lm::Tokenizer;
    use crate::lm::output::{Output, Target, TokenScore};
    use crate::lm::testing::{chains, golden};

    /// Tokens and first tokens of each chain of a golden model that has an earlier token.
    fn encoded(model: &str) -> Vec<(Vec<u32>, Vec<usize>, Vec<TokenScore>)> {
        let tokenizer = Tokenizer::load(&golden(model)).unwrap();
        let encode = |chain: crate::lm::testing::Chain| {
            let text = format!("{}{}", chain.question, chain.steps.join("\n\n"));
            let ids = tokenizer.encode(&text, true).unwrap().ids;
            assert_eq!(ids.len(), chain.tokens);
            let scores = chain.surprisal.iter().zip(&chain.entropy).filter_map(|(surprisal, entropy)| {
                Some(TokenScore { surprisal: (*surprisal)? as f32, entropy: (*entropy)? as f32 })
            });
            (ids, chain.first_token.into_iter().filter(|first| *first > 0).collect(), scores.collect())
        };
        chains(model).into_iter().map(encode).collect()
    }

    fn targets(ids: &[u32], first: &[usize], start: usize) -> Vec<Target> {
        first.iter().map(|place| Target { row: (start + place - 1) as u32, id: ids[*place] }).collect()
    }

    fn assert_close(found: &[TokenScore], expected: &[TokenScore], tolerance: f32) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.surprisal - expected.surprisal).abs() < tolerance, "{found:?} against {expected:?}");
            assert!((found.entropy - expected.entropy).abs() < tolerance, "{found:?} against {expected:?}");
        }
    }

    #[test]
    fn scores_agree_with_transformers_in_both_config_styles() {
        for model in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
            let folder = golden(model);
            let decoder = Decoder::load(&folder).unwrap();
            let old_style = std::fs::read_to_string(folder.join("config.v4.json")).unwrap();
            assert_eq!(ModelConfig::parse(&old_style).unwrap(), decoder.config, "{model}");
            let output = Output::new(decoder.weights.output().clone());
            for (ids, first, expected) in encoded(model) {
                let hidden = decoder.hidden(&ids, &[ids.len()]).unwrap();
                let found = output.score(&hidden, &targets(&ids, &first, 0)).unwrap();
                assert_close(&found, &expected, 1e-4);
            }
        }
    }

    #[test]
    fn packed_chains_do_not_see_each_other() {
        let decoder = Decoder::load(&golden("llama")).unwrap();
        let chains: Vec<_> = encoded("llama").into_iter().take(12).collect();
        let ids: Vec<u32> = chains.iter().flat_map(|(ids, _, _)| ids.clone()).collect();
        let lengths: Vec<usize> = chains.iter().map(|(ids, _, _)| ids.len()).collect();
        let together = decoder.hidden(&ids, &lengths).unwrap();
        let output = Output::new(decoder.weights.output().clone());
        let mut start = 0;
        for (ids, first, _) in &chains {
            let alone = decoder.hidden(ids, &[ids.len()]).unwrap();
            let alone = output.score(&alone, &targets(ids, first, 0)).unwrap();
            let packed = output.score(&together, &targets(ids, first, start)).unwrap();
            assert_close(&packed, &alone, 1e-5);
            start += ids.len();
        }
    }
}
