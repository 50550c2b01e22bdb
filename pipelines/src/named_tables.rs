//! Tables of a SQL session that are named by their location.

use std::collections::HashMap;
use std::sync::Arc;

use crate::corpus::{self, plain_table};
use crate::delta::Log;
use crate::location;
use crate::run::output::table_properties::PIPELINE;
use crate::session::session_of;
use asap_llm::Llm;
use asap_udfs::{Models, Settings};
use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{
    DynamicFileCatalog, MemTable, Session, TableProvider, TableProviderFactory, UrlTableFactory,
};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, GetExt, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use deltalake_core::delta_datafusion::DeltaTableFactory;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use url::Url;

/// A session with the functions, settings and rules of asap, whose tables may be named by their location.
///
/// # Errors
/// If the engine rejects the settings.
pub fn session(settings: Settings, llm: &Llm, models: &Models) -> Result<SessionContext> {
    with_tables(session_of(settings, llm, models)?)
}

/// Adds Delta tables as external tables, and files and folders as tables: `FROM 's3://bucket/a.parquet'`.
pub fn with_tables(context: SessionContext) -> Result<SessionContext> {
    context.state_ref().write().table_factories_mut().insert("DELTATABLE".to_string(), Arc::new(DeltaTables));
    context.state_ref().write().register_file_format(Arc::new(JsonLines(JsonFormatFactory::new())), true)?;
    let tables = Arc::new(UrlTables::default());
    let state = context.state();
    let catalogs = DynamicFileCatalog::new(state.catalog_list().clone(), tables.clone());
    let builder = context.into_state_builder().with_session_id(state.session_id().to_string());
    let context = SessionContext::from(builder.with_catalog_list(Arc::new(catalogs)).build());
    tables.files.session_store().with_state(context.state_weak_ref());
    Ok(context)
}

pub fn is_remote(named: &str) -> bool {
    named.contains("://") && !named.starts_with("file://") && !named.starts_with("stdin://")
}

/// JSON lines as `.jsonl`, their usual extension; the engine recognizes only `.json`.
#[derive(Debug)]
struct JsonLines(JsonFormatFactory);

impl GetExt for JsonLines {
    fn get_ext(&self) -> String {
        "jsonl".to_string()
    }
}

impl FileFormatFactory for JsonLines {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        self.0.create(state, options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        FileFormatFactory::default(&self.0)
    }
}

/// Delta tables by location. A missing table is an error, and no folder is created.
#[derive(Debug)]
struct DeltaTables;

#[async_trait]
impl TableProviderFactory for DeltaTables {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        for named in command.locations.iter().filter(|named| !is_remote(named)) {
            if !is_delta_table(&location::folder(named)?) {
                return plan_err!("there is no Delta table at {named}");
            }
        }
        self.open(session, command).await
    }
}

impl DeltaTables {
    async fn open(&self, session: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let location = command.locations.first().cloned().unwrap_or_default();
        Ok(Arc::new(DeltaRows { location, rows: DeltaTableFactory {}.create(session, command).await? }))
    }
}

/// Whether a local folder is a Delta table; true for every other location.
fn is_delta_table(folder: &Url) -> bool {
    location::local_path(folder).is_none_or(|path| path.join("_delta_log").is_dir())
}

async fn delta(session: &dyn Session, folder: &str) -> Result<Arc<dyn TableProvider>> {
    let create = CreateExternalTable::builder("delta", folder, "DELTATABLE", Arc::new(DFSchema::empty()));
    DeltaTables.open(session, &create.build()).await
}

/// The longest list of a condition that a Delta table uses to skip files.
const SKIPS_BY: usize = 1_000;

/// A Delta table that takes no rows if it is an output of a run. It gets no long lists of values: its reader makes an
/// expression of one level for each value, which overflows the stack. The engine evaluates these conditions on the rows.
#[derive(Debug)]
struct DeltaRows {
    location: String,
    rows: Arc<dyn TableProvider>,
}

fn has_long_list(condition: &Expr) -> bool {
    let is_long = |part: &Expr| Ok(matches!(part, Expr::InList(list) if list.list.len() > SKIPS_BY));
    // The closure cannot fail, so the walk cannot fail.
    condition.exists(is_long).unwrap_or(true)
}

#[async_trait]
impl TableProvider for DeltaRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        self.rows.table_type()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match has_long_list(filter) {
            true => Ok(TableProviderFilterPushDown::Unsupported),
            false => self.rows.supports_filters_pushdown(&[filter]).map(|found| found[0].clone()),
        };
        filters.iter().map(support).collect()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.scan(session, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        rows: Arc<dyn ExecutionPlan>,
        how: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if is_output(&self.location).await? {
            return plan_err!(
                "{} is an output of asap run, which only runs may fill: insert into another table, or write the rows \
                 with COPY (SELECT …) TO 'FILE'",
                self.location
            );
        }
        self.rows.insert_into(session, rows, how).await
    }
}

/// Whether a table is the output of a run.
async fn is_output(location: &str) -> Result<bool> {
    let log = Log::open(&location::folder(location)?).await?;
    Ok(log.is_some_and(|log| log.state.metadata.configuration.contains_key(PIPELINE)))
}

/// Files, folders and Delta tables as the engine finds them, but a failing store is not reported as a missing table.
#[derive(Debug, Default)]
struct UrlTables {
    files: DynamicListTableFactory,
}

impl UrlTables {
    /// Files as `--from` reads them; other formats as the engine does.
    async fn files(&self, state: &SessionState, named: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match plain_table(state, named).await? {
            Some(table) => Ok(Some(table)),
            None => self.files.try_new(named).await,
        }
    }

    /// The rejects of an output that has none: no rows, with the columns of its rows.
    async fn no_rejects(&self, state: &SessionState, output: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(rows) = self.found(state, &format!("{output}/")).await? else { return Ok(None) };
        if !is_output(output).await? {
            return Ok(None);
        }
        let about = ["status", "error"];
        let others = rows
            .schema()
            .fields()
            .iter()
            .filter(|field| !about.contains(&field.name().as_str()))
            .cloned()
            .collect::<Vec<_>>();
        let about = about.map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
        let schema = Arc::new(Schema::new(others.into_iter().chain(about).collect::<Vec<_>>()));
        Ok(Some(Arc::new(MemTable::try_new(schema, vec![vec![]])?)))
    }

    async fn found(&self, state: &SessionState, named: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let url = location::parse(named)?;
        if !is_remote(named) {
            return match url.path().ends_with('/') && is_delta_table(&url) {
                true => delta(state, named).await.map(Some),
                false => self.files(state, named).await,
            };
        }
        let store = state.runtime_env().object_store_registry.get_store(&url)?;
        let path = Path::from_url_path(url.path()).map_err(Error::from)?;
        if corpus::is_delta_table(store.as_ref(), &path).await.unwrap_or(false) {
            return delta(state, url.as_str()).await.map(Some);
        }
        if let Some(table) = self.files(state, url.as_str()).await? {
            return Ok(Some(table));
        }
        let found = match url.path().ends_with('/') {
            true => store.list(Some(&path)).try_next().await.map(drop),
            false => store.head(&path).await.map(drop),
        };
        match found {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl UrlTableFactory for UrlTables {
    async fn try_new(&self, named: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let session = self.files.session_store().get_session().upgrade();
        let state = session.and_then(|session| session.read().as_any().downcast_ref::<SessionState>().cloned());
        let Some(state) = state else { return Ok(None) };
        match (self.found(&state, named).await?, named.trim_end_matches('/').strip_suffix("/.asap/rejects")) {
            (None, Some(output)) => self.no_rejects(&state, output).await,
            (found, _) => Ok(found),
        }
    }
}
