#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compaction;
mod crash;
mod storing;

use std::path::{Path, PathBuf};

use asap_llm::FailureKind;
use asap_llm::chat::{Answer, CallError, Defaults, Outcome};
use asap_llm::request::RequestKey;
use asap_llm::store::AnswerStore;
use futures::future::try_join_all;
use sha2::{Digest, Sha256};
use url::Url;

use crate::answers::AnswerFolder;

fn key(number: u64) -> RequestKey {
    Sha256::digest(number.to_le_bytes()).into()
}

/// The answer to a numbered request, up to 3,000 bytes long; every seventh is a paid failure.
fn answer(number: u64) -> Outcome {
    let text: String = format!("answer {number}; ").chars().cycle().take(20 + (number * 37 % 3000) as usize).collect();
    match number % 7 {
        0 => Err(CallError { tokens_in: number, tokens_out: 1, ..CallError::new(FailureKind::TooLong, text) }),
        _ => {
            let defaults = Defaults([number.is_multiple_of(5), number.is_multiple_of(3)]);
            Ok(Answer { text, tokens_in: number, tokens_out: 2, defaults })
        }
    }
}

fn folder() -> (tempfile::TempDir, Url) {
    let folder = tempfile::tempdir().unwrap();
    let url = Url::from_directory_path(folder.path()).unwrap();
    (folder, url)
}

async fn keep(store: &AnswerFolder, numbers: impl IntoIterator<Item = u64>) {
    try_join_all(numbers.into_iter().map(|number| store.keep(key(number), answer(number), true))).await.unwrap();
}

#[track_caller]
fn assert_holds(found: &[(u64, Option<Outcome>)]) {
    for (number, found) in found {
        assert_eq!(found.as_ref(), Some(&answer(*number)), "answer {number}");
    }
}

async fn get(store: &AnswerFolder, numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, Option<Outcome>)> {
    let mut found = Vec::new();
    for number in numbers {
        found.push((number, store.get(&key(number)).await.unwrap()));
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
