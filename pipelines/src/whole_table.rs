//! Tables that are small enough to be written and read as a whole, such as the responses of an evaluation.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::json::writer::JsonArray;
use datafusion::arrow::json::{ReaderBuilder, WriterBuilder};
use datafusion::common::{Result, config_err, exec_datafusion_err, exec_err};
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use url::Url;

use crate::delta::{Log, add, check_output, commit, remove, store_of, stores};
use crate::location;
use crate::shards::{SHARD_BYTES, Shards};

/// A table at one version.
#[derive(Debug, Default)]
pub struct WholeTable {
    pub properties: HashMap<String, String>,
    pub batches: Vec<RecordBatch>,
}

impl WholeTable {
    /// Returns the rows. A column that `T` does not have is ignored.
    ///
    /// # Errors
    /// If a column of `T` is missing or has another type.
    pub fn rows<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        rows_of(&self.batches)
    }
}

/// Returns the rows of batches, as [`WholeTable::rows`].
///
/// # Errors
/// If a column of `T` is missing or has another type.
pub fn rows_of<T: DeserializeOwned>(batches: &[RecordBatch]) -> Result<Vec<T>> {
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
    writer.finish()?;
    let json = writer.into_inner();
    if json.is_empty() {
        return Ok(vec![]);
    }
    serde_json::from_slice(&json).map_err(|error| exec_datafusion_err!("the table has other columns: {error}"))
}

/// Returns rows as a batch for [`replace`]. `columns` are the names of columns of each type, separated by spaces, in order.
///
/// # Errors
/// If a field of `T` does not fit its column.
pub fn batch<T: Serialize>(columns: &[(DataType, &str)], rows: &[T]) -> Result<RecordBatch> {
    let fields =
        columns.iter().flat_map(|(kind, names)| names.split(' ').map(|name| Field::new(name, kind.clone(), true)));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut decoder = ReaderBuilder::new(schema.clone()).with_batch_size(rows.len().max(1)).build_decoder()?;
    decoder.serialize(rows)?;
    Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(schema)))
}

/// Checks that a table at `url`, if there is one, has the value `identity` in `property`, and that a folder without a table
/// has no files of others. It reads no row. Returns whether there is a table.
///
/// # Errors
/// If there is another table, or files of others, or the store fails.
pub async fn check_identity(url: &Url, property: &str, identity: &str) -> Result<bool> {
    stores::register();
    let shown = location::display(url);
    let command = property.replace('.', " ");
    let Some(log) = Log::open(url).await? else {
        let held = store_of(url)?.list_with_delimiter(None).await?;
        let names = held.objects.iter().map(|object| &object.location).chain(&held.common_prefixes);
        let is_own = |name: &&Path| name.as_ref().starts_with(['.', '_']);
        return match names.into_iter().find(|name| !is_own(name)) {
            Some(name) => config_err!("{shown} has {name}, and no table of {command}: choose a new folder"),
            None => Ok(false),
        };
    };
    match log.state.metadata.configuration.get(property) {
        Some(found) if found == identity => Ok(true),
        Some(found) => {
            config_err!("{shown} has {property} with {}: choose another folder", differences(found, identity))
        }
        None => {
            config_err!("{shown} is a table of something else than {command}: choose another folder")
        }
    }
}

/// The entries of two JSON objects that differ.
fn differences(found: &str, wanted: &str) -> String {
    let [found, wanted] = [found, wanted].map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
    let names: BTreeSet<&String> =
        [&found, &wanted].into_iter().filter_map(Value::as_object).flat_map(Map::keys).collect();
    let differing = names.into_iter().filter(|name| found.get(name) != wanted.get(name));
    let shown = |object: &Value, name: &str| object.get(name).map_or("unset".to_string(), Value::to_string);
    let shown = differing.map(|name| format!("{name} {}, not {}", shown(&found, name), shown(&wanted, name)));
    shown.collect::<Vec<_>>().join("; ")
}

/// Checks that a table can be written at `url`, before work is done for it.
///
/// # Errors
/// If the store refuses.
pub async fn check_writable(url: &Url) -> Result<()> {
    stores::register();
    check_output(store_of(url)?.as_ref(), &location::display(url)).await
}

/// Reads all rows of the Delta table at `url`; None if there is no table.
///
/// # Errors
/// If the store fails, or the table needs features that asap does not read.
pub async fn read(url: &Url) -> Result<Option<WholeTable>> {
    stores::register();
    let Some(log) = Log::open(url).await? else { return Ok(None) };
    log.state.check_readable(url)?;
    let mut batches = Vec::new();
    for file in log.state.files.values() {
        if file.deletion_vector.is_some() {
            return exec_err!("{} has deleted rows, which are not supported here", location::display(url));
        }
        batches.extend(log.rows_of(file, &[]).await?.try_collect::<Vec<_>>().await?);
    }
    Ok(Some(WholeTable { properties: log.state.metadata.configuration, batches }))
}

/// Replaces all rows of the Delta table at `url` by `batch` in one commit. Creates the table with `properties` if it
/// does not exist. Time travel still shows the earlier rows.
///
/// # Errors
/// If the store fails, or the table has other columns.
pub async fn replace(url: &Url, batch: &RecordBatch, properties: HashMap<String, Option<String>>) -> Result<()> {
    let schema = batch.schema();
    let mut log = match Log::open(url).await? {
        Some(log) => log,
        None => Log::create(url, schema.clone(), &[], properties.clone()).await?,
    };
    if log.state.schema()?.fields() != schema.fields() {
        return exec_err!("the table {} has other columns: choose another folder", location::display(url));
    }
    let mut shards = Shards::begin(store_of(url)?, Path::default(), &schema, &[], SHARD_BYTES)?;
    shards.write(batch).await?;
    let added = shards.finish().await?;
    let prepare = |state: &crate::delta::LogState| {
        let held = &state.metadata.configuration;
        if let Some((name, _)) = properties.iter().find(|(name, value)| held.get(*name) != value.as_ref()) {
            return exec_err!(
                "another command made {} with another {name}: choose another folder",
                location::display(url)
            );
        }
        let removed = state.files.values().map(remove);
        Ok(commit("WRITE", "Overwrite", json!({}), removed.chain(added.iter().map(add)).collect()))
    };
    log.commit(prepare).await?;
    Ok(())
}
