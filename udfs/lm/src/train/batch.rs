//! Examples packed into one batch of tokens.

use super::Example;

#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// All tokens except the last of each example, which predicts nothing.
    pub ids: Vec<u32>,
    pub lengths: Vec<usize>,
    /// Positions in `ids` that predict a token to learn.
    pub rows: Vec<u32>,
    /// Tokens to learn, one per position in `rows`.
    pub targets: Vec<u32>,
}

impl Batch {
    pub fn new<'a>(examples: impl IntoIterator<Item = &'a Example>) -> Self {
        let mut batch = Self::default();
        for example in examples {
            let (first, length) = (batch.ids.len(), example.ids.len() - 1);
            batch.rows.extend(example.places().map(|place| (first + place - 1) as u32));
            batch.targets.extend(example.places().map(|place| example.ids[place]));
            batch.ids.extend_from_slice(&example.ids[..length]);
            batch.lengths.push(length);
        }
        batch
    }
}
