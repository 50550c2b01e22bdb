//! Files with flipped bits: an error or other rows, never a panic.

use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;
use crate::corpus::files::footer;

/// Number of tried files, each with one to four flipped bits in its footer.
const FLIPS: u64 = 10_000;

async fn whole() -> Vec<u8> {
    let rows = "SELECT 'q' || value AS question, 'c' AS cot, value AS answer, [value, 1] AS list, {'a': 'x', 'b': [true]} AS nested \
                FROM range(50)";
    let folder = folder_of(&[("a.parquet", rows)]).await;
    std::fs::read(folder.path().join("a.parquet")).unwrap()
}

fn flipped(whole: &[u8], seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let length = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
    let mut bytes = whole.to_vec();
    for _ in 0..=random.next_u32() % 4 {
        let place = bytes.len() - 8 - length + random.next_u32() as usize % (length + 4);
        bytes[place] ^= 1 << (random.next_u32() % 8);
    }
    bytes
}

#[tokio::test]
async fn flipped_bits_in_a_footer_are_an_error_or_are_read() {
    let whole = whole().await;
    let store = InMemory::new();
    let path = object_store::path::Path::from("a.parquet");
    let mut refused = 0;
    for seed in 0..FLIPS {
        store.put(&path, PutPayload::from(flipped(&whole, seed))).await.unwrap();
        let meta = store.head(&path).await.unwrap();
        if let Err(error) = footer::read(&store as &dyn ObjectStore, &meta, "a.parquet").await {
            assert!(error.to_string().contains("a.parquet"), "{seed}: {error}");
            refused += 1;
        }
    }
    assert!(refused > FLIPS / 4, "{refused}");
}

#[tokio::test]
async fn what_is_left_of_such_files_is_read_or_named() {
    let whole = whole().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut failed = 0;
    for seed in 0..FLIPS / 20 {
        std::fs::write(&path, flipped(&whole, seed)).unwrap();
        // A panic would end the test.
        if let Ok(corpus) = open(&path, None).await
            && let Some(failure) = corpus.damaged(&context().state()).await
        {
            assert!(failure.to_string().contains("a.parquet"), "{seed}: {failure}");
            failed += 1;
        }
    }
    assert!(failed > 0);
}

#[tokio::test]
async fn a_damaged_file_decides_nothing_for_others() {
    let rows = format!("SELECT 'two?' AS input, {TAGGED} AS text_out FROM range(500)");
    let folder = folder_of(&[("a.parquet", &rows), ("b.parquet", &rows)]).await;
    let path = folder.path().join("a.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize + 8;
    let pages = 4..bytes.len() - end;
    bytes[pages].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let corpus = open(folder.path(), None).await.unwrap();
    assert!(corpus.notes[0].contains("column text_out of"), "{:?}", corpus.notes);
    assert!(corpus.damaged(&context().state()).await.unwrap().to_string().contains("a.parquet"));
    std::fs::remove_file(folder.path().join("b.parquet")).unwrap();
    let error = refusal(folder.path()).await;
    assert!(error.contains("a.parquet is a damaged Parquet file"), "{error}");
}
