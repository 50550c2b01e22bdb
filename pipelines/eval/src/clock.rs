//! The wall-clock time of the requests. Each command keeps its own file, so a killed evaluation adds its parts.

use std::time::{Duration, Instant};

use asap_pipelines::answers::of_output;
use asap_pipelines::location::Folder;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use url::Url;

/// A killed command loses at most this time.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// The time of one command, or the sum over commands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asking {
    /// From the first request to the last paid response. None if earlier responses were stored without a time.
    pub seconds: Option<f64>,
    /// The most requests in flight.
    pub concurrency: u32,
}

pub(crate) struct Clock {
    folder: Folder,
    name: String,
    begun: Instant,
    saved: Option<Instant>,
    part: Asking,
    paid: u64,
}

impl Clock {
    pub(crate) async fn start(url: &Url, concurrency: u32) -> Result<Self> {
        let (folder, answers) = (open(url)?, Folder::open(&of_output(url)?)?);
        let answers: Vec<_> = answers.store.list(None).try_collect().await?;
        let is_answer = |file: &ObjectMeta| file.location.extension() == Some("parquet");
        let is_known = !answers.iter().any(is_answer) || !parts(&folder).await?.is_empty();
        let name = format!("{}-{}.json", chrono::Utc::now().timestamp_millis(), std::process::id());
        let part = Asking { seconds: is_known.then_some(0.0), concurrency };
        Ok(Self { folder, name, begun: Instant::now(), saved: None, part, paid: 0 })
    }

    /// Counts the time up to now if a response was paid since the last call.
    pub(crate) async fn tick(&mut self, paid: u64) -> Result<()> {
        if paid == self.paid {
            return Ok(());
        }
        self.paid = paid;
        self.part.seconds = self.part.seconds.map(|_| self.begun.elapsed().as_secs_f64());
        if self.saved.is_none_or(|saved| saved.elapsed() >= SAVE_EVERY) { self.save().await } else { Ok(()) }
    }

    pub(crate) async fn save(&mut self) -> Result<()> {
        self.saved = Some(Instant::now());
        if self.paid == 0 {
            return Ok(());
        }
        let part = serde_json::to_vec(&self.part).map_err(|error| exec_datafusion_err!("{error}"))?;
        self.folder.store.put(&self.name.as_str().into(), part.into()).await?;
        Ok(())
    }
}

/// The sum of all commands of the evaluation at `url`. None if a time is missing.
pub(crate) async fn total(url: &Url) -> Result<Option<Asking>> {
    let parts = parts(&open(url)?).await?;
    let seconds = parts.iter().map(|part| part.seconds).sum::<Option<f64>>();
    let concurrency = parts.iter().map(|part| part.concurrency).max();
    Ok(concurrency.filter(|_| seconds.is_some()).map(|concurrency| Asking { seconds, concurrency }))
}

fn open(url: &Url) -> Result<Folder> {
    let clock = of_output(url)?.join("../clock/").map_err(|error| DataFusionError::External(Box::new(error)))?;
    Folder::open(&clock)
}

async fn parts(folder: &Folder) -> Result<Vec<Asking>> {
    let files: Vec<_> = folder.store.list(None).try_collect().await?;
    let mut parts = Vec::new();
    for file in files {
        let bytes = folder.store.get(&file.location).await?.bytes().await?;
        let damaged =
            |error| exec_datafusion_err!("{}{} is not a time of requests: {error}", folder.shown, file.location);
        parts.push(serde_json::from_slice(&bytes).map_err(damaged)?);
    }
    Ok(parts)
}
