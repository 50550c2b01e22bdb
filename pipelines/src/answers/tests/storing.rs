//! Kept answers are found again, and damaged ones are not.

use std::sync::Arc;

use asap_llm::store::AnswerStore;
use futures::FutureExt;
use object_store::memory::InMemory;

use crate::answers::AnswerFolder;
use crate::answers::folder::Folder;
use crate::answers::tests::{answer, assert_holds, files, folder, get, keep, key};

#[tokio::test]
async fn an_object_store_holds_answers_below_its_prefix() {
    let memory = Arc::new(InMemory::new());
    let folder = Folder::of_store(memory.clone(), "out/_asap/cache");
    let store = AnswerFolder::open_folder(folder.clone()).await.unwrap();
    keep(&store, 0..64).await;
    keep(&store, [64]).await;
    assert_eq!(folder.list().await.unwrap().len(), 2);
    let next = AnswerFolder::open_folder(folder).await.unwrap();
    assert_holds(&get(&next, 0..65).await);
    let other = AnswerFolder::open_folder(Folder::of_store(memory, "out/_asap/cach")).await.unwrap();
    assert_eq!(other.index().len(), 0);
}

#[tokio::test]
async fn the_first_answer_to_a_request_wins() {
    let (_folder, url) = folder();
    let [one, two] = [AnswerFolder::open(&url).await.unwrap(), AnswerFolder::open(&url).await.unwrap()];
    keep(&one, [1]).await;
    two.keep(key(1), answer(2), false).await.unwrap();
    one.keep(key(1), answer(3), false).await.unwrap();
    assert_holds(&get(&one, [1]).await);
    let next = AnswerFolder::open(&url).await.unwrap();
    assert_holds(&get(&next, [1]).await);
    assert_eq!(next.index().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_share_a_folder() {
    let (_folder, url) = folder();
    let [one, two] = [AnswerFolder::open(&url).await.unwrap(), AnswerFolder::open(&url).await.unwrap()];
    futures::join!(keep(&one, 0..300), keep(&two, 200..500));
    assert_holds(&get(&one, 0..300).await);
    assert_holds(&get(&two, 200..500).await);
    let next = AnswerFolder::open(&url).await.unwrap();
    assert_eq!(next.index().len(), 500);
    assert_holds(&get(&next, 0..500).await);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let (folder, url) = folder();
    let store = AnswerFolder::open(&url.join("cache/").unwrap()).await.unwrap();
    std::fs::write(folder.path().join("cache"), "a file where the folder should be").unwrap();
    let error = store.keep(key(1), answer(1), true).await.unwrap_err().to_string();
    assert!(error.contains("cannot write answers to") && error.contains("/cache"), "{error}");
    assert_eq!(store.get(&key(1)).await.unwrap(), None);
    let error = AnswerFolder::open(&url.join("cache/below/").unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("cannot list") && error.contains("cache/below"), "{error}");
}

#[tokio::test]
async fn a_damaged_segment_costs_at_most_its_own_answers() {
    let (folder, url) = folder();
    let store = AnswerFolder::open(&url).await.unwrap();
    keep(&store, 0..64).await;
    keep(&store, 64..128).await;
    let files = files(folder.path());
    let whole = std::fs::read(&files[1]).unwrap();
    std::fs::write(folder.path().join("0-empty.answers.parquet"), "").unwrap();
    let damaged = (0..whole.len()).step_by(97).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let cut = [whole.len() / 2, whole.len() - 1, 5].map(|length| whole[..length].to_vec());
    let mut some_are_lost = 0;
    for bytes in damaged.chain(cut) {
        std::fs::write(&files[1], bytes).unwrap();
        let next = AnswerFolder::open(&url).await.unwrap();
        assert_holds(&get(&next, 0..64).await);
        let found = get(&next, 64..128).await;
        some_are_lost += usize::from(found.iter().any(|(_, found)| found.is_none()));
        assert_holds(&found.into_iter().filter(|(_, found)| found.is_some()).collect::<Vec<_>>());
    }
    assert!(some_are_lost > 3);

    // Answers that are paid for again are found, here and later, although the damaged segment comes first.
    let next = AnswerFolder::open(&url).await.unwrap();
    keep(&next, 64..128).await;
    assert_holds(&get(&next, 0..128).await);
    assert_holds(&get(&AnswerFolder::open(&url).await.unwrap(), 0..128).await);
}

#[tokio::test]
async fn sql_reads_the_answers() {
    let (folder, url) = folder();
    keep(&AnswerFolder::open(&url).await.unwrap(), [0, 1]).await;
    let context = datafusion::prelude::SessionContext::new();
    let path = folder.path().to_string_lossy();
    context.register_parquet("answers", &*path, Default::default()).await.unwrap();
    let sql = "SELECT status, count(*) AS calls, sum(tokens_out) AS tokens, min(left(answer, 8)) AS begins FROM answers \
               WHERE time > '2020-01-01' GROUP BY status ORDER BY status";
    let rows = context.sql(sql).await.unwrap().to_string().await.unwrap();
    let rows: Vec<_> = rows.lines().skip(3).take(2).map(|line| line.replace(' ', "")).collect();
    assert_eq!(rows, ["|ok|1|2|answer1|", "|too_long|1|1|answer0|"]);
}

#[tokio::test]
async fn an_answer_is_stored_though_its_asker_went_away() {
    let (_folder, url) = folder();
    let store = AnswerFolder::open(&url).await.unwrap();
    assert!(store.keep(key(1), answer(1), true).now_or_never().is_none());
    keep(&store, [2]).await;
    assert_holds(&get(&store, 1..3).await);
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_no_task() {
    let memory = Arc::new(InMemory::new());
    let store = AnswerFolder::open_folder(Folder::of_store(memory.clone(), "cache")).await.unwrap();
    assert!(store.keep(key(1), answer(1), true).now_or_never().is_none());
    drop(store);
    // The task that gathers answers ends with the store.
    while Arc::strong_count(&memory) > 1 {
        tokio::task::yield_now().await;
    }
    let next = AnswerFolder::open_folder(Folder::of_store(memory, "cache")).await.unwrap();
    assert_eq!(next.index().len(), 0);
}
