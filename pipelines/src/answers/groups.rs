//! Stores answers in groups: one object for all that come within a short time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use asap_llm::store::StoreError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::answers::folder::{Folder, now};
use crate::answers::index::Index;
use crate::answers::segment::{GROUP_ANSWERS, Record};

pub(crate) const GROUP_TIME: Duration = Duration::from_millis(250);

pub(super) struct Waiting {
    pub record: Record,
    pub may_wait: bool,
    pub stored: oneshot::Sender<Result<(), StoreError>>,
}

/// Gathers groups and stores each as one segment, several at the same time, until no more answers can come. When this
/// future is dropped, unstored answers are lost, since no caller waits for them any more.
pub(super) async fn gather(mut answers: mpsc::Receiver<Waiting>, folder: Folder, index: Arc<Mutex<Index>>) {
    let mut stores = JoinSet::new();
    while let Some(first) = answers.recv().await {
        let deadline = Instant::now() + GROUP_TIME;
        let mut group = vec![first];
        while group.len() < GROUP_ANSWERS
            && group.iter().all(|waiting| waiting.may_wait)
            && let Ok(Some(next)) = timeout_at(deadline, answers.recv()).await
        {
            group.push(next);
        }
        while stores.try_join_next().is_some() {}
        stores.spawn(store(group, folder.clone(), Arc::clone(&index)));
    }
    stores.join_all().await;
}

/// Stores a group, and then wakes the callers that wait for its answers.
async fn store(group: Vec<Waiting>, folder: Folder, index: Arc<Mutex<Index>>) {
    let (records, waiting): (Vec<_>, Vec<_>) =
        group.into_iter().map(|waiting| (waiting.record, waiting.stored)).unzip();
    let written = folder.write(now(), &records).await;
    let result = written.map(|segment| {
        let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
        let entries: Vec<_> = records.iter().map(Record::entry).collect();
        index.add(segment, None, &entries);
    });
    for stored in waiting {
        // A caller that stopped waiting needs no reply.
        drop(stored.send(result.clone()));
    }
}
