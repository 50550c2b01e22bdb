//! Examples in one run of tokens.

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
