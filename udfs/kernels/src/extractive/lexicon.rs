//! The words of one row as numbers, with what they weigh.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::words::{Form, Token, is_unspaced};

/// The words of one row, each known by a number from 0 upwards: case is folded, a value is the same however its
/// thousands and its fraction are written, and a word of code is another than the same word of prose. Words are told
/// apart by 64 bits of hash.
#[derive(Debug, Default)]
pub struct Lexicon {
    ids: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    words: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    form: Form,
    weight: f64,
    /// The name itself where the word is one setting of it.
    name: u32,
}

impl Lexicon {
    /// The number of a word, a new one if it was not met before.
    pub fn intern(&mut self, text: &str, token: &Token) -> u32 {
        let word = &text[token.span.clone()];
        let hash = match token.form {
            Form::Value => hash_value(word),
            Form::Code => fnv(hash_word(word), b'`'),
            Form::Name | Form::Word => hash_word(word),
        };
        let words = &mut self.words;
        *self.ids.entry(hash).or_insert_with(|| {
            let name = words.len() as u32;
            words.push(Entry { form: token.form, weight: weight(token.form, word), name });
            name
        })
    }

    /// The number of a name as one statement sets it, told apart by the statement's hash. A name that is set weighs
    /// most.
    pub fn set(&mut self, name: u32, statement: u64) -> u32 {
        self.words[name as usize].weight = 1.0;
        let words = &mut self.words;
        *self.ids.entry(hash_word_in(statement, name)).or_insert_with(|| {
            words.push(Entry { form: Form::Name, weight: 1.0, name });
            words.len() as u32 - 1
        })
    }

    /// How many words were met.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// The name of which a word is one setting, else the word itself.
    pub fn name(&self, word: u32) -> u32 {
        self.words[word as usize].name
    }

    /// Whether a word is one of many by its form: no value, no name and not set by code.
    pub fn is_common(&self, word: u32) -> bool {
        let entry = &self.words[word as usize];
        matches!(entry.form, Form::Code | Form::Word) && entry.weight < 1.0
    }

    /// Whether a word is a value.
    pub fn is_value(&self, word: u32) -> bool {
        self.words[word as usize].form == Form::Value
    }

    /// What a word tells by its form and length alone, from 0 to 1.
    pub fn weight(&self, word: u32) -> f64 {
        self.words[word as usize].weight
    }
}

/// Long words and values are rare in any language, short ones stand everywhere.
fn weight(form: Form, word: &str) -> f64 {
    match form {
        Form::Value => match word.len() {
            1 => 0.3,
            2 => 0.8,
            _ => 1.0,
        },
        Form::Name if word.bytes().all(|byte| byte == b'_') => 0.0,
        Form::Name => 1.0,
        Form::Code | Form::Word if word.chars().next().is_some_and(is_unspaced) => 0.25,
        Form::Code | Form::Word => ((word.chars().count() as f64 - 1.0) / 12.0).min(0.5),
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
}

/// The hash of a text apart from white space.
pub fn hash_statement(statement: &str) -> u64 {
    statement.bytes().filter(|byte| !byte.is_ascii_whitespace()).fold(FNV_OFFSET, fnv)
}

/// The hash of what came before and a word.
pub fn hash_word_in(before: u64, word: u32) -> u64 {
    word.to_le_bytes().into_iter().fold(before, fnv)
}

fn hash_word(word: &str) -> u64 {
    if word.is_ascii() {
        return word.bytes().fold(FNV_OFFSET, |hash, byte| fnv(hash, byte.to_ascii_lowercase()));
    }
    let mut utf8 = [0; 4];
    word.chars()
        .flat_map(char::to_lowercase)
        .fold(FNV_OFFSET, |hash, scalar| scalar.encode_utf8(&mut utf8).bytes().fold(hash, fnv))
}

fn hash_value(value: &str) -> u64 {
    let written = if value.contains('.') { value.trim_end_matches('0').trim_end_matches('.') } else { value };
    written.bytes().filter(|byte| *byte != b',').fold(FNV_OFFSET, fnv)
}

/// Passes a hash on as it is.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        // FNV leaves little in the high bits of short words, which the table looks at.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| fnv(hash, *byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::tokens;
    use super::*;

    fn are_the_same(a: &str, b: &str) -> bool {
        let mut lexicon = Lexicon::default();
        let mut ids = |text| tokens(text).map(|token| lexicon.intern(text, &token)).collect::<Vec<_>>();
        ids(a) == ids(b)
    }

    #[test]
    fn a_word_is_the_same_however_it_is_written() {
        assert!(are_the_same("2,162,160 Größe 3.50", "2162160 GRÖßE 3.5"));
        assert!(are_the_same("ÉTÉ", "été") && are_the_same("4.0", "4"));
        assert!(!are_the_same("40", "4") && !are_the_same("3.05", "3.5") && !are_the_same("row", "rows"));
        assert!(!are_the_same("left", "`left`") && are_the_same("row_1", "`row_1`"));
    }

    #[test]
    fn every_statement_that_sets_a_name_makes_a_word_of_it() {
        let mut lexicon = Lexicon::default();
        let mut ids =
            tokens("`sum row`").map(|token| lexicon.intern("`sum row`", &token)).collect::<Vec<_>>().into_iter();
        let (sum, row) = (ids.next().unwrap(), ids.next().unwrap());
        assert!(lexicon.is_common(sum) && lexicon.is_common(row));
        let set = lexicon.set(sum, hash_statement("sum = 1"));
        assert_eq!(lexicon.set(sum, hash_statement("sum  =1 ")), set);
        assert_ne!(lexicon.set(sum, hash_statement("sum = 2")), set);
        assert_ne!(lexicon.set(row, hash_statement("sum = 1")), set);
        assert_eq!((lexicon.name(set), lexicon.name(sum), lexicon.count()), (sum, sum, 5));
        assert!(!lexicon.is_common(sum) && !lexicon.is_common(set));
    }
}
