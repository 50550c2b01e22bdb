//! The properties of the tables of an output, and how tables are created and widened.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use url::Url;

use crate::asap_folder::FOLDER;
use crate::delta::{self, Log, LogState};
use crate::location;
use crate::run::ledger::ATTEMPT;
use crate::run::output::identity::Identity;
use crate::run::output::outcomes::Division;
use crate::run::output::provenance::Provenance;
use crate::run::sample::Sample;
use crate::shards::BOUNDS;

pub(crate) const PIPELINE: &str = "asap.pipeline";
pub(crate) const PROVENANCE: &str = "asap.provenance";
pub(crate) const GENERATION: &str = "asap.generation";
pub(crate) const SAMPLE: &str = "asap.sample";
const SLICE_ROWS: &str = "asap.sliceRows";
/// The property with [`Division::originals`].
const ORIGINALS: &str = "asap.originals";

#[derive(Debug)]
pub struct Design {
    pub rows: Division,
    pub partition_by: Vec<String>,
    pub identity: Identity,
    pub provenance: Provenance,
    pub slice_rows: u64,
    pub sample: Option<Sample>,
}

#[derive(Debug, Default)]
pub struct HeldOriginals {
    /// The original columns of the table: names as in the files, types as in the table.
    pub held: Vec<FieldRef>,
    pub left_out: Vec<String>,
}

impl HeldOriginals {
    pub(crate) fn of(state: &LogState) -> Result<Self> {
        let originals = originals_of(state)?;
        let schema = state.schema()?;
        let mut known = Self::default();
        for (name, column) in originals {
            if column.is_empty() {
                known.left_out.push(name);
            } else {
                let data_type = schema.field_with_name(&column)?.data_type().clone();
                known.held.push(Arc::new(Field::new(name, data_type, true)));
            }
        }
        Ok(known)
    }
}

pub(crate) fn originals_of(state: &LogState) -> Result<Vec<(String, String)>> {
    let property = state.metadata.configuration.get(ORIGINALS).map_or("[]", String::as_str);
    serde_json::from_str(property)
        .map_err(|error| exec_datafusion_err!("the property {ORIGINALS} of the output cannot be read: {error}"))
}

/// A property of a table as JSON text.
fn encode(property: &impl Serialize) -> Result<String> {
    serde_json::to_string(property).map_err(|error| exec_datafusion_err!("a property cannot be written: {error}"))
}

/// A property that an earlier run encoded; None if an earlier asap wrote the table.
pub(crate) fn decode<T: DeserializeOwned>(state: &LogState, property: &str) -> Option<T> {
    serde_json::from_str(state.metadata.configuration.get(property)?).ok()
}

pub(crate) fn generation(state: &LogState) -> u64 {
    state.metadata.configuration.get(GENERATION).and_then(|generation| generation.parse().ok()).unwrap_or(0)
}

/// The maximum number of rows of a slice, if the table was created with one.
pub(crate) fn slice_rows(state: &LogState) -> Option<u64> {
    state.metadata.configuration.get(SLICE_ROWS)?.parse().ok().filter(|rows| *rows > 0)
}

pub(crate) fn properties(design: &Design, generation: u64) -> Result<HashMap<String, String>> {
    let mut properties = HashMap::from([
        (PIPELINE.to_string(), encode(&design.identity)?),
        (PROVENANCE.to_string(), encode(&design.provenance)?),
        (GENERATION.to_string(), generation.to_string()),
        (SLICE_ROWS.to_string(), design.slice_rows.to_string()),
        (ORIGINALS.to_string(), json!(design.rows.originals).to_string()),
        // Other writers that rewrite shards keep the bounds by which the rows of a file are found.
        ("delta.dataSkippingStatsColumns".to_string(), format!("source.{BOUNDS}")),
    ]);
    if let Some(sample) = &design.sample {
        properties.insert(SAMPLE.to_string(), encode(sample)?);
    }
    Ok(properties)
}

/// Adds missing columns and new original columns in a separate commit, unless `check` refuses the state of the table.
pub(crate) async fn widen(
    log: &mut Log,
    schema: &Schema,
    originals: &[(String, String)],
    check: impl Fn(&LogState) -> Result<()>,
) -> Result<()> {
    log.commit(|state| {
        check(state)?;
        let held = state.schema()?;
        let new: Vec<FieldRef> =
            schema.fields().iter().filter(|field| held.field_with_name(field.name()).is_err()).cloned().collect();
        let mut known = originals_of(state)?;
        let before = known.len();
        for (name, column) in originals {
            if !known.iter().any(|(held, _)| held == name) {
                known.push((name.clone(), column.clone()));
            }
        }
        if new.is_empty() && known.len() == before {
            return Ok(vec![]);
        }
        let names: Vec<&String> = new.iter().map(|field| field.name()).collect();
        let all = Schema::new(held.fields().iter().cloned().chain(new.iter().cloned()).collect::<Vec<_>>());
        let mut metadata = state.with_schema(&all)?;
        if !originals.is_empty() {
            metadata.configuration.insert(ORIGINALS.to_string(), json!(known).to_string());
        }
        let actions = vec![delta::metadata(&metadata)];
        Ok(delta::commit("ADD COLUMN", "Append", json!({ "columns": names }), actions))
    })
    .await?;
    Ok(())
}

/// Checks that the location of a new table is empty. The folder `.asap` and leftovers of a run that was killed before its
/// first commit are allowed.
pub(crate) async fn check_empty(url: &Url, store: &dyn ObjectStore) -> Result<()> {
    let found = store.list_with_delimiter(None).await?;
    let mut others = found.objects.iter().map(|file| file.location.to_string()).collect::<Vec<_>>();
    for folder in &found.common_prefixes {
        let name = folder.as_ref();
        let is_empty_log = name == delta::FOLDER && is_empty_log(store, folder).await?;
        if name != FOLDER && !name.starts_with(ATTEMPT) && !is_empty_log {
            others.push(name.to_string());
        }
    }
    match others.first() {
        None => Ok(()),
        Some(name) => exec_err!(
            "{} exists and is not a table of asap (it contains {name}): choose another output or an empty folder",
            location::display(url)
        ),
    }
}

/// Whether the folder of a log has only probes from killed processes.
async fn is_empty_log(store: &dyn ObjectStore, folder: &Path) -> Result<bool> {
    let is_probe = |file: &ObjectMeta| file.location.filename().is_some_and(|name| name.starts_with(delta::PROBE));
    let first = store.list(Some(folder)).try_filter(|file| std::future::ready(!is_probe(file))).try_next().await?;
    Ok(first.is_none())
}
