//! A fast path for byte-level tokenizers that split like Qwen2 or Llama 3, with the tokens of the tokenizers crate.
//!
//! The crate runs a regular expression, copies each piece, and allocates a string per token. Here hand-written code
//! splits the text, and a cache maps short pieces to tokens. Other pieces go to the crate's model. A whole text goes to
//! the crate if NFC might change it, or if it has an added token that needs more than a plain search. [`ByteLevel::of`]
//! lists the requirements on a tokenizer.json.

pub(crate) mod split;
mod words;

use std::cell::RefCell;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;
use thread_local::ThreadLocal;
use tokenizers::{AddedToken, Model, Result, Tokenizer};
use unicode_normalization_alignments::{IsNormalized, is_nfc_quick};

use split::Splitter;
use words::{ShortPiece, Words};

pub(crate) struct ByteLevel {
    splitter: Splitter,
    nfc: bool,
    finder: AhoCorasick,
    /// Ids of added tokens; None for a token that needs more than a search for its content.
    added: Vec<Option<u32>>,
    alphabet: [char; 256],
    lengths: Vec<u32>,
    /// The ids before and after those of a text if special tokens are added.
    pub around: [Vec<u32>; 2],
    words: ThreadLocal<RefCell<Words>>,
}

impl ByteLevel {
    /// Returns the fast path for a tokenizer read from `json`; None unless all of these hold:
    /// - it normalizes texts to NFC or not at all,
    /// - it splits by an expression that [`Splitter`] supports, and then maps bytes to characters,
    /// - it is a deterministic BPE in which every byte has a token,
    /// - it adds the same tokens around every text, and does not change offsets.
    pub(crate) fn of(json: &Value, tokenizer: &Tokenizer) -> Option<Self> {
        let nfc = json["normalizer"]["type"] == "NFC";
        if !(nfc || json["normalizer"].is_null()) || !is_plain_bpe(&json["model"]) {
            return None;
        }
        let splitter = splitter(&json["pre_tokenizer"])?;
        let vocabulary = tokenizer.get_vocab(false);
        let alphabet = alphabet();
        if !alphabet.iter().all(|byte| vocabulary.contains_key(byte.encode_utf8(&mut [0; 4]) as &str)) {
            return None;
        }
        let (ids, tokens): (Vec<u32>, Vec<AddedToken>) = tokenizer.get_added_tokens_decoder().into_iter().unzip();
        let lengths = lengths(&vocabulary, ids.iter().copied().zip(&tokens))?;
        let is_simple = |token: &AddedToken| !(token.normalized || token.lstrip || token.rstrip || token.single_word);
        let added = ids.iter().zip(&tokens).map(|(id, token)| is_simple(token).then_some(*id)).collect();
        let contents = tokens.iter().map(|token| &token.content);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(contents).ok()?;
        Some(Self {
            splitter,
            nfc,
            finder,
            added,
            alphabet,
            lengths,
            around: around(json, tokenizer)?,
            words: ThreadLocal::new(),
        })
    }

    /// Returns the ids of a text's tokens; None for a text that the tokenizers crate must encode.
    pub(crate) fn encode(&self, model: &impl Model, text: &str) -> Result<Option<Vec<u32>>> {
        if self.nfc && !text.is_ascii() && is_nfc_quick(text.chars()) != IsNormalized::Yes {
            return Ok(None);
        }
        let mut words = self.words.get_or_default().borrow_mut();
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut from = 0;
        for found in self.finder.find_iter(text) {
            let Some(id) = self.added[found.pattern().as_usize()] else { return Ok(None) };
            self.encode_part(model, &text[from..found.start()], &mut words, &mut ids)?;
            ids.push(id);
            from = found.end();
        }
        self.encode_part(model, &text[from..], &mut words, &mut ids)?;
        Ok(Some(ids))
    }

    /// Appends the ids of a part of a text without added tokens to `ids`.
    fn encode_part(&self, model: &impl Model, text: &str, words: &mut Words, ids: &mut Vec<u32>) -> Result<()> {
        for piece in self.splitter.pieces(text) {
            let key = ShortPiece::of(text.as_bytes(), piece.clone());
            if key.is_some_and(|key| words.find(key, ids)) {
                continue;
            }
            let written: String = text[piece].bytes().map(|byte| self.alphabet[byte as usize]).collect();
            let before = ids.len();
            ids.extend(model.tokenize(&written)?.iter().map(|token| token.id));
            if let Some(key) = key {
                words.remember(key, &ids[before..]);
            }
        }
        Ok(())
    }

    /// The byte range of each token. A token that covers a part of a character covers all of it.
    pub(crate) fn offsets(&self, text: &str, ids: &[u32]) -> impl Iterator<Item = (u32, u32)> {
        let mut end = 0;
        ids.iter().map(move |id| {
            let start = end;
            end += self.lengths[*id as usize];
            let (from, to) = (text.floor_char_boundary(start as usize), text.ceil_char_boundary(end as usize));
            (from as u32, to as u32)
        })
    }
}

/// Whether a model is plain, deterministic BPE.
pub(crate) fn is_plain_bpe(model: &Value) -> bool {
    let unset = |key: &str| model[key].is_null() || model[key] == "" || model[key] == 0.0;
    model["type"] == "BPE" && ["dropout", "continuing_subword_prefix", "end_of_word_suffix"].into_iter().all(unset)
}

fn splitter(json: &Value) -> Option<Splitter> {
    let [split, bytes] = json["pretokenizers"].as_array()?.as_slice() else { return None };
    let is_known = json["type"] == "Sequence"
        && split["type"] == "Split"
        && split["behavior"] == "Isolated"
        && split["invert"] == false
        && bytes["type"] == "ByteLevel"
        && bytes["add_prefix_space"] == false
        && bytes["use_regex"] == false;
    is_known.then(|| Splitter::of(split["pattern"]["Regex"].as_str()?)).flatten()
}

/// The byte length of each token, by id; None if a token has two different lengths.
fn lengths<'a>(
    vocabulary: &HashMap<String, u32>,
    added: impl Iterator<Item = (u32, &'a AddedToken)>,
) -> Option<Vec<u32>> {
    // In the vocabulary each byte is one character.
    let known = vocabulary.iter().map(|(token, id)| (*id, token.chars().count()));
    let mut lengths = vec![];
    for (id, length) in known.chain(added.map(|(id, token)| (id, token.content.len()))) {
        let (id, length) = (id as usize, u32::try_from(length).ok()?);
        lengths.resize(lengths.len().max(id + 1), 0);
        if lengths[id] != 0 && lengths[id] != length {
            return None;
        }
        lengths[id] = length;
    }
    Some(lengths)
}

/// What a tokenizer adds before and after a text, determined from an example.
fn around(json: &Value, tokenizer: &Tokenizer) -> Option<[Vec<u32>; 2]> {
    if !leaves_offsets(&json["post_processor"]) {
        return None;
    }
    let own = tokenizer.encode("0", false).ok()?;
    let all = tokenizer.encode("0", true).ok()?;
    let start = all.get_offsets().iter().position(|(from, to)| from < to)?;
    let (before, rest) = all.get_ids().split_at(start);
    Some([before.to_vec(), rest.strip_prefix(own.get_ids())?.to_vec()])
}

fn leaves_offsets(processor: &Value) -> bool {
    match processor["type"].as_str() {
        Some("ByteLevel") => processor["trim_offsets"] == false,
        Some("Sequence") => processor["processors"].as_array().is_some_and(|all| all.iter().all(leaves_offsets)),
        Some(kind) => kind == "TemplateProcessing",
        None => processor.is_null(),
    }
}

/// The characters for bytes in byte-level vocabularies: Latin-1 where it is printable, otherwise U+0100 and up.
fn alphabet() -> [char; 256] {
    let mut rest = '\u{100}'..;
    std::array::from_fn(|byte| match byte as u8 {
        shown @ (b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) => char::from(shown),
        _ => rest.next().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{cases, golden_tokenizer, gpt2};

    fn is_known(json: &Value) -> bool {
        let tokenizer: Tokenizer = json.to_string().parse().unwrap();
        ByteLevel::of(json, &tokenizer).is_some()
    }

    #[test]
    fn only_tokenizers_of_known_parts_are_known() {
        assert!(is_known(&golden_tokenizer("qwen2")) && is_known(&golden_tokenizer("llama")) && !is_known(&gpt2()));
        // A place in the tokenizer.json of Qwen2, its new value, and whether the changed file is known.
        for (place, value, expected) in cases::<(String, Value, bool)>("tokenizers.jsonl") {
            let mut json = golden_tokenizer("qwen2");
            *json.pointer_mut(&place).unwrap() = value;
            assert_eq!(is_known(&json), expected, "{place}");
        }
    }

    #[test]
    fn every_byte_must_have_a_token_and_every_token_one_length() {
        let mut no_byte = golden_tokenizer("qwen2");
        let id = no_byte["model"]["vocab"].as_object_mut().unwrap().remove("Ā").unwrap();
        assert!(!is_known(&no_byte));
        no_byte["model"]["vocab"]["ĀĀ"] = id.clone();
        no_byte["model"]["vocab"]["Ā"] = id;
        assert!(!is_known(&no_byte));
    }

    #[test]
    fn texts_that_it_cannot_encode_go_to_the_tokenizers_crate() {
        let mut json = golden_tokenizer("qwen2");
        json["added_tokens"][1]["lstrip"] = json!(true);
        let tokenizer: Tokenizer = json.to_string().parse().unwrap();
        let byte_level = ByteLevel::of(&json, &tokenizer).unwrap();
        let is_encoded = |text: &str| byte_level.encode(tokenizer.get_model(), text).unwrap().is_some();
        assert!(is_encoded("Größe: 所以\u{a0}<|im_end|> <|im_"));
        assert!(!is_encoded("e\u{301}") && !is_encoded("a <|im_start|>"));
    }
}
