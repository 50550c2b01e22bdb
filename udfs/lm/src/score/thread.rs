//! Runs a model on its own thread, or on one thread for each of its devices. Rows of all callers are packed into batches,
//! each row once per thread. Callers wait without blocking a thread, and results that no caller waits for are not
//! computed.
//!
//! ```text
//! callers ──requests──▶ bounded channel ──▶ model's thread: known? else pack and prefill
//!          ▲                                                               │
//!          └───────────────────── one answer per call ◀────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::backend::{Asks, Backend, CONTINUE, Continuation, ENTROPIES, IsWanted, Packed, Target};
use crate::memo::{Memo, Memory, share};
use crate::model::pass::together;
use crate::score::row::{Row, Scores, Wanted};
use crate::{LmError, Result};

/// Calls that may queue for the model; further callers wait to enter the queue.
const WAITING_CALLS: usize = 16;

pub(crate) type RowKey = [u8; 32];

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub key: RowKey,
    pub row: Arc<Row>,
    pub wanted: Wanted,
}

/// The scores of a row, or why the backend rejected it.
pub(crate) type Answer = std::result::Result<Arc<Scores>, String>;

struct Call {
    requests: Vec<Request>,
    answer: oneshot::Sender<Result<Vec<Answer>>>,
}

/// A model's threads. Dropping this ends them and waits for them, except on a rayon worker. The wait is short, since no
/// caller waits for the current results.
#[derive(Debug)]
pub(crate) struct ModelThread {
    calls: Option<mpsc::Sender<Call>>,
    threads: Vec<JoinHandle<()>>,
    tokens_per_batch: usize,
    answers: Answers,
    known: Arc<Known>,
}

/// What the backend answers besides log-probabilities, asked before it moves to its thread.
#[derive(Debug, Clone, Copy)]
struct Answers {
    backend: &'static str,
    entropies: bool,
    continuations: bool,
}

#[derive(Debug)]
struct Known {
    scores: Memo<(RowKey, Wanted), Scores>,
    #[cfg(test)]
    prefills: std::sync::atomic::AtomicU64,
}

impl ModelThread {
    /// Starts a thread for each backend of the model; all take calls from one queue.
    pub(crate) fn spawn(models: Vec<Box<dyn Backend>>, memory: &Arc<Memory>) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING_CALLS);
        let known = Arc::new(Known {
            scores: Memo::new(memory, share::SCORES),
            #[cfg(test)]
            prefills: Default::default(),
        });
        let tokens_per_batch = models.iter().map(|model| model.tokens_per_batch()).max().unwrap_or(1);
        let all = |answers: fn(&dyn Backend) -> bool| models.iter().all(|model| answers(&**model));
        let backend = models.first().map_or("none", |model| model.name());
        let (entropies, continuations) = (all(|model| model.has_entropies()), all(|model| model.continues()));
        let calls = Arc::new(Mutex::new(receiver));
        let start = |model| {
            let (calls, known) = (Arc::clone(&calls), Arc::clone(&known));
            std::thread::Builder::new()
                .name("asap-model".to_string())
                .spawn(move || serve(model, &calls, &known))
                .map_err(|error| LmError::Thread(format!("cannot start it: {error}")))
        };
        let threads = models.into_iter().map(start).collect::<Result<_>>()?;
        let answers = Answers { backend, entropies, continuations };
        Ok(Self { calls: Some(sender), threads, tokens_per_batch, answers, known })
    }

    /// Checks that the backend answers what a function asks.
    pub(crate) fn check(&self, asks: Asks) -> Result<()> {
        let Answers { backend, entropies, continuations } = self.answers;
        match asks {
            Asks { entropies: true, .. } if !entropies => Err(LmError::Refused { backend, question: ENTROPIES }),
            Asks { continuations: true, .. } if !continuations => Err(LmError::Refused { backend, question: CONTINUE }),
            _ => Ok(()),
        }
    }

    pub(crate) fn known(&self, key: RowKey, wanted: Wanted) -> Option<Arc<Scores>> {
        self.known.get(key, wanted)
    }

    pub(crate) async fn score(&self, requests: Vec<Request>) -> Result<Vec<Answer>> {
        let stopped = || LmError::Thread("it panicked; load the model again".to_string());
        let calls = self.calls.as_ref().ok_or_else(stopped)?;
        let (count, mut waiting) = (requests.len(), Vec::new());
        for requests in self.divided(requests) {
            let (answer, answered) = oneshot::channel();
            calls.send(Call { requests, answer }).await.map_err(|_| stopped())?;
            waiting.push(answered);
        }
        let mut answers = Vec::with_capacity(count);
        for answered in waiting {
            answers.extend(answered.await.map_err(|_| stopped())??);
        }
        Ok(answers)
    }

    /// Divides the rows of a call among the threads, batch by batch.
    fn divided(&self, mut requests: Vec<Request>) -> Vec<Vec<Request>> {
        let tokens: usize = requests.iter().map(|request| request.row.tokens()).sum();
        let most = match self.threads.len() {
            0 | 1 => return vec![requests],
            threads => tokens.div_ceil(threads).min(self.tokens_per_batch),
        };
        let mut parts = Vec::new();
        while !requests.is_empty() {
            let later = requests.split_off(together(requests.iter().map(|request| request.row.tokens()), most));
            parts.push(std::mem::replace(&mut requests, later));
        }
        parts
    }

    pub(crate) fn is_over(&self) -> bool {
        self.calls.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Number of texts that the model has read.
    #[cfg(test)]
    pub(crate) fn prefills(&self) -> u64 {
        self.known.prefills.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for ModelThread {
    fn drop(&mut self) {
        drop(self.calls.take());
        // A rayon worker that computes for these threads may drop this meanwhile: it cannot wait for itself.
        for thread in self.threads.drain(..).filter(|_| rayon::current_thread_index().is_none()) {
            // Callers have already received an error about a panic.
            drop(thread.join());
        }
    }
}

impl Known {
    #[cfg(test)]
    fn count_prefills(&self, run: &[Request]) {
        let texts: usize = run.iter().map(|request| request.row.answers.len().max(1)).sum();
        self.prefills.fetch_add(texts as u64, std::sync::atomic::Ordering::Relaxed);
    }

    fn get(&self, key: RowKey, wanted: Wanted) -> Option<Arc<Scores>> {
        let levels = [Wanted::EachToken, Wanted::AllTokens, Wanted::FirstTokens].into_iter();
        levels.take_while(|level| *level >= wanted).find_map(|level| self.scores.get(&(key, level)))
    }

    fn insert(&self, key: RowKey, wanted: Wanted, scores: &Arc<Scores>) {
        let tokens: usize =
            scores.tokens.iter().map(|tokens| 24 + tokens.as_ref().map_or(0, |own| own.len() * 8)).sum();
        let steps = scores.first.len() * 12 + scores.perplexity.len() * 24 + tokens;
        let stated = scores.survival.iter().filter_map(|survival| survival.stated.as_ref()).map(String::len);
        let bytes = 200 + steps + scores.answers.len() * 8 + stated.sum::<usize>();
        self.scores.insert((key, wanted), Arc::clone(scores), bytes);
    }
}

fn serve(mut model: Box<dyn Backend>, calls: &Mutex<mpsc::Receiver<Call>>, known: &Known) {
    while let Some(mut taken) = take(calls, model.tokens_per_batch()) {
        taken.retain(|call| !call.answer.is_closed());
        let answers = compute(&mut *model, &taken, known);
        for call in taken {
            // Rows are missing only for callers that have stopped waiting.
            let of_rows = call.requests.iter().filter_map(|row| answers.get(&row.key));
            let answer = of_rows.map(|answer| match answer {
                Ok(scores) => Ok(Ok(Arc::clone(scores))),
                Err(error) => match &**error {
                    LmError::Rejected(why) => Ok(Err(why.clone())),
                    _ => Err(LmError::Shared(Arc::clone(error))),
                },
            });
            drop(call.answer.send(answer.collect()));
        }
    }
}

/// Waits for calls and takes those of one batch; None once no caller is left.
fn take(calls: &Mutex<mpsc::Receiver<Call>>, most: usize) -> Option<Vec<Call>> {
    let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
    let first = calls.blocking_recv()?;
    let mut tokens = tokens_of(&first);
    let mut taken = vec![first];
    while tokens < most
        && let Ok(next) = calls.try_recv()
    {
        tokens += tokens_of(&next);
        taken.push(next);
    }
    Some(taken)
}

fn tokens_of(call: &Call) -> usize {
    // All checks that wait are taken: those of one question share most of their tokens.
    let tokens = |row: &Row| row.check.as_ref().map_or(row.tokens(), Continuation::tail);
    call.requests.iter().map(|request| tokens(&request.row)).sum()
}

type ScoresByRow = BTreeMap<RowKey, std::result::Result<Arc<Scores>, Arc<LmError>>>;

/// Returns the scores of all rows of some calls, each computed at most once; skips rows that no caller waits for.
fn compute(model: &mut dyn Backend, calls: &[Call], known: &Known) -> ScoresByRow {
    let mut wanted_of: BTreeMap<RowKey, Wanted> = BTreeMap::new();
    for request in calls.iter().flat_map(|call| &call.requests) {
        let wanted = wanted_of.entry(request.key).or_insert(request.wanted);
        *wanted = request.wanted.max(*wanted);
    }
    let mut answers = BTreeMap::new();
    let mut missing = Vec::new();
    let mut seen = BTreeSet::new();
    for request in calls.iter().flat_map(|call| &call.requests).filter(|request| seen.insert(request.key)) {
        let wanted = wanted_of[&request.key];
        match known.get(request.key, wanted) {
            Some(scores) => drop(answers.insert(request.key, Ok(scores))),
            None => missing.push(Request { wanted, ..request.clone() }),
        }
    }
    loop {
        let awaited = awaited(calls);
        missing.retain(|request| awaited.contains(&request.key));
        if missing.is_empty() {
            return answers;
        }
        let run: Vec<Request> = missing.drain(..rows_of_a_run(&missing, model.tokens_per_batch())).collect();
        let is_wanted = || calls.iter().any(|call| !call.answer.is_closed());
        match prefill(model, &run, &is_wanted) {
            Ok(of_run) => {
                #[cfg(test)]
                known.count_prefills(&run);
                for (request, scores) in run.iter().zip(of_run) {
                    let scores = Arc::new(scores);
                    known.insert(request.key, request.wanted, &scores);
                    answers.insert(request.key, Ok(scores));
                }
            }
            // An error only affects the rows of its batch.
            Err(error) => {
                let error = Arc::new(error);
                answers.extend(run.iter().map(|request| (request.key, Err(Arc::clone(&error)))));
            }
        }
    }
}

fn awaited(calls: &[Call]) -> BTreeSet<RowKey> {
    let open = calls.iter().filter(|call| !call.answer.is_closed());
    open.flat_map(|call| &call.requests).map(|request| request.key).collect()
}

/// Number of the first rows that form one batch: at least one. Rows are packed, since a pass reads each weight once,
/// however many tokens it has. A row of forked texts is its own batch: only its own texts share the beginning that is
/// read once. Checks run together, since those of one question share their prompts.
fn rows_of_a_run(requests: &[Request], most: usize) -> usize {
    let checks = requests.iter().take_while(|request| request.row.check.is_some()).count();
    if checks > 0 {
        return checks;
    }
    let is_packed = |request: &&Request| request.row.answers.is_empty() && request.row.check.is_none();
    let packed = requests.iter().take_while(is_packed);
    together(packed.map(|request| request.row.tokens()), most)
}

fn prefill(model: &mut dyn Backend, run: &[Request], is_wanted: &IsWanted) -> Result<Vec<Scores>> {
    if let [Request { row, .. }] = run
        && !row.answers.is_empty()
    {
        let scores = model.score_forks(&row.answers, is_wanted)?;
        return Ok(vec![row.answer_scores(&scores)]);
    }
    let checks: Vec<&Continuation> = run.iter().filter_map(|request| request.row.check.as_ref()).collect();
    if !checks.is_empty() {
        let found = model.continue_greedily(&checks, is_wanted)?.into_iter();
        return Ok(found.map(|survival| Scores { survival: Some(survival), ..Scores::default() }).collect());
    }
    let mut ids = Vec::new();
    let mut targets = Vec::with_capacity(run.len());
    for Request { row, wanted, .. } in run {
        targets.push(row.targets(*wanted, ids.len()));
        ids.extend_from_slice(&row.ids);
    }
    let lengths: Vec<usize> = run.iter().map(|request| request.row.ids.len()).collect();
    let scores = model.score(Packed { ids: &ids, lengths: &lengths }, &targets.concat(), is_wanted)?;
    let mut rest = scores.as_slice();
    let of_row = |(request, targets): (&Request, &Vec<Target>)| {
        let (own, later) = rest.split_at(targets.len());
        rest = later;
        request.row.scores(request.wanted, own)
    };
    Ok(run.iter().zip(&targets).map(of_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::TokenScore;
    use crate::testing::By;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use futures::future::join_all;

    /// Scores a token by its id and reports the lengths of every batch.
    fn by_id(
        runs: &Sender<Vec<usize>>,
        Packed { ids, lengths }: Packed,
        targets: &[Target],
    ) -> Result<Vec<TokenScore>> {
        runs.send(lengths.to_vec()).unwrap();
        if ids.contains(&666) {
            return Err(LmError::Tokenize("unlucky".to_string()));
        }
        let score = |target: &Target| {
            assert_eq!(ids[target.row as usize + 1], target.id);
            TokenScore { surprisal: target.id as f32, entropy: 0.0 }
        };
        Ok(targets.iter().map(score).collect())
    }

    fn request(id: u32, tokens: usize) -> Request {
        let mut ids = vec![0; tokens];
        ids[1] = id;
        let step = 1..2;
        let row = Arc::new(Row::of(ids, std::slice::from_ref(&step)));
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
                let score = |target: &Target| TokenScore { surprisal: target.id as f32, entropy: 0.0 };
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
            false => Ok(targets.iter().map(|_| TokenScore { surprisal: 1.0, entropy: 0.0 }).collect()),
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
}
