//! Compaction keeps undamaged answers, and does not disturb other processes.

use std::sync::atomic::{AtomicBool, Ordering};

use asap_llm::store::AnswerStore;

use crate::answers::folder::{Folder, now};
use crate::answers::segment::Record;
use crate::answers::tests::{answer, assert_holds, files, folder, get, keep, key};
use crate::answers::{AnswerFolder, Compacted, compact, survey};

#[tokio::test]
async fn small_segments_become_one_and_an_open_store_goes_on() {
    let (folder, url) = folder();
    let [store, other] = [AnswerFolder::open(&url).await.unwrap(), AnswerFolder::open(&url).await.unwrap()];
    keep(&store, 0..200).await;
    keep(&other, 150..210).await;
    std::fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
    let before = survey(&url).await.unwrap();
    assert_eq!((before.segments, before.answers, before.damaged), (5, 260, 0));

    let would = compact(&url, None, true).await.unwrap();
    assert_eq!(survey(&url).await.unwrap(), before);
    let done = compact(&url, None, false).await.unwrap();
    assert_eq!(would, Compacted { dry_run: true, ..done.clone() });
    assert_eq!((done.segments_before, done.segments_after), (5, 1));
    assert_eq!((done.answers, done.answers_repeated, done.answers_too_old), (210, 50, 0));
    let after = survey(&url).await.unwrap();
    assert_eq!((after.segments, after.answers, after.bytes), (1, 210, done.bytes_after));
    assert_eq!(files(folder.path()).len(), 2);

    assert_holds(&get(&store, 0..200).await);
    keep(&store, [500]).await;
    assert_holds(&get(&AnswerFolder::open(&url).await.unwrap(), (0..210).chain([500])).await);
    // A compact folder stays unchanged.
    compact(&url, None, false).await.unwrap();
    let compacted = files(folder.path());
    let again = compact(&url, None, false).await.unwrap();
    assert_eq!((again.segments_before, again.segments_after), (1, 1));
    assert_eq!(files(folder.path()), compacted);
}

#[tokio::test]
async fn damaged_segments_and_old_answers_go() {
    let (folder, url) = folder();
    let segments = Folder::new(&url).unwrap();
    let day = 24 * 3600 * 1000;
    for age in [40, 20, 1, 0] {
        let time = now() - age * day;
        segments.write(time, &[Record { key: key(age as u64), time, outcome: answer(age as u64) }]).await.unwrap();
    }
    let damaged = &files(folder.path())[2];
    let bytes = std::fs::read(damaged).unwrap();
    std::fs::write(damaged, &bytes[..bytes.len() - 1]).unwrap();
    let before = survey(&url).await.unwrap();
    assert_eq!((before.segments, before.damaged, before.answers), (4, 1, 3));
    assert!(before.oldest < Some(now() - 39 * day) && before.newest > Some(now() - day), "{before:?}");

    let store = AnswerFolder::open(&url).await.unwrap();
    let done = compact(&url, Some(now() - 30 * day), false).await.unwrap();
    assert_eq!((done.answers, done.answers_too_old, done.segments_damaged), (2, 1, 1));
    assert_holds(&get(&store, [20, 0]).await);
    assert_eq!(store.get(&key(40)).await.unwrap(), None);
    assert_eq!(survey(&url).await.unwrap().segments, 1);

    let done = compact(&url, Some(now() + day), false).await.unwrap();
    assert_eq!((done.answers_too_old, done.segments_after), (2, 0));
    assert_eq!(AnswerFolder::open(&url).await.unwrap().index().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_run_next_to_a_writer_and_readers() {
    let (_folder, url) = folder();
    let store = AnswerFolder::open(&url).await.unwrap();
    let written = AtomicBool::new(false);
    let write = async {
        for group in 0..12 {
            keep(&store, group * 64..(group + 1) * 64).await;
            assert_holds(&get(&store, (0..(group + 1) * 64).step_by(17)).await);
        }
        written.store(true, Ordering::Relaxed);
    };
    let compacting = async || {
        while !written.load(Ordering::Relaxed) {
            compact(&url, None, false).await.unwrap();
            let reader = AnswerFolder::open(&url).await.unwrap();
            assert!(reader.index().len().is_multiple_of(64));
        }
    };
    futures::join!(write, compacting(), compacting());
    assert_holds(&get(&store, 0..12 * 64).await);
    let next = AnswerFolder::open(&url).await.unwrap();
    assert_eq!(next.index().len(), 12 * 64);
    assert_holds(&get(&next, 0..12 * 64).await);
}

#[tokio::test]
async fn what_a_killed_writer_left_goes_when_it_is_old() {
    let (folder, url) = folder();
    let store = AnswerFolder::open(&url).await.unwrap();
    keep(&store, 0..3).await;
    let [old, new, other] =
        ["1-a.answers.parquet#1", "2-b.answers.parquet#1", "notes#1"].map(|name| folder.path().join(name));
    for path in [&old, &new, &other] {
        std::fs::write(path, "half").unwrap();
    }
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for path in [&old, &other] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(hours_ago).unwrap();
    }
    for dry_run in [true, false] {
        assert!(old.exists());
        assert_eq!(compact(&url, None, dry_run).await.unwrap().unfinished_removed, 1);
    }
    assert!(!old.exists() && new.exists() && other.exists());
}
