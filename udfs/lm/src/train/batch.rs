//! Examples in one run of tokens, their loss and its gradient.

use candle_core::{Device, Tensor};

use super::{gradients, layer, loss};
use crate::decoder::Decoder;
use crate::ops;
use crate::weights::Weights;
use crate::{Result, Tokenizer};

/// A prompt with the response to learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The tokens of prompt and response.
    pub ids: Vec<u32>,
    /// How many of them are the prompt, which is not learned; at least 1 and fewer than all.
    pub prompt: usize,
}

impl Example {
    /// A prompt and its response as tokens of one text, the last of them `end`. What covers the response's first character
    /// is the first token to learn, as in scoring.
    ///
    /// # Errors
    /// If the text cannot be tokenised.
    pub fn encode(tokenizer: &Tokenizer, prompt: &str, response: &str, end: u32) -> Result<Self> {
        let encoded = tokenizer.encode(&format!("{prompt}{response}"), false)?;
        let in_prompt = |(_, to): &&(u32, u32)| *to as usize <= prompt.len();
        let count = encoded.offsets.iter().take_while(in_prompt).count();
        let mut ids = encoded.ids;
        ids.push(end);
        Ok(Self { ids, prompt: count })
    }

    /// The tokens to learn.
    pub fn response(&self) -> &[u32] {
        &self.ids[self.prompt..]
    }
}

/// Examples that follow each other in one run of tokens, without padding.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// All tokens but the last of each example, which predicts nothing.
    pub ids: Vec<u32>,
    /// Tokens of each example in `ids`.
    pub lengths: Vec<usize>,
    /// The places in `ids` from which a token to learn is predicted.
    pub rows: Vec<u32>,
    /// The tokens to learn, one for each of `rows`.
    pub targets: Vec<u32>,
}

impl Batch {
    /// Packs examples.
    pub fn new<'a>(examples: impl IntoIterator<Item = &'a Example>) -> Self {
        let mut batch = Self::default();
        for example in examples {
            let (first, length) = (batch.ids.len(), example.ids.len() - 1);
            batch.rows.extend((first + example.prompt - 1..first + length).map(|row| row as u32));
            batch.ids.extend_from_slice(&example.ids[..length]);
            batch.lengths.push(length);
            batch.targets.extend_from_slice(example.response());
        }
        batch
    }
}

/// The sum of −ln P over the tokens to learn, in nats, and the gradient of `scale` times it by every weight.
///
/// # Errors
/// If a token is not in the model's vocabulary.
pub fn gradient(decoder: &Decoder, batch: &Batch, scale: f32) -> Result<(f64, Weights)> {
    let weights = &decoder.weights;
    let packing = layer::Packing::new(decoder, &batch.lengths);
    let mut x = weights.embed.index_select(&Tensor::new(batch.ids.as_slice(), &Device::Cpu)?, 0)?;
    let mut kept = Vec::with_capacity(weights.layers.len());
    for layer in &weights.layers {
        let (output, for_gradient) = layer::forward(decoder, layer, x, &packing)?;
        kept.push(for_gradient);
        x = output;
    }
    let epsilon = decoder.config.rms_norm_eps;
    let hidden = ops::rms_norm(&x, &weights.norm, epsilon)?;
    let rows = Tensor::new(batch.rows.as_slice(), &Device::Cpu)?;
    let loss = loss::cross_entropy(&hidden.index_select(&rows, 0)?, weights.output(), &batch.targets, scale)?;
    let by_hidden = hidden.zeros_like()?.index_add(&rows, &loss.by_hidden, 0)?;
    let (mut by_x, norm) = gradients::rms_norm(&by_hidden, &x, &weights.norm, epsilon)?;

    let mut layers = Vec::with_capacity(weights.layers.len());
    for (layer, kept) in weights.layers.iter().zip(kept).rev() {
        let (by_input, by_layer) = layer::backward(decoder, layer, &kept, &by_x, &packing)?;
        layers.push(by_layer);
        by_x = by_input;
    }
    layers.reverse();
    let (embed, lm_head) = match weights.lm_head {
        Some(_) => (weights.embed.zeros_like()?, Some(loss.by_output)),
        None => (loss.by_output, None),
    };
    let ids = Tensor::new(batch.ids.as_slice(), &Device::Cpu)?;
    let embed = embed.index_add(&ids, &by_x, 0)?;
    Ok((loss.nats, Weights { embed, layers, norm, lm_head }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    #[test]
    fn the_response_begins_with_the_token_of_its_first_character() {
        let tokenizer = Tokenizer::load(&golden("qwen2")).unwrap();
        let ids = |text: &str| tokenizer.encode(text, false).unwrap().ids;
        let example = Example::encode(&tokenizer, "What is 2 + 2?\n<think>\n", "It is 4.", 5).unwrap();
        assert_eq!(example.ids[..example.prompt], ids("What is 2 + 2?\n<think>\n"));
        assert_eq!(example.response(), [ids("It is 4."), vec![5]].concat());
        // The last space of the prompt is part of the response's first token.
        let example = Example::encode(&tokenizer, "What is the ", "sum", 5).unwrap();
        assert_eq!(example.ids[..example.prompt], ids("What is the"));
    }

    #[test]
    fn rows_predict_their_targets() {
        let examples = [Example { ids: vec![1, 2, 3, 4], prompt: 2 }, Example { ids: vec![5, 6, 7], prompt: 1 }];
        let batch = Batch::new(&examples);
        assert_eq!(batch.ids, [1, 2, 3, 5, 6]);
        assert_eq!(batch.lengths, [3, 2]);
        assert_eq!(batch.rows, [1, 2, 3, 4]);
        assert_eq!(batch.targets, [3, 4, 6, 7]);
    }
}
