//! Files as a table of their own columns, for SQL that names a folder: the same files as `--from` reads, by the same reader.

use std::future::ready;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, Result};
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::corpus::files::{footer, is_hidden, json, listing};
use crate::corpus::scan::groups::{group, read_footers};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::{Files, Source, list};
use crate::objects::{existing, named};

/// A table of the Parquet and JSON files of a folder or pattern, or of one JSON file. A column that a file lacks is NULL in its
/// rows. `None` where there is no such file.
///
/// # Errors
/// If a file cannot be read, by its name, or if a column has types that no type covers.
pub async fn plain_table(session: &dyn Session, location: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let source: Source = location.parse()?;
    match has_rows(session, &source).await? {
        // SQL has no other way to report what was read otherwise than written.
        true => files_table(session, source, |note| tracing::warn!("{note}")).await,
        false => check_parquet(session, &source).await.map(|()| None),
    }
}

/// Fails if a named Parquet file has a wrong footer, which the engine trusts.
async fn check_parquet(session: &dyn Session, source: &Source) -> Result<()> {
    let (store, store_url, path) = source.in_store(session)?;
    if !source.url.path().ends_with(".parquet") {
        return Ok(());
    }
    match existing(store.head(&path).await)? {
        Some(file) => footer::metadata(store.as_ref(), &file, &listing::name(&store_url, &path)).await.map(drop),
        None => Ok(()),
    }
}

/// A table of all files of a source. Reports what is read otherwise than written.
pub(crate) async fn files_table(
    session: &dyn Session,
    source: Source,
    on_note: impl Fn(&String),
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Files { files, .. } = list(session, &[source], |_| None).await?;
    let mut failures = Vec::new();
    let groups = group(read_footers(session, files).await?, &mut failures);
    if !failures.is_empty() {
        return Err(failures.swap_remove(0).into());
    }
    let mut plan: Option<LogicalPlanBuilder> = None;
    for group in groups {
        let table = FilesTable::new(group);
        let temporary = table.files().iter().filter_map(|held| held.file.temporary.as_ref());
        temporary.flat_map(|file| &file.notes).for_each(&on_note);
        let columns = table.file_schema().fields().iter();
        let columns: Vec<_> = columns.map(|field| Expr::Column(Column::from_name(field.name()))).collect();
        let rows = table.plan()?.project(columns)?;
        plan = Some(match plan {
            None => rows,
            Some(plan) => plan.union_by_name(rows.build()?)?,
        });
    }
    let view = |plan: LogicalPlanBuilder| Ok(Arc::new(ViewTable::new(plan.build()?, None)) as Arc<dyn TableProvider>);
    plan.map(view).transpose()
}

async fn has_rows(session: &dyn Session, source: &Source) -> Result<bool> {
    let path = source.url.path();
    if !path.ends_with('/') {
        return Ok(json::is_json(path));
    }
    let (store, _, root) = source.in_store(session)?;
    let is_read = |file: &Path| {
        let mut parts = file.prefix_match(&root).into_iter().flatten();
        let name = file.filename().unwrap_or_default();
        !parts.any(|part| is_hidden(part.as_ref())) && (name.ends_with(".parquet") || json::is_lines(name))
    };
    let first = named(store.list(Some(&root))).try_filter(|file| ready(is_read(&file.location))).try_next().await;
    Ok(existing(first)?.flatten().is_some())
}
