//! The shared daily spending of the runs of an output: a log of amounts, each in a small object that is created only if
//! it does not exist.
//!
//! A run reserves a twentieth of the daily budget at a time and returns what it did not spend. The reservation of a
//! killed run counts as spent. The day (UTC) is that of the start of the run.

use asap_llm::store::{Purse, StoreError, Taken};
use async_trait::async_trait;
use chrono::Utc;
use datafusion::common::Result;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use url::Url;
use uuid::Uuid;

use crate::delta::store_of;
use crate::{location, objects};

const FOLDER: &str = "spent";
const SHARES: f64 = 20.0;

#[derive(Debug)]
pub struct Spent {
    store: Arc<dyn ObjectStore>,
    day: Path,
    shown: String,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Entry {
    id: Uuid,
    amount: f64,
    total: f64,
}

impl Spent {
    /// The spending of today for an output; `asap_folder` is the folder of asap next to it.
    pub fn today(asap_folder: &Url) -> Result<Self> {
        let day = Path::from_iter([FOLDER, &Utc::now().format("%Y-%m-%d").to_string()]);
        let shown = format!("{}/{day}", location::display(asap_folder).trim_end_matches('/'));
        Ok(Self { store: store_of(asap_folder)?, day, shown })
    }

    fn entry(&self, number: u64) -> Path {
        self.day.clone().join(format!("{number:08}.json"))
    }

    fn failed(&self, error: impl std::fmt::Display) -> StoreError {
        StoreError(format!(
            "cannot read or record in {} what was spent today: {error}; check the access to that folder",
            self.shown
        ))
    }

    async fn last(&self) -> Result<(u64, Entry), StoreError> {
        let number = |object: &ObjectMeta| object.location.filename()?.strip_suffix(".json")?.parse::<u64>().ok();
        let listed = objects::list(self.store.as_ref(), &self.day).await.map_err(|error| self.failed(error))?;
        match listed.iter().filter_map(number).max() {
            Some(last) => Ok((last, self.read(last).await?)),
            None => Ok((0, Entry::default())),
        }
    }

    async fn read(&self, number: u64) -> Result<Entry, StoreError> {
        let read = async { self.store.get(&self.entry(number)).await?.bytes().await };
        let bytes = read.await.map_err(|error| self.failed(error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.failed(error))
    }

    /// Adds the amount that `amount` computes from the total so far. Returns the amount and the new total.
    async fn add(&self, amount: impl Fn(f64) -> f64) -> Result<Taken, StoreError> {
        let id = Uuid::new_v4();
        loop {
            let (last, Entry { total, .. }) = self.last().await?;
            let amount = amount(total);
            if amount == 0.0 {
                return Ok(Taken { amount, total });
            }
            let entry = Entry { id, amount, total: total + amount };
            let bytes = serde_json::to_vec(&entry).map_err(|error| self.failed(error))?;
            match self.store.put_opts(&self.entry(last + 1), PutPayload::from(bytes), PutMode::Create.into()).await {
                Ok(_) => return Ok(Taken { amount, total: entry.total }),
                // Another run was faster; or the reply was lost and the entry is ours.
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                    if self.read(last + 1).await?.id == id {
                        return Ok(Taken { amount, total: entry.total });
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }
}

#[async_trait]
impl Purse for Spent {
    async fn take(&self, needed: f64, most: f64) -> Result<Taken, StoreError> {
        self.add(|total| {
            let left = most - total;
            if left < needed { 0.0 } else { left.min(needed.max(most / SHARES)) }
        })
        .await
    }

    async fn settle(&self, left: f64) -> Result<(), StoreError> {
        self.add(|_| -left).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use crate::answers::spent::*;

    fn spent(folder: &tempfile::TempDir) -> Spent {
        Spent::today(&Url::from_directory_path(folder.path()).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn runs_take_from_one_budget() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (spent(&folder), spent(&folder));
        assert_eq!(one.take(1.0, 100.0).await.unwrap(), Taken { amount: 5.0, total: 5.0 });
        assert_eq!(other.take(90.0, 100.0).await.unwrap(), Taken { amount: 90.0, total: 95.0 });
        assert_eq!(one.take(6.0, 100.0).await.unwrap(), Taken { amount: 0.0, total: 95.0 });
        other.settle(10.0).await.unwrap();
        assert_eq!(one.take(6.0, 100.0).await.unwrap(), Taken { amount: 6.0, total: 91.0 });
        // Costs above the reservations count as spent, however high they are.
        other.settle(-50.0).await.unwrap();
        assert_eq!(one.take(1.0, 100.0).await.unwrap(), Taken { amount: 0.0, total: 141.0 });
    }

    #[tokio::test]
    async fn no_more_is_taken_by_many_at_once_than_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let runs: Vec<Spent> = (0..8).map(|_| spent(&folder)).collect();
        let taken = futures::future::join_all(runs.iter().map(async |run| {
            let mut taken = 0.0;
            for _ in 0..10 {
                taken += run.take(1.0, 40.0).await.unwrap().amount;
            }
            taken
        }));
        assert_eq!(taken.await.iter().sum::<f64>(), 40.0);
    }
}
