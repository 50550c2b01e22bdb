//! Places to cut a text so that its parts have the same tokens as within the whole.
//!
//! *Byte-level tokenizers that first split by a known expression* (GPT-2, Qwen2, Qwen3, Llama 3, Mistral's Tekken): a
//! cut is after a letter or digit and before a character that is neither, or at the end of a text. In these
//! expressions, a piece with a letter or digit ends where its run of letters or digits ends, so a cut is always a
//! boundary of pieces. Pieces are matched from left to right without lookbehind. The part before a cut does not depend
//! on the part after it, since no lookahead for white space ends in a letter or digit. Tokens do not cross pieces. Cuts
//! are only made between characters that NFC never changes or composes.
//!
//! *SentencePiece BPE of Llama 2 and Mistral* (a space is `▁`, merges run over the whole text): a merge creates a token
//! of the vocabulary, so nothing crosses a cut if no token has both of its sides. Here a cut is between an ASCII letter
//! or digit and a space or line end.
//!
//! Other tokenizers have no cuts: a changed text is tokenized again as a whole.

use serde_json::Value;
use tokenizers::AddedToken;

use crate::text::byte_level::is_plain_bpe;
use crate::text::byte_level::split::{LLAMA3, QWEN2, TEKKEN};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cuts {
    ByteLevel,
    SentencePiece,
    Unknown,
}

impl Cuts {
    pub(crate) fn of<'a>(json: &Value, added: impl IntoIterator<Item = &'a AddedToken>) -> Self {
        let cuts = if is_byte_level(json) {
            Self::ByteLevel
        } else if is_sentence_piece(json) {
            Self::SentencePiece
        } else {
            return Self::Unknown;
        };
        // Such tokens may match in a joined text but not in a part of it, or the reverse.
        let depends_on_context = |token: &AddedToken| {
            token.single_word || token.content.contains('\n') || (token.normalized && cuts == Self::SentencePiece)
        };
        if added.into_iter().any(depends_on_context) { Self::Unknown } else { cuts }
    }

    /// The first cut of a step, assuming that a line end or the end of the text follows the step.
    pub(crate) fn first(self, step: &str) -> Option<usize> {
        self.places(step).next()
    }

    /// The last cut of a step, under the same assumption.
    pub(crate) fn last(self, step: &str) -> Option<usize> {
        self.places(step).next_back()
    }

    /// The context to prepend to a text that starts at a cut, for counting. SentencePiece treats the start of a text
    /// specially, so the context is the letter or digit before the cut.
    pub(crate) fn context(self, step: &str, cut: usize) -> &str {
        if self == Self::SentencePiece { &step[cut - 1..cut] } else { "" }
    }

    fn places(self, step: &str) -> impl DoubleEndedIterator<Item = usize> {
        let ends = step.char_indices().map(|(start, scalar)| (start + scalar.len_utf8(), scalar));
        ends.filter(move |(end, scalar)| self.is_cut(*scalar, step[*end..].chars().next())).map(|(end, _)| end)
    }

    fn is_cut(self, before: char, after: Option<char>) -> bool {
        match self {
            Self::ByteLevel => is_stable_letter(before) && after.is_none_or(is_stable_other),
            Self::SentencePiece => {
                before.is_ascii_alphanumeric() && after.is_none_or(|after| matches!(after, ' ' | '\n'))
            }
            Self::Unknown => false,
        }
    }
}

fn is_stable_letter(scalar: char) -> bool {
    match scalar {
        '\u{d7}' | '\u{f7}' => false,
        '\u{c0}'..='\u{24f}' => true,                              // Latin
        '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}' => true,     // Cyrillic
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' => true, // kana
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' => true, // ideographs
        '\u{ac00}'..='\u{d7a3}' => true,                           // Hangul
        _ => scalar.is_ascii_alphanumeric(),
    }
}

/// Characters that are neither letter nor digit, and that NFC neither changes nor composes with a preceding one.
fn is_stable_other(scalar: char) -> bool {
    match scalar {
        '\u{2010}'..='\u{2027}' => true,                           // dashes, quotation marks
        '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' => true, // CJK punctuation
        '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' => true, // its wide forms
        _ => scalar.is_ascii() && !scalar.is_ascii_alphanumeric(),
    }
}

fn is_byte_level(json: &Value) -> bool {
    let normalizer = &json["normalizer"];
    let splitters = match json["pre_tokenizer"]["type"].as_str() {
        Some("Sequence") => json["pre_tokenizer"]["pretokenizers"].as_array().cloned().unwrap_or_default(),
        _ => vec![json["pre_tokenizer"].clone()],
    };
    (normalizer.is_null() || normalizer["type"] == "NFC")
        && is_plain_bpe(&json["model"])
        && splitters.iter().all(|splitter| splits_at_cuts(splitter) || leaves_cuts_alone(splitter))
        && splitters.iter().any(splits_at_cuts)
}

fn splits_at_cuts(splitter: &Value) -> bool {
    match splitter["type"].as_str() {
        Some("ByteLevel") => splitter["add_prefix_space"] == false && splitter["use_regex"] != false,
        Some("Split") => {
            let pattern = splitter["pattern"]["Regex"].as_str().unwrap_or_default();
            [QWEN2, LLAMA3, TEKKEN].contains(&pattern)
                && splitter["behavior"] == "Isolated"
                && splitter["invert"] == false
        }
        _ => false,
    }
}

fn leaves_cuts_alone(splitter: &Value) -> bool {
    match splitter["type"].as_str() {
        Some("ByteLevel") => splitter["add_prefix_space"] == false && splitter["use_regex"] == false,
        Some("Digits") => true,
        _ => false,
    }
}

fn is_sentence_piece(json: &Value) -> bool {
    let model = &json["model"];
    let Some(vocabulary) = model["vocab"].as_object() else { return false };
    let by_normalizer = json["pre_tokenizer"].is_null()
        && json["normalizer"]["type"] == "Sequence"
        && json["normalizer"]["normalizers"].as_array().is_some_and(|all| all.iter().all(marks_spaces));
    let by_splitter = json["normalizer"].is_null()
        && json["pre_tokenizer"]["type"] == "Metaspace"
        && json["pre_tokenizer"]["replacement"] == "▁";
    (by_normalizer || by_splitter)
        && is_plain_bpe(model)
        && (b'0'..=b'z').filter(u8::is_ascii_alphanumeric).all(|b| vocabulary.contains_key(&char::from(b).to_string()))
        && !vocabulary.keys().any(|token| crosses_a_cut(token))
}

fn marks_spaces(normalizer: &Value) -> bool {
    match normalizer["type"].as_str() {
        Some("Prepend") => normalizer["prepend"] == "▁",
        Some("Replace") => normalizer["pattern"]["String"] == " " && normalizer["content"] == "▁",
        _ => false,
    }
}

/// Whether a token of a SentencePiece vocabulary has a letter or digit followed by a space or line end.
fn crosses_a_cut(token: &str) -> bool {
    ["▁", " ", "\n", "<0x0A>"].iter().any(|follower| {
        token.match_indices(follower).any(|(at, _)| token[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
    })
}

#[cfg(test)]
mod tests {
    use tokenizers::NormalizedString;

    use super::*;

    fn nfc(text: &str) -> String {
        let mut text = NormalizedString::from(text);
        text.nfc();
        text.get().to_string()
    }

    #[test]
    fn stable_characters_are_what_they_are_said_to_be() {
        let letter_or_digit = regex::Regex::new(r"^[\p{L}\p{N}]$").unwrap();
        let all = || '\0'..=char::MAX;
        for scalar in all().filter(|scalar| is_stable_letter(*scalar)) {
            assert!(letter_or_digit.is_match(&scalar.to_string()), "{scalar:?}");
            assert_eq!(nfc(&scalar.to_string()), scalar.to_string());
        }
        let letters: String = all().filter(|scalar| is_stable_letter(*scalar)).collect();
        for scalar in all().filter(|scalar| is_stable_other(*scalar)) {
            assert!(!letter_or_digit.is_match(&scalar.to_string()), "{scalar:?}");
            let interleaved: String = letters.chars().flat_map(|letter| [letter, scalar]).collect();
            assert_eq!(nfc(&interleaved), interleaved, "{scalar:?} composes");
        }
    }

    #[test]
    fn cuts_stand_after_letters() {
        assert_eq!(Cuts::ByteLevel.first("(ab, c) 12."), Some(3));
        assert_eq!(Cuts::ByteLevel.last("(ab, c) 12."), Some(10));
        assert_eq!(Cuts::ByteLevel.last("ab"), Some(2));
        assert_eq!(Cuts::ByteLevel.first("所以，对"), Some(6));
        assert_eq!(Cuts::ByteLevel.first("...e\u{301}"), None);
        assert_eq!(Cuts::SentencePiece.first("ab, c d"), Some(5));
        assert_eq!(Cuts::Unknown.first("ab c"), None);
    }
}
