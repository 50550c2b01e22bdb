//! Reads footers, and groups files by schema.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;

use crate::corpus::files::footer::Footer;
use crate::corpus::files::{deletion_vector, footer, json};
use crate::corpus::scan::table::Group;
use crate::corpus::{CorpusFile, FileFailure, FileRows};

const CONCURRENT_FOOTERS: usize = 16;

pub(crate) type Read = (Footer, Arc<[u64]>);

/// Reads the footers of files. Returns each with the file that its rows are read from.
pub(crate) async fn read_footers(
    session: &dyn Session,
    files: Vec<CorpusFile>,
) -> Result<Vec<(CorpusFile, Result<Read>)>> {
    let footers = files.into_iter().map(|file| async {
        let store = session.runtime_env().object_store(&file.store_url)?;
        if file.in_table.is_some() || !json::is_json(&file.name) {
            let read = read_footer(store.as_ref(), &file).await;
            return Ok((file, read));
        }
        match json::convert(store.as_ref(), &file).await {
            Ok(converted) => {
                let store = session.runtime_env().object_store(&converted.store_url)?;
                let read = read_footer(store.as_ref(), &converted).await;
                Ok((converted, read))
            }
            Err(error) => Ok((file, Err(error))),
        }
    });
    futures::stream::iter(footers.collect::<Vec<_>>()).buffered(CONCURRENT_FOOTERS).try_collect().await
}

async fn read_footer(store: &dyn ObjectStore, file: &CorpusFile) -> Result<Read> {
    let footer = match footer::read(store, &file.meta, &file.name).await {
        Err(DataFusionError::ObjectStore(error)) if matches!(*error, object_store::Error::NotFound { .. }) => {
            return Err(file.not_found(*error));
        }
        footer => footer?,
    };
    let vector = file.in_table.as_ref().and_then(|table| Some((&table.folder, table.deletion_vector.as_ref()?)));
    let deleted = match vector {
        Some((folder, vector)) => deletion_vector::deleted_rows(store, folder, vector).await?,
        None => Arc::default(),
    };
    Ok((footer, deleted))
}

/// Groups files with the same columns. Files whose footer cannot be read become failures.
pub(crate) fn group(footers: Vec<(CorpusFile, Result<Read>)>, failures: &mut Vec<FileFailure>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (file, read) in footers {
        let (Footer { schema, row_groups, never_null, items }, deleted) = match read {
            Ok(read) => read,
            Err(error) => {
                failures.push(FileFailure::new(&file.path, &error));
                continue;
            }
        };
        if schema.fields().is_empty() && row_groups.is_empty() {
            continue;
        }
        let in_table = file.in_table.as_ref().map(|table| Arc::clone(&table.columns));
        let keys = file.partitions.iter().map(|(key, _)| key);
        let (schema, partitions): (SchemaRef, Vec<FieldRef>) = match &in_table {
            Some(columns) => {
                let given = |field: &&FieldRef| file.partitions.iter().any(|(key, _)| key == field.name());
                let (given, stored): (Vec<_>, Vec<_>) = columns.fields().iter().partition(given);
                (
                    Arc::new(Schema::new(stored.into_iter().cloned().collect::<Fields>())),
                    given.into_iter().cloned().collect(),
                )
            }
            None => {
                // A column of the file takes precedence over its folder name.
                let given = keys.filter(|key| schema.field_with_name(key).is_err());
                let given = given.map(|key| Arc::new(Field::new(key, DataType::Utf8, true)));
                (Arc::clone(&schema), given.collect())
            }
        };
        let rows = FileRows { file: Arc::new(file), row_groups: row_groups.into(), deleted };
        let same = groups.iter_mut().find(|group| {
            group.stored == schema
                && group.partitions == partitions
                && group.in_table == in_table
                && group.files[0].file.store_url == rows.file.store_url
        });
        match same {
            Some(group) => {
                group.files.push(rows);
                group.never_null.retain(|name| never_null.contains(name));
                items.into_iter().for_each(|(name, items)| *group.items.entry(name).or_default() += items);
            }
            None => groups.push(Group { stored: schema, partitions, in_table, never_null, items, files: vec![rows] }),
        }
    }
    groups
}
