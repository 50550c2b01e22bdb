//! A random sample of the input's rows (`--sample N --seed S`).
//!
//! Each row has a hash of the seed, its file's path and its number. The N rows with the smallest hashes are the sample.
//! The output stores the largest of these hashes and the files that have rows below it. From them, each later run
//! finds the same rows again, and none in files that came later.

use std::collections::{BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::corpus::{Corpus, FileRows};
use crate::run::ledger::file_key;

/// The sample of an output, as its table stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub seed: u64,
    /// The number of chosen rows: fewer than asked for if the input had fewer.
    pub rows: u64,
    /// The number of rows that the input had.
    pub of: u64,
    largest: u64,
    /// The chosen rows by the [`file_key`] of their file.
    files: HashMap<String, u64>,
}

impl Sample {
    /// Chooses `rows` rows of a corpus.
    pub(crate) fn choose(rows: u64, seed: u64, corpus: &Corpus) -> Self {
        let (mut smallest, mut of) = (BinaryHeap::new(), 0);
        for (_, file) in corpus.files() {
            of += file.rows_left();
            for hash in hashes(seed, file).map(|(_, hash)| hash) {
                if (smallest.len() as u64) < rows {
                    smallest.push(hash);
                } else if smallest.peek().is_some_and(|largest| hash < *largest) {
                    smallest.pop();
                    smallest.push(hash);
                }
            }
        }
        let largest = smallest.peek().copied().unwrap_or_default();
        let mut sample = Self { seed, rows: smallest.len() as u64, of, largest, files: HashMap::new() };
        let counted = corpus.files().map(|(_, file)| (file_key(&file.file.path), sample.below(file).count() as u64));
        sample.files = counted.filter(|(_, rows)| *rows > 0).collect();
        sample
    }

    /// The chosen rows of a file, and how many rows of the file there are for each of them. None if it has no chosen row.
    pub(crate) fn of_file(&self, file: &FileRows) -> Option<(Vec<u64>, u64)> {
        let chosen = self.files.get(&file_key(&file.file.path))?;
        Some((self.below(file).collect(), file.rows().div_ceil(*chosen)))
    }

    fn below<'a>(&self, file: &'a FileRows) -> impl Iterator<Item = u64> + use<'a> {
        let largest = self.largest;
        hashes(self.seed, file).filter(move |(_, hash)| *hash <= largest).map(|(row, _)| row)
    }
}

/// The rows of a file that are not deleted, each with its hash.
fn hashes(seed: u64, file: &FileRows) -> impl Iterator<Item = (u64, u64)> + use<'_> {
    let digest = Sha256::digest(format!("{seed}/{}", file.file.path));
    let key = digest.iter().take(8).fold(0_u64, |key, byte| key << 8 | u64::from(*byte));
    let left = (0..file.rows()).filter(|row| file.deleted.binary_search(row).is_err());
    left.map(move |row| (row, mixed(key.wrapping_add(row.wrapping_mul(0x9E37_79B9_7F4A_7C15)))))
}

/// The output function of SplitMix64 (Steele, Lea and Flood 2014), which no two numbers share.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
