use super::*;
use crate::backend::TokenScore;
use crate::testing::By;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures::future::join_all;

/// Scores a token by its id and reports the lengths of every batch.
fn by_id(runs: &Sender<Vec<usize>>, Packed { ids, lengths }: Packed, targets: &[Target]) -> Result<Vec<TokenScore>> {
    runs.send(lengths.to_vec()).unwrap();
    if ids.contains(&666) {
        return Err(LmError::Tokenize("unlucky".to_string()));
    }
    let score = |target: &Target| {
        assert_eq!(ids[target.row as usize + 1], target.id);
        TokenScore { surprisal: target.id as f32, entropy: 0.0, rank: 1 }
    };
    Ok(targets.iter().map(score).collect())
}

fn request(id: u32, tokens: usize) -> Request {
    let mut ids = vec![0; tokens];
    ids[1] = id;
    let row = Arc::new(RowTokens { ids, steps: vec![Some(1..2)], ..RowTokens::default() });
    Request { key: [id as u8; 32], row, wanted: Wanted::FirstTokens }
}

fn thread<F>(score: F) -> ModelThread
where
    F: FnMut(Packed, &[Target], &IsWanted) -> Result<Vec<TokenScore>> + Send + 'static,
{
    ModelThread::spawn(vec![Box::new(By(score))], &Arc::default()).unwrap()
}

/// A thread that scores by id, and the lengths of its batches.
fn stub() -> (ModelThread, Receiver<Vec<usize>>) {
    let (sender, runs) = channel();
    (thread(move |chains, targets, _| by_id(&sender, chains, targets)), runs)
}

/// A thread that scores by id and reports when a batch begins, which then waits for the gate; and the lengths of its
/// batches.
fn gated() -> (ModelThread, Receiver<()>, Sender<()>, Receiver<Vec<usize>>) {
    let ((begins, begun), (gate, opened), (sender, runs)) = (channel(), channel(), channel());
    let score = move |chains: Packed, targets: &[Target], _: &IsWanted| {
        begins.send(()).unwrap();
        opened.recv().unwrap();
        by_id(&sender, chains, targets)
    };
    (thread(score), begun, gate, runs)
}

fn surprisals(answers: &[Answer]) -> Vec<f32> {
    answers.iter().map(|scores| scores.as_ref().unwrap().first[0].unwrap().surprisal).collect()
}

#[tokio::test]
async fn rows_are_packed_by_tokens_and_answered_in_order() {
    let (thread, runs) = stub();
    let requests = [(1, 3000), (2, 5000), (3, 9000), (2, 5000), (4, 500), (5, 500)];
    let answers = thread.score(requests.map(|(id, tokens)| request(id, tokens)).to_vec()).await.unwrap();
    assert_eq!(surprisals(&answers), [1.0, 2.0, 3.0, 2.0, 4.0, 5.0]);
    assert_eq!(runs.try_iter().collect::<Vec<_>>(), [vec![3000, 5000], vec![9000], vec![500, 500]]);
    assert_eq!(thread.prefills(), 5);
    assert_eq!(surprisals(&thread.score(vec![request(4, 500)]).await.unwrap()), [4.0]);
    assert_eq!(thread.prefills(), 5);
    assert!(thread.known([5; 32], Wanted::FirstTokens).is_some());
    assert!(thread.known([5; 32], Wanted::AllTokens).is_none());
    runs.try_iter().for_each(drop);
    thread.score((10..74).map(|id| request(id, 100)).collect()).await.unwrap();
    assert_eq!(runs.try_iter().collect::<Vec<_>>(), [[100; 64]]);
}

#[tokio::test]
async fn callers_share_their_rows() {
    let (thread, _runs) = stub();
    join_all((0..40).map(|caller| {
        let thread = &thread;
        async move {
            let ids = [1 + caller % 4, 5, 6 + caller % 3];
            let answers = thread.score(ids.map(|id| request(id, 100)).to_vec()).await.unwrap();
            assert_eq!(surprisals(&answers), ids.map(|id| id as f32));
        }
    }))
    .await;
    assert_eq!(thread.prefills(), 8);
}

#[tokio::test]
async fn what_no_one_waits_for_is_not_computed() {
    let (thread, begun, gate, runs) = gated();
    let mut first = Box::pin(thread.score(vec![request(1, 8192)]));
    let mut dropped = Box::pin(thread.score(vec![request(2, 10)]));
    assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut dropped).is_pending());
    drop(dropped);
    gate.send(()).unwrap();
    first.await.unwrap();
    gate.send(()).unwrap();
    assert_eq!(surprisals(&thread.score(vec![request(3, 10)]).await.unwrap()), [3.0]);
    assert_eq!(runs.try_iter().collect::<Vec<_>>(), [vec![8192], vec![10]]);
    assert_eq!(thread.prefills(), 2);

    // If a caller leaves during its first batch, its next rows are not computed.
    begun.try_iter().for_each(drop);
    let mut leaving = Box::pin(thread.score(vec![request(4, 8192), request(5, 8192)]));
    assert!(futures::poll!(&mut leaving).is_pending());
    begun.recv().unwrap();
    drop(leaving);
    gate.send(()).unwrap();
    gate.send(()).unwrap();
    assert_eq!(surprisals(&thread.score(vec![request(6, 10)]).await.unwrap()), [6.0]);
    assert_eq!(runs.try_iter().collect::<Vec<_>>(), [vec![8192], vec![10]]);
}

#[tokio::test]
async fn a_run_that_fails_fails_its_own_rows_only_and_by_its_own_error() {
    let (thread, _runs) = stub();
    // Both wait for the thread and are packed into two batches.
    let calls = [vec![request(1, 5000), request(2, 3000)], vec![request(666, 5000)], vec![request(3, 500)]];
    let answers = join_all(calls.map(|rows| thread.score(rows))).await;
    let found: Vec<_> = answers.iter().map(|answer| answer.as_deref().map(surprisals).ok()).collect();
    assert_eq!(found[0], Some(vec![1.0, 2.0]));
    let error = answers[1].as_ref().unwrap_err();
    assert!(matches!(error, LmError::Shared(error) if matches!(**error, LmError::Tokenize(_))), "{error:?}");
    assert_eq!(error.to_string(), "the tokenizer failed: unlucky");
    // The thread continues.
    assert_eq!(surprisals(&thread.score(vec![request(7, 10)]).await.unwrap()), [7.0]);
}

#[tokio::test]
async fn several_devices_share_the_rows_of_a_call_and_one_panic_ends_no_other_device() {
    let (sender, runs) = channel();
    let both = Arc::new(std::sync::Barrier::new(2));
    let by = |device: u32| {
        let (sender, both, mut begun) = (sender.clone(), Arc::clone(&both), false);
        Box::new(By(move |chains: Packed, targets: &[Target], _: &IsWanted| {
            sender.send(device).unwrap();
            // Each device waits once, until the other one has rows too.
            if !std::mem::replace(&mut begun, true) {
                both.wait();
            }
            if chains.ids.contains(&666) {
                panic!("no such luck");
            }
            let score = |target: &Target| TokenScore { surprisal: target.id as f32, entropy: 0.0, rank: 1 };
            Ok(targets.iter().map(score).collect())
        })) as Box<dyn Backend>
    };
    let thread = ModelThread::spawn(vec![by(1), by(2)], &Arc::default()).unwrap();
    let requests = (1..=6).map(|id| request(id, 5000)).collect();
    assert_eq!(surprisals(&thread.score(requests).await.unwrap()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let devices: BTreeSet<u32> = runs.try_iter().collect();
    assert_eq!(devices.len(), 2);
    assert!(thread.score(vec![request(666, 10)]).await.is_err());
    assert_eq!(surprisals(&thread.score(vec![request(7, 10)]).await.unwrap()), [7.0]);
    assert!(!thread.is_over());
}

#[tokio::test]
async fn rows_of_a_rejected_batch_say_why_and_others_keep_their_scores() {
    let thread = thread(|Packed { ids, .. }, targets, _| match ids.contains(&666) {
        true => Err(LmError::Rejected("out of luck".to_string())),
        false => Ok(targets.iter().map(|_| TokenScore { surprisal: 1.0, entropy: 0.0, rank: 1 }).collect()),
    });
    let answers = thread.score(vec![request(1, 8000), request(666, 8000), request(2, 8000)]).await.unwrap();
    let rejected = Err("out of luck".to_string());
    let found: Vec<_> = answers.iter().map(|answer| answer.as_ref().map(|_| ()).map_err(Clone::clone)).collect();
    assert_eq!(found, [Ok(()), rejected, Ok(())]);
    let lacks = |asks| thread.check(asks).unwrap_err().to_string();
    assert!(lacks(Asks { continuations: true, ..Asks::default() }).contains("the backend stub cannot continue"));
    thread.check(Asks { entropies: true, ..Asks::default() }).unwrap();
}

struct OnDrop(Sender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

#[tokio::test]
async fn a_thread_that_is_dropped_stops_computing_and_has_ended_then() {
    let (sender, events) = channel();
    let model = OnDrop(sender);
    let thread = thread(move |_, _, is_wanted| {
        let OnDrop(events) = &model;
        events.send(()).unwrap();
        while is_wanted() {
            std::thread::yield_now();
        }
        Err(LmError::Abandoned)
    });
    let mut asking = Box::pin(thread.score(vec![request(1, 10)]));
    assert!(futures::poll!(&mut asking).is_pending());
    events.recv().unwrap();
    drop(asking);
    drop(thread);
    assert!(events.try_recv().is_ok(), "the model is dropped with its thread");
}

#[test]
fn a_core_that_drops_a_thread_does_not_wait_for_it() {
    let (thread, begun, gate, _runs) = gated();
    let mut asking = Box::pin(thread.score(vec![request(1, 10)]));
    assert!(futures::FutureExt::now_or_never(&mut asking).is_none());
    begun.recv().unwrap();
    drop(asking);
    // The model's pass may need that core.
    rayon::scope(|scope| scope.spawn(|_| drop(thread)));
    drop(gate);
}

#[tokio::test]
async fn a_panic_reaches_all_callers_and_is_seen() {
    let thread = thread(|_, _, _| panic!("no such luck"));
    assert!(!thread.is_over());
    for _ in 0..2 {
        let error = thread.score(vec![request(1, 10)]).await.unwrap_err().to_string();
        assert!(error.contains("it panicked"), "{error}");
    }
    assert!(thread.is_over());
}
