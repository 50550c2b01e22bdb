//! Trains a tokenizer: byte-level BPE, as in Qwen2 and GPT-2.

use std::path::Path;

use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior};

use crate::text::byte_level::split::QWEN2;
use crate::{LmError, Result};

const SPECIAL: [&str; 3] = [SEPARATOR, START, END];
/// Separates texts.
pub const SEPARATOR: &str = "<|endoftext|>";
/// Begins a turn.
pub const START: &str = "<|im_start|>";
/// Ends a turn.
pub const END: &str = "<|im_end|>";

/// Learns at most `vocabulary` tokens, including the special ones, and writes `tokenizer.json` to a folder. Returns the
/// number of tokens. The same texts give the same file.
pub fn train_tokenizer(texts: &[&str], vocabulary: usize, folder: &Path) -> Result<usize> {
    let path = folder.join("tokenizer.json");
    let smallest = ByteLevel::alphabet().len() + SPECIAL.len();
    if vocabulary < smallest {
        let found = format!("expected a vocab_size of at least {smallest} in config.json, found {vocabulary}");
        return Err(LmError::unsupported(&path, found));
    }
    let split = Split::new(SplitPattern::Regex(QWEN2.to_string()), SplitDelimiterBehavior::Isolated, false);
    let bytes = ByteLevel::new(false, false, false);
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![split?.into(), bytes.into()])));
    tokenizer.with_decoder(Some(bytes));
    let special = SPECIAL.map(|token| AddedToken::from(token, true).normalized(false));
    let trainer = BpeTrainer::builder()
        .vocab_size(vocabulary)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special.to_vec())
        .build();
    tokenizer.train(&mut TrainerWrapper::from(trainer), texts.iter())?;
    std::fs::write(&path, tokenizer.to_string(true)?).map_err(LmError::writing(&path))?;
    Ok(tokenizer.get_vocab_size(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokenizer;
    use tempfile::TempDir;

    const TEXTS: [&str; 3] =
        ["First, add 17 and 25.\n\nThat gives 42.", "Wait, let me add 17 and 25 again.", "That gives 42 – über 41."];

    #[test]
    fn learns_words_and_keeps_every_byte_or_refuses_a_vocabulary_without_room_for_them() {
        let folder = TempDir::new().unwrap();
        let count = train_tokenizer(&TEXTS, 280, folder.path()).unwrap();
        assert!(count > 259 && count <= 280);
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(tokenizer.count("That gives").unwrap(), 2);
        assert_eq!(tokenizer.count("42").unwrap(), 2, "digits stand alone");
        assert_eq!(tokenizer.encode("<|im_start|>a<|im_end|>", false).unwrap().ids.len(), 3);
        let unseen = "日本 \u{1F600}\t x";
        let encoded = tokenizer.encode(unseen, false).unwrap();
        assert_eq!(encoded.offsets.last().map(|(_, end)| *end), Some(unseen.len() as u32));
        assert!(encoded.ids.iter().all(|id| *id < 280));
        let error = train_tokenizer(&TEXTS, 200, folder.path()).unwrap_err().to_string();
        assert!(error.contains("at least 259 in config.json") && error.contains("200"), "{error}");
    }
}
