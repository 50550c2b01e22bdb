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

use crate::backend::{Asks, Backend, CONTINUE, Continuation, ENTROPIES, IsWanted, Packed, RANKS, Target};
use crate::model::pass::{groups, together};
use crate::score::row::{RowTokens, Scores, Wanted};
use crate::{LmError, Result};
use asap_kernels::memo::{Memo, Memory, share};

/// Calls that may queue for the model; further callers wait to enter the queue.
const WAITING_CALLS: usize = 16;

pub(crate) type RowKey = [u8; 32];

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub key: RowKey,
    pub row: Arc<RowTokens>,
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
    backend: &'static str,
    /// What the backend answers besides log-probabilities, asked before it moves to its thread.
    answers: Asks,
    known: Arc<Known>,
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
        let (entropies, ranks) = (all(|model| model.has_entropies()), all(|model| model.has_ranks()));
        let continuations = all(|model| model.continues());
        let calls = Arc::new(Mutex::new(receiver));
        let start = |model| {
            let (calls, known) = (Arc::clone(&calls), Arc::clone(&known));
            std::thread::Builder::new()
                .name("asap-model".to_string())
                .spawn(move || serve(model, &calls, &known))
                .map_err(|error| LmError::Thread(format!("cannot start it: {error}")))
        };
        let threads = models.into_iter().map(start).collect::<Result<_>>()?;
        let answers = Asks { entropies, ranks, continuations };
        Ok(Self { calls: Some(sender), threads, tokens_per_batch, backend, answers, known })
    }

    pub(crate) fn check(&self, asks: Asks) -> Result<()> {
        let (Asks { entropies, ranks, continuations }, backend) = (self.answers, self.backend);
        match asks {
            Asks { entropies: true, .. } if !entropies => Err(LmError::Refused { backend, question: ENTROPIES }),
            Asks { ranks: true, .. } if !ranks => Err(LmError::Refused { backend, question: RANKS }),
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
    fn divided(&self, requests: Vec<Request>) -> Vec<Vec<Request>> {
        let tokens = |request: &Request| request.row.tokens();
        let most = match self.threads.len() {
            0 | 1 => return vec![requests],
            threads => requests.iter().map(tokens).sum::<usize>().div_ceil(threads).min(self.tokens_per_batch),
        };
        groups(&requests, tokens, most).map(<[Request]>::to_vec).collect()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.calls.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

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
            scores.tokens.iter().map(|tokens| 24 + tokens.as_ref().map_or(0, |own| size_of_val(own.as_slice()))).sum();
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
    let tokens = |row: &RowTokens| row.check.as_ref().map_or(row.tokens(), Continuation::tail);
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
    for request in calls.iter().flat_map(|call| &call.requests) {
        let Some(wanted) = wanted_of.remove(&request.key) else { continue };
        match known.get(request.key, wanted) {
            Some(scores) => drop(answers.insert(request.key, Ok(scores))),
            None => missing.push(Request { wanted, ..request.clone() }),
        }
    }
    loop {
        let open = calls.iter().filter(|call| !call.answer.is_closed());
        let awaited: BTreeSet<RowKey> = open.flat_map(|call| &call.requests).map(|request| request.key).collect();
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
        request.row.scores(request.wanted, rest.split_off(..targets.len()).unwrap_or_default())
    };
    Ok(run.iter().zip(&targets).map(of_row).collect())
}

#[cfg(test)]
mod tests;
