//! The encoder of [`Compressor`](super::Compressor): XLM-RoBERTa or BERT with a head for two labels per token.

use std::path::Path;

use candle_core::{DType, Tensor};

use crate::model::config::{EncoderConfig, EncoderFamily};
use crate::model::weights::Files;
use crate::ops::{
    self, Arithmetic, Cores, F32Matrix, Heads, Linear, Pool, Sees, Sequence, Softmax, Update, Weight, on_all_cores,
};
use crate::{LmError, Result};

use super::{Keeps, Placed};

const KEEP: usize = 1;

/// Tensors that are not needed here: position numbers, and a layer that classifies whole texts.
const UNUSED: [&str; 3] = ["embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"];

#[derive(Debug)]
pub(super) struct Encoder {
    config: EncoderConfig,
    words: Tensor,
    /// Mean of the rows of `words`, for tokens that were added to the tokenizer but not to the model.
    mean_word: Vec<f32>,
    positions: Tensor,
    types: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
    classifier: Linear<F32Matrix>,
    rooms: Pool<Room>,
    softmax: Pool<Softmax>,
}

#[derive(Debug)]
struct Layer {
    qkv: [Linear<F32Matrix>; 3],
    gathered: Linear<F32Matrix>,
    gathered_norm: Norm,
    wide: Linear<F32Matrix>,
    narrow: Linear<F32Matrix>,
    narrow_norm: Norm,
}

/// Weight and bias.
type Norm = [Tensor; 2];

#[derive(Debug, Default)]
struct Room {
    x: Vec<f32>,
    qkv: [Vec<f32>; 3],
    gathered: Vec<f32>,
    wide: Vec<f32>,
    log_sums: Vec<f32>,
}

struct Named(Files);

impl Named {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.0.read(name, shape, DType::F32)
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear<F32Matrix>> {
        let weight = F32Matrix::new(self.tensor(&format!("{name}.weight"), &[outputs, inputs])?)?;
        Ok(Linear { weight, bias: Some(self.tensor(&format!("{name}.bias"), &[outputs])?) })
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        Ok([self.tensor(&format!("{name}.weight"), &[width])?, self.tensor(&format!("{name}.bias"), &[width])?])
    }

    fn layer(&self, prefix: &str, config: &EncoderConfig) -> Result<Layer> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let own = |name: &str| self.linear(&format!("{prefix}.attention.self.{name}"), hidden, hidden);
        Ok(Layer {
            qkv: [own("query")?, own("key")?, own("value")?],
            gathered: self.linear(&format!("{prefix}.attention.output.dense"), hidden, hidden)?,
            gathered_norm: self.norm(&format!("{prefix}.attention.output.LayerNorm"), hidden)?,
            wide: self.linear(&format!("{prefix}.intermediate.dense"), wide, hidden)?,
            narrow: self.linear(&format!("{prefix}.output.dense"), hidden, wide)?,
            narrow_norm: self.norm(&format!("{prefix}.output.LayerNorm"), hidden)?,
        })
    }
}

impl Encoder {
    pub(super) fn load(folder: &Path, config: EncoderConfig) -> Result<Self> {
        let base = match config.family {
            EncoderFamily::XlmRoberta => "roberta",
            EncoderFamily::Bert => "bert",
        };
        let named = Named(Files::open(folder)?);
        let hidden = config.hidden_size;
        let table = |name, rows| named.tensor(&format!("{base}.embeddings.{name}.weight"), &[rows, hidden]);
        let words = table("word_embeddings", config.vocab_size)?;
        let positions = table("position_embeddings", config.max_position_embeddings)?;
        let types = table("token_type_embeddings", config.type_vocab_size)?;
        let norm = named.norm(&format!("{base}.embeddings.LayerNorm"), hidden)?;
        let layer = |layer| named.layer(&format!("{base}.encoder.layer.{layer}"), &config);
        let layers = (0..config.num_hidden_layers).map(layer).collect::<Result<_>>()?;
        let classifier = named.linear("classifier", 2, hidden)?;
        named.0.refuse_unread(&UNUSED, &format!("{:?} classifier", config.family))?;
        let mean_word = words.mean(0)?.to_vec1()?;
        let (rooms, softmax) = (Pool::default(), Pool::default());
        Ok(Self { config, words, mean_word, positions, types, norm, layers, classifier, rooms, softmax })
    }

    /// Returns the probability of each token to be kept. Runs on the calling thread, or products run on all cores.
    pub(super) fn keep_chunk(&self, tokens: &[Placed], cores: Cores) -> Result<Vec<f32>> {
        self.rooms.with(|room| {
            self.embed(tokens, &mut room.x)?;
            self.layers.iter().try_for_each(|layer| self.pass(layer, room, cores))?;
            let mut logits = vec![0.0; 2 * tokens.len()];
            self.classifier.multiply(&room.x, &mut logits, Update::Replace, cores)?;
            let keep: Vec<f32> = logits.as_chunks().0.iter().map(softmax_of_keep).collect();
            let why = "the encoder produced NaN or infinite values: expected a trained model with finite weights";
            match keep.iter().all(|keep| keep.is_finite()) {
                true => Ok(keep),
                false => Err(LmError::Compression(why.to_string())),
            }
        })
    }

    fn embed(&self, tokens: &[Placed], x: &mut Vec<f32>) -> Result<()> {
        let hidden = self.config.hidden_size;
        x.clear();
        ops::read([&self.words, &self.positions, &self.types], |[words, positions, types]| {
            for Placed { id, position } in tokens {
                let word = words.chunks_exact(hidden).nth(*id as usize).unwrap_or(&self.mean_word);
                let position = &positions[position * hidden..][..hidden];
                x.extend(
                    word.iter().zip(types).zip(position).map(|((word, of_type), position)| word + of_type + position),
                );
            }
        })?;
        self.norm(&self.norm, x)
    }

    fn pass(&self, layer: &Layer, room: &mut Room, cores: Cores) -> Result<()> {
        let EncoderConfig { hidden_size: hidden, intermediate_size, num_attention_heads: heads, .. } = self.config;
        let Room { x, qkv, gathered, wide, log_sums } = room;
        let chain = [Sequence { earlier: 0, tokens: x.len() / hidden }];
        let log_sums = ops::at_least(log_sums, chain[0].tokens * heads);
        let heads = Heads { query: heads, key: heads, width: hidden / heads };
        let mut qkv = qkv.each_mut().map(|to| ops::at_least(to, x.len()));
        let gathered = ops::at_least(gathered, x.len());
        let wide = ops::at_least(wide, chain[0].tokens * intermediate_size);
        for (linear, to) in layer.qkv.iter().zip(&mut qkv) {
            linear.multiply(x, to, Update::Replace, cores)?;
        }
        let qkv = qkv.map(|x| &*x);
        let how = (cores, Arithmetic::Widened);
        ops::attend(qkv, heads, (&chain, Sees::All), how, &self.softmax, [gathered, log_sums])?;
        layer.gathered.multiply(gathered, x, Update::Add, cores)?;
        self.norm(&layer.gathered_norm, x)?;

        layer.wide.multiply(x, wide, Update::Replace, cores)?;
        ops::gelu_rows(wide);
        layer.narrow.multiply(wide, x, Update::Add, cores)?;
        self.norm(&layer.narrow_norm, x)
    }

    fn norm(&self, norm: &Norm, rows: &mut [f32]) -> Result<()> {
        let epsilon = self.config.layer_norm_eps;
        Ok(ops::read(norm.each_ref(), |[weight, bias]| ops::layer_norm_rows(rows, weight, bias, epsilon))?)
    }
}

/// Computes one chunk per core, or one chunk on all cores if there are fewer chunks than cores.
impl Keeps for Encoder {
    fn keep(&self, chunks: &[Vec<Placed>]) -> Result<Vec<Vec<f32>>> {
        let cores = if chunks.len() < rayon::current_num_threads() { Cores::All } else { Cores::One };
        on_all_cores(chunks.iter().collect(), |chunk| self.keep_chunk(chunk, cores))
    }
}

fn softmax_of_keep(logits: &[f32; 2]) -> f32 {
    let highest = logits[0].max(logits[1]);
    let weights = logits.map(|logit| (logit - highest).exp());
    weights[KEEP] / (weights[0] + weights[1])
}
