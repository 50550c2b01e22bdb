//! The protocol of our tables, and the supported features of other tables.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use delta_kernel::engine::arrow_conversion::{TryIntoArrow, TryIntoKernel};
use delta_kernel::schema::StructType;
use deltalake_core::operations::create::CreateBuilder;
use object_store::ObjectStoreExt;
use url::Url;

use crate::delta::actions::Metadata;
use crate::delta::{LogState, commit_path};
use crate::location;

const HONOURED: [&str; 3] = ["timestampNtz", "appendOnly", "invariants"];

/// Supported features when reading a table. Some tables list columnMapping without using it.
const READ: [&str; 4] = ["timestampNtz", "deletionVectors", "vacuumProtocolCheck", "columnMapping"];
const READER_VERSION: i32 = 3;

/// The bytes of the first commit of a table, without rows, created in memory by the `deltalake` crates.
pub(crate) async fn first_commit(
    schema: SchemaRef,
    partition_by: &[String],
    properties: HashMap<String, Option<String>>,
) -> Result<bytes::Bytes> {
    let columns: StructType = schema.as_ref().try_into_kernel()?;
    let table = CreateBuilder::new()
        .with_location("memory:///")
        .with_columns(columns.fields().cloned())
        .with_partition_columns(partition_by)
        .with_configuration(properties)
        .with_raise_if_key_not_exists(false)
        .await?;
    Ok(table.object_store().get(&commit_path(0)).await?.bytes().await?)
}

impl LogState {
    pub fn schema(&self) -> Result<Schema> {
        let schema: StructType = serde_json::from_str(&self.metadata.schema_string)
            .map_err(|error| exec_datafusion_err!("the table's schema cannot be read: {error}"))?;
        Ok((&schema).try_into_arrow()?)
    }

    pub(crate) fn with_schema(&self, schema: &Schema) -> Result<Metadata> {
        let columns: StructType = schema.try_into_kernel()?;
        let schema_string = serde_json::to_string(&columns)
            .map_err(|error| exec_datafusion_err!("a schema cannot be written: {error}"))?;
        Ok(Metadata { schema_string, ..self.metadata.clone() })
    }

    /// Refuses a table that requires unsupported features of its readers.
    pub(crate) fn check_readable(&self, url: &Url) -> Result<()> {
        let mut features = self.protocol.reader_features.iter().flatten();
        let unknown = features.find(|feature| !READ.contains(&feature.as_str())).cloned();
        let version = self.protocol.min_reader_version;
        let asked = self
            .maps_columns()
            .then(|| "columnMapping".to_string())
            .or(unknown)
            .or((version > READER_VERSION).then(|| format!("version {version} of the protocol for readers")));
        match asked {
            None => Ok(()),
            Some(asked) => exec_err!(
                "the Delta table {} uses {asked}, which asap cannot read: copy its rows to a table without \
                 it, or to plain Parquet files",
                location::display(url)
            ),
        }
    }

    fn maps_columns(&self) -> bool {
        self.metadata.configuration.get("delta.columnMapping.mode").is_some_and(|mode| mode != "none")
    }

    /// Refuses a table that requires unsupported features of its writers.
    pub(crate) fn check_writable(&self, url: &Url) -> Result<()> {
        let features = self.protocol.writer_features.iter().chain(&self.protocol.reader_features).flatten();
        let unknown = features.map(String::as_str).find(|feature| !HONOURED.contains(feature));
        let is_set = |key: &str, off: &str| self.metadata.configuration.get(key).is_some_and(|value| value != off);
        let constraint =
            self.metadata.configuration.keys().find(|key| key.starts_with("delta.constraints.")).map(String::as_str);
        let asked = unknown
            .or(constraint)
            .or(self.maps_columns().then_some("columnMapping"))
            .or(self.metadata.schema_string.contains("delta.generationExpression").then_some("generatedColumns"))
            .or(is_set("delta.enableChangeDataFeed", "false").then_some("changeDataFeed"));
        match asked {
            None => Ok(()),
            Some(asked) => exec_err!(
                "{} uses {asked}, which a run does not support: choose another output, or remove that from the table",
                location::display(url)
            ),
        }
    }
}
