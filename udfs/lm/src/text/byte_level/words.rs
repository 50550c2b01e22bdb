//! A cache of the tokens of short pieces.

use std::ops::Range;

/// Number of cached pieces, a power of two. They take less than a megabyte, which fits a core's own cache.
const SLOTS: usize = 1 << 14;
const LONGEST: usize = 16;
const MOST: usize = 7;

/// A direct-mapped cache: a piece's bytes select its slot, and the latest piece replaces the previous one.
pub(super) struct Words {
    slots: Box<[Word]>,
}

#[derive(Clone, Copy, Default)]
struct Word {
    key: ShortPiece,
    tokens: [u32; MOST],
    count: u8,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShortPiece {
    bytes: [u64; 2],
    length: u8,
}

impl ShortPiece {
    /// The key of a piece of `text`; None if it is empty or too long.
    #[inline]
    pub(crate) fn of(text: &[u8], piece: Range<usize>) -> Option<Self> {
        let length = piece.len();
        if length == 0 || length > LONGEST {
            return None;
        }
        // A copy of constant size is one load; bytes after the piece are masked.
        let bytes = match text[piece.start..].first_chunk::<LONGEST>() {
            Some(bytes) => u128::from_le_bytes(*bytes) & (u128::MAX >> (8 * (LONGEST - length))),
            None => {
                let mut bytes = [0; LONGEST];
                bytes[..length].copy_from_slice(&text[piece]);
                u128::from_le_bytes(bytes)
            }
        };
        Some(Self { bytes: [bytes as u64, (bytes >> 64) as u64], length: length as u8 })
    }

    #[inline]
    fn slot(self) -> usize {
        let [low, high] = self.bytes;
        let folded = low ^ high.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (folded ^ (folded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> (u64::BITS - SLOTS.trailing_zeros())) as usize
    }
}

impl Default for Words {
    fn default() -> Self {
        Self { slots: vec![Word::default(); SLOTS].into_boxed_slice() }
    }
}

impl Words {
    /// Appends the tokens of a piece to `ids`; returns false if it is not cached.
    #[inline]
    pub(super) fn find(&self, key: ShortPiece, ids: &mut Vec<u32>) -> bool {
        let word = &self.slots[key.slot()];
        let is_known = word.key == key;
        if is_known {
            // A copy of constant size is faster than one of the exact size.
            let length = ids.len() + word.count as usize;
            ids.extend_from_slice(&word.tokens);
            ids.truncate(length);
        }
        is_known
    }

    pub(super) fn remember(&mut self, key: ShortPiece, tokens: &[u32]) {
        if tokens.len() <= MOST {
            let word = &mut self.slots[key.slot()];
            word.key = key;
            word.count = tokens.len() as u8;
            word.tokens[..tokens.len()].copy_from_slice(tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_its_own_tokens_or_none() {
        let texts: Vec<String> = (0..100_000).map(|n| format!("word {n}")).collect();
        let mut words = Words::default();
        let key = |text: &str| ShortPiece::of(text.as_bytes(), 0..text.len()).unwrap();
        let tokens = |n: usize| vec![n as u32; n % MOST + 1];
        for (n, text) in texts.iter().enumerate() {
            words.remember(key(text), &tokens(n));
        }
        let mut found = vec![];
        for (n, text) in texts.iter().enumerate() {
            let mut ids = vec![];
            if words.find(key(text), &mut ids) {
                assert_eq!(ids, tokens(n));
                found.push(n);
            }
        }
        assert_eq!(found.last(), Some(&99_999), "the last one stays");
        assert!((SLOTS / 2..=SLOTS).contains(&found.len()), "{} of {SLOTS} slots are taken", found.len());
    }

    #[test]
    fn a_key_is_the_piece_and_nothing_around_it() {
        let text = b"so it is, so it is";
        assert!(
            ShortPiece::of(text, 0..5) == ShortPiece::of(text, 10..15),
            "one has enough text after it, one has not"
        );
        assert!(ShortPiece::of(b"a\0", 0..1) != ShortPiece::of(b"a\0", 0..2));
        assert!(ShortPiece::of(text, 0..16).is_some() && ShortPiece::of(text, 0..17).is_none());
        let mut words = Words::default();
        let key = ShortPiece::of(text, 0..5).unwrap();
        assert!(!words.find(key, &mut vec![]));
        words.remember(key, &[1; MOST + 1]);
        assert!(!words.find(key, &mut vec![]), "too many tokens are not remembered");
    }
}
