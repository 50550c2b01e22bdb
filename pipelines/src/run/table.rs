//! The tables of an output: pruned rows in `{to}`, rejects in `{to}/_asap/rejects`.

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use delta_kernel::engine::arrow_conversion::{TryIntoArrow, TryIntoKernel};
use delta_kernel::schema::StructType;
use deltalake_core::kernel::transaction::{CommitBuilder, CommitProperties};
use deltalake_core::kernel::{Action, Transaction};
use deltalake_core::operations::create::CreateBuilder;
use deltalake_core::protocol::{DeltaOperation, SaveMode};
use deltalake_core::{DeltaTable, DeltaTableBuilder};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;

use super::stage::{Stage, Staged};
use crate::location;

/// The table property that holds the hash of the pipeline that fills a table.
const PIPELINE: &str = "asap.pipeline";
/// The table property that holds the limit of input rows, where there was one.
const LIMIT: &str = "asap.limit";
/// What the names of folders begin with in which runs write shards: each run has its own.
pub const ATTEMPT: &str = "asap-";
/// The version of a slice's transaction that says: done.
const DONE: i64 = 1;

/// What a table is filled with: it never changes in the life of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Hash of the pipeline: its SQL, the settings that change results, the model.
    pub pipeline: String,
    /// The most input rows that were asked for.
    pub limit: Option<u64>,
}

/// A Delta table that is there, or will be with its first commit.
pub struct Table {
    url: Url,
    delta: DeltaTable,
    exists: bool,
}

impl Table {
    /// Opens the table at `url`, which may not exist yet.
    ///
    /// # Errors
    /// If something other than a table of asap is there; the message names the location.
    pub async fn open(url: Url) -> Result<Self> {
        let store = location::store(&url)?;
        let mut delta = DeltaTableBuilder::from_url(url.clone())?.with_storage_backend(store, url.clone()).build()?;
        let exists = delta.verify_deltatable_existence().await?;
        if exists {
            delta.load().await?;
        } else {
            check_empty(&url, delta.object_store().as_ref()).await?;
        }
        let table = Self { url, delta, exists };
        if exists && table.origin()?.is_none() {
            return exec_err!(
                "{} is a Delta table that asap did not make: choose another output",
                location::display(&table.url)
            );
        }
        Ok(table)
    }

    /// Whether the table has a first commit.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The URL of a table that is kept beside this one.
    pub fn beside(&self, folder: &str) -> Result<Url> {
        self.url.join(folder).map_err(|error| exec_datafusion_err!("{}{folder} is not a URL: {error}", self.url))
    }

    /// The last version, if there is one.
    pub fn version(&self) -> Option<u64> {
        self.delta.version()
    }

    /// What the table is filled with, if it exists and is one of asap's.
    pub fn origin(&self) -> Result<Option<Origin>> {
        if !self.exists {
            return Ok(None);
        }
        let properties = self.delta.snapshot()?.metadata().configuration();
        let limit = properties.get(LIMIT).map(|limit| limit.parse()).transpose().map_err(|error| {
            exec_datafusion_err!("the property {LIMIT} of {} is not a number: {error}", location::display(&self.url))
        })?;
        Ok(properties.get(PIPELINE).map(|pipeline| Origin { pipeline: pipeline.clone(), limit }))
    }

    /// Whether a slice of the input has been committed.
    pub async fn is_done(&self, slice: &str) -> Result<bool> {
        if !self.exists {
            return Ok(false);
        }
        let version = self.delta.snapshot()?.transaction_version(self.delta.log_store().as_ref(), slice).await?;
        Ok(version == Some(DONE))
    }

    /// Writes an empty object to the folder of an attempt and removes it.
    ///
    /// # Errors
    /// If that fails: then the shards could not be written either, and no row need be read.
    pub async fn check_writable(&self, attempt: &str) -> Result<()> {
        let (store, probe) = (self.delta.object_store(), Path::from(attempt).join("probe"));
        let probed = match store.put(&probe, PutPayload::new()).await {
            Ok(_) => store.delete(&probe).await,
            Err(error) => Err(error),
        };
        probed.map_err(|error| exec_datafusion_err!("cannot write to {}: {error}", location::display(&self.url)))
    }

    /// Begins shards of this table. `attempt` names their folder.
    pub fn stage(&self, attempt: &str, schema: SchemaRef) -> Result<Stage> {
        if self.exists {
            self.check_schema(&schema)?;
        }
        Stage::begin(self.delta.object_store(), Path::from(attempt), schema)
    }

    fn check_schema(&self, schema: &Schema) -> Result<()> {
        let held: Schema = self.delta.snapshot()?.schema().as_ref().try_into_arrow()?;
        let columns = |schema: &Schema| {
            schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect::<Vec<_>>()
        };
        let (held, found) = (columns(&held), columns(schema));
        if held == found {
            return Ok(());
        }
        let differing = held.iter().chain(&found).find(|column| !(held.contains(column) && found.contains(column)));
        exec_err!(
            "{} holds other columns than this run would write (the first that differs: {}): choose another output",
            location::display(&self.url),
            differing.map_or("their order", String::as_str)
        )
    }

    /// Makes staged shards visible in one commit that also records which slices they came from.
    ///
    /// The commit creates the table where it is the first. With `overwrite` the rows that were there go.
    ///
    /// # Errors
    /// If the commit is not in the log afterwards; the shards are then removed.
    pub async fn commit(
        mut self,
        schema: &Schema,
        staged: Staged,
        origin: &Origin,
        slices: &[String],
        overwrite: bool,
    ) -> Result<u64> {
        let transactions: Vec<Transaction> = slices.iter().map(|slice| Transaction::new(slice, DONE)).collect();
        let properties = CommitProperties::default().with_application_transactions(transactions);
        let mut actions: Vec<Action> = staged.adds.iter().cloned().map(Action::Add).collect();
        let result = if self.exists {
            if overwrite {
                actions.extend(self.removes().await?);
            }
            self.append(actions, properties, overwrite).await
        } else {
            self.create(schema, actions, properties, origin).await
        };
        match result {
            Ok(version) => Ok(version),
            // A reply can be lost after the commit was made: the log knows.
            Err(error) => match self.version_that_holds(&staged).await {
                Some(version) => Ok(version),
                None => {
                    staged.abandon().await?;
                    let to = location::display(&self.url);
                    exec_err!(
                        "cannot commit to {to}: {error}; nothing of this run is in it. Where another run was faster, the \
                         same command goes on behind it"
                    )
                }
            },
        }
    }

    async fn removes(&self) -> Result<Vec<Action>> {
        let log_store = self.delta.log_store();
        let files: Vec<_> = self.delta.snapshot()?.snapshot().file_views(&log_store, None).try_collect().await?;
        Ok(files.iter().map(|file| file.remove_action(true).into()).collect())
    }

    async fn append(&self, actions: Vec<Action>, properties: CommitProperties, overwrite: bool) -> Result<u64> {
        let mode = if overwrite { SaveMode::Overwrite } else { SaveMode::Append };
        let operation = DeltaOperation::Write { mode, partition_by: None, predicate: None };
        let commit = CommitBuilder::from(properties)
            .with_actions(actions)
            .build(Some(self.delta.snapshot()?), self.delta.log_store(), operation)
            .await?;
        Ok(commit.version())
    }

    async fn create(
        &self,
        schema: &Schema,
        actions: Vec<Action>,
        properties: CommitProperties,
        origin: &Origin,
    ) -> Result<u64> {
        let columns: StructType = schema.try_into_kernel()?;
        let configuration =
            [(PIPELINE, Some(origin.pipeline.clone())), (LIMIT, origin.limit.map(|limit| limit.to_string()))];
        let table = CreateBuilder::new()
            .with_log_store(self.delta.log_store())
            .with_columns(columns.fields().cloned())
            .with_configuration(configuration)
            .with_raise_if_key_not_exists(false)
            .with_actions(actions)
            .with_commit_properties(properties)
            .await?;
        table.version().ok_or_else(|| exec_datafusion_err!("{} has no version after its commit", self.url))
    }

    async fn version_that_holds(&mut self, staged: &Staged) -> Option<u64> {
        self.delta.load().await.ok()?;
        let log_store = self.delta.log_store();
        let files: Vec<_> =
            self.delta.snapshot().ok()?.snapshot().file_views(&log_store, None).try_collect().await.ok()?;
        let first = staged.adds.first()?;
        files.iter().any(|file| file.path() == first.path).then(|| self.delta.version()).flatten()
    }
}

/// A place for a new table is empty, or holds only what asap keeps beside a table and what a run leaves that was killed
/// before its first commit.
async fn check_empty(url: &Url, store: &dyn ObjectStore) -> Result<()> {
    let found = store.list_with_delimiter(None).await?;
    let mut others = found.objects.iter().map(|file| file.location.to_string()).collect::<Vec<_>>();
    for folder in &found.common_prefixes {
        let name = folder.as_ref();
        let is_empty_log = name == "_delta_log" && store.list(Some(folder)).try_next().await?.is_none();
        if name != "_asap" && !name.starts_with(ATTEMPT) && !is_empty_log {
            others.push(name.to_string());
        }
    }
    match others.first() {
        None => Ok(()),
        Some(name) => exec_err!(
            "{} exists and is not a table of asap (it holds {name}): choose another output or an empty folder",
            location::display(url)
        ),
    }
}
