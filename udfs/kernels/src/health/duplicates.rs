//! Near-duplicate texts, by MinHash (Broder 1997) and locality-sensitive hashing.

use super::{grams, hash, mixed, pieces};

/// Two texts are near duplicates if at least this share of their sequences of [`SHINGLE`] pieces is common.
pub const SIMILAR: f64 = 0.8;
const SHINGLE: usize = 5;
const HASHES: usize = 64;
/// Texts of which four consecutive hashes are equal are compared: 99.98 % of the pairs with a similarity of 0.8.
const BAND: usize = 4;
/// The least share of equal hashes of texts that are compared exactly. It is four standard deviations below [`SIMILAR`].
const LIKELY: usize = HASHES * 6 / 10;
/// With this many equal hashes, a text needs no other partner.
const SURE: usize = HASHES * 15 / 16;
/// Texts before a text in its bucket that are compared with it. Only templates of synthetic questions fill larger buckets.
const COMPARED: usize = 1000;

/// Least hashes of the shingles of a text.
pub type Signature = [u16; HASHES];

/// The distinct hashes of a text's shingles, in ascending order. A shorter text is one shingle.
pub fn shingles(text: &str) -> Vec<u64> {
    let pieces: Vec<u64> = pieces(text).map(|(_, piece)| hash(piece)).collect();
    let mut shingles: Vec<u64> = grams(&pieces, SHINGLE.min(pieces.len()).max(1)).collect();
    shingles.sort_unstable();
    shingles.dedup();
    shingles
}

pub fn signature(shingles: &[u64]) -> Signature {
    std::array::from_fn(|index| {
        let seed = mixed(index as u64 + 1);
        let least = shingles.iter().map(|shingle| mixed(shingle ^ seed)).min();
        least.unwrap_or_default() as u16
    })
}

/// The similarity of two texts by their shingles: common shingles of all (Jaccard).
pub fn similarity(a: &[u64], b: &[u64]) -> f64 {
    let common = a.iter().filter(|shingle| b.binary_search(shingle).is_ok()).count();
    common as f64 / (a.len() + b.len() - common).max(1) as f64
}

/// Pairs of texts that are likely near duplicates: a text, and one before it, by their places. Ordered, each pair once.
pub fn likely_pairs(texts: &[(u64, Signature)]) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for band in 0..HASHES / BAND {
        let part = |text: &u32| -> [u16; BAND] { std::array::from_fn(|at| texts[*text as usize].1[band * BAND + at]) };
        let mut order: Vec<u32> = (0..texts.len() as u32).collect();
        order.sort_unstable_by_key(|text| (part(text), *text));
        for bucket in order.chunk_by(|a, b| part(a) == part(b)) {
            for (place, text) in bucket.iter().enumerate() {
                for before in &bucket[..place.min(COMPARED)] {
                    let [a, b] = [text, before].map(|text| &texts[*text as usize].1);
                    let equal = a.iter().zip(b).filter(|(a, b)| a == b).count();
                    if equal >= LIKELY {
                        pairs.push((*text, *before));
                    }
                    if equal >= SURE {
                        break;
                    }
                }
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_duplicates_are_likely_pairs_and_others_are_not() {
        let question = |n: usize| {
            let words: Vec<String> =
                (0..40).map(|word| format!("w{}x", mixed((n * 100 + word) as u64) % 5000)).collect();
            words.join(" ")
        };
        let mut texts: Vec<String> = (0..300).map(question).collect();
        // Wrapped anew, and with two words more at the end.
        texts.extend((0..300).map(|n| format!("{}.\nThank you", question(n).replace(' ', "\n\n").to_uppercase())));
        let shingles: Vec<Vec<u64>> = texts.iter().map(|text| shingles(text)).collect();
        let signatures: Vec<_> = shingles.iter().map(|shingles| (0, signature(shingles))).collect();
        let pairs = likely_pairs(&signatures);
        assert_eq!(pairs, (0..300).map(|n| (n + 300, n)).collect::<Vec<_>>());
        assert!(similarity(&shingles[300], &shingles[0]) > SIMILAR && similarity(&shingles[301], &shingles[0]) < 0.1);
    }
}
