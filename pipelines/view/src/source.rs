//! An output of a run as asap view reads it: checked, at one version, and queried with SQL.

use asap_kernels::front_end::Flag;
use asap_llm::Llm;
use asap_pipelines::builtin::{BLOCK, ORIGINAL, RANDOM};
use asap_pipelines::location;
use asap_pipelines::named_tables;
use asap_pipelines::outputs::status::{Status, status};
use asap_pipelines::whole_table;
use asap_udfs::{Models, Settings};
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::SessionContext;
use datafusion::functions_aggregate::count::count_all_window;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{lit, when};
use serde::Serialize;
use serde_json::{Map, Value};

use super::filter::Condition;
use crate::failure::Failure;
use crate::output::{error_line, quoted};

/// Rows in a batch: rows hold lists of steps, which a query unnests.
const BATCH_ROWS: usize = 1024;
/// What the pages read of an output, and who writes it.
const COLUMNS: [&str; 9] = [
    "source",
    "question",
    "cot",
    "original_cot",
    "answer",
    "original_tokens",
    "coarse_tokens",
    "pruned_tokens",
    "steps",
];

const STEPS: &str = "asap.chain.steps";
/// The number of rows of a listing, in each row.
const TOTAL: &str = "asap_total";
/// The name of the rows of an output, with the tokens that the other output has of the same chain.
const PAIRS: &str = "both outputs";

pub(crate) struct Source {
    context: SessionContext,
    /// The location as typed, for SQL.
    pub location: String,
    pub status: Status,
    pub schema: DFSchema,
    /// The columns of [`COLUMNS`] of a second output with the same input.
    pub against: Option<String>,
    /// The query of [`PAIRS`], if there is a second output.
    pairs: Option<String>,
    /// The table of an exam.
    pub exam: Option<String>,
}

impl Source {
    /// Opens an output. It stays at its current version: all queries see the same rows.
    pub(crate) async fn open(location: &str, against: Option<&str>, exam: Option<&str>) -> Result<Self, Failure> {
        let context = named_tables::session(Settings::default(), &Llm::default(), &Models::default())?;
        prepare(&context);
        let (location, status, mut schema) = output(&context, location).await?;
        // The pages cut chains as the run did.
        if let Some(separator) = status.pipeline.get(STEPS) {
            context.state_ref().write().config_mut().options_mut().set(STEPS, separator)?;
        }
        let against = match against {
            Some(against) if location::parse(against.trim_end_matches('/'))? == location::parse(&location)? => {
                return Err(Failure::Usage(format!(
                    "{}: {against} is the output itself: pass another output of the same input",
                    Flag("--against")
                )));
            }
            Some(against) => {
                let (against, status, _) = output(&context, against).await?;
                if status.rows == 0 {
                    let why = "its rows are rejects";
                    return Err(Failure::Failed(format!("{against} has no chain to compare with: {why}")));
                }
                check_input(&context, &location, &against).await?;
                Some(against)
            }
            None => None,
        };
        let exam = match exam {
            Some(exam) => {
                let (exam, schema) = pinned(&context, exam).await.map_err(|error| {
                    let why = error_line(&error);
                    Failure::Usage(format!(
                        "{exam} is not an output of asap exam: pass the folder that was its {} ({why})",
                        Flag("--to")
                    ))
                })?;
                if !schema.has_column_with_unqualified_name("survives") {
                    let to = Flag("--to");
                    return Err(Failure::Usage(format!("{exam} has no column survives: pass the {to} of asap exam")));
                }
                let pipeline = status.made_by.as_ref().map(|made| made.pipeline.as_str());
                check_pipeline(&context, &exam, &location, pipeline).await?;
                Some(exam)
            }
            None => None,
        };
        let pairs = against.as_deref().map(|against| {
            format!(
                "SELECT one.*, other.pruned_tokens AS other_tokens FROM {} AS one LEFT JOIN {} AS other\n    \
                 ON one.source['file'] = other.source['file'] AND one.source['row'] = other.source['row']",
                quoted(&location),
                quoted(against)
            )
        });
        if let Some(pairs) = &pairs {
            let pairs = context.sql(pairs).await?.into_view();
            schema = DFSchema::try_from(pairs.schema())?;
            context.register_table(TableReference::bare(PAIRS), pairs)?;
        }
        Ok(Self { context, location, status, schema, against, pairs, exam })
    }

    /// The table that a filter of chains reads.
    pub(crate) fn filtered(&self, filter: Option<&Condition>) -> &str {
        if filter.is_some_and(Condition::is_of_pairs) { self.chains() } else { &self.location }
    }

    /// The table that lists of chains read.
    pub(crate) fn chains(&self) -> &str {
        if self.pairs.is_some() { PAIRS } else { &self.location }
    }

    /// Runs a query of a page.
    pub(crate) async fn rows(&self, sql: &str) -> Result<QueryRows> {
        rows(&self.context, sql).await
    }

    /// The rows of a listing.
    pub(crate) async fn listed(&self, listing: &Listing<'_>) -> Result<QueryRows> {
        let rows = self.context.table(TableReference::bare(listing.table)).await?;
        collected(listing.over(rows)?).await
    }

    /// The rows of a listing, and how many it has without its limits. Texts that a filter needs are read once. `all` is the
    /// number of rows without a filter.
    pub(crate) async fn counted(&self, listing: &Listing<'_>, all: u64) -> Result<(QueryRows, u64)> {
        let Some(filter) = listing.condition else { return Ok((self.listed(listing).await?, all)) };
        let table = self.context.table(TableReference::bare(listing.table)).await?.filter(filter.expr.clone())?;
        let table = table.with_column(TOTAL, count_all_window())?;
        let columns = &[listing.columns, &[TOTAL][..]].concat();
        match collected(Listing { columns, condition: None, ..*listing }.over(table)?).await {
            Ok(rows) if listing.first == 0 || rows.first().is_some() => {
                let total = rows.first().map_or(0, |row| row.count(TOTAL));
                Ok((rows, total))
            }
            // The page is after the last row; or the filter failed, and the count reports why.
            rows => {
                let total = self.passed(listing.table, filter).await?;
                Ok((rows?, total))
            }
        }
    }

    /// The columns of the rejects.
    pub(crate) async fn columns_of_rejects(&self) -> Result<DFSchema> {
        let rows = self.context.table(TableReference::bare(self.rejects())).await?;
        DFSchema::try_from(rows.schema().as_arrow().clone())
    }

    /// The number of chains that pass a filter.
    pub(crate) async fn selected(&self, filter: Option<&Condition>) -> Result<u64> {
        match filter {
            Some(condition) => self.passed(self.filtered(filter), condition).await,
            None => Ok(self.status.rows),
        }
    }

    /// The number of rows of a table that pass a filter. It is no filter here: the reader of files would evaluate it and
    /// wrap its errors.
    pub(crate) async fn passed(&self, table: &str, filter: &Condition) -> Result<u64> {
        let rows = self.context.table(TableReference::bare(table)).await?;
        let passed = when(filter.expr.clone(), lit(1)).otherwise(lit(0))?;
        let found = collected(rows.aggregate(vec![], vec![sum(passed).alias("chains")])?).await?;
        Ok(found.first().map_or(0, |row| row.count("chains")))
    }

    /// The location of its rejects.
    pub(crate) fn rejects(&self) -> String {
        format!("{}/.asap/rejects", self.location)
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.schema.has_column_with_unqualified_name(column)
    }
}

/// Rows of a table that pass a condition. The condition is a plan, so that no text of a user becomes a part of a query.
pub(crate) struct Listing<'a> {
    pub table: &'a str,
    pub columns: &'a [&'a str],
    pub condition: Option<&'a Condition>,
    /// Expressions over the columns of the table, and whether the largest is first.
    pub order: &'a [(&'a str, bool)],
    pub first: u64,
    pub rows: Option<u64>,
}

impl Listing<'_> {
    fn over(&self, table: DataFrame) -> Result<DataFrame> {
        let filtered = match self.condition {
            Some(condition) => table.filter(condition.expr.clone())?,
            None => table,
        };
        let order = self
            .order
            .iter()
            .map(|(by, is_largest_first)| Ok(filtered.parse_sql_expr(by)?.sort(!is_largest_first, *is_largest_first)));
        let order = order.collect::<Result<Vec<_>>>()?;
        let sorted = if order.is_empty() { filtered } else { filtered.sort(order)? };
        let number = |rows: u64| rows.min(i64::MAX as u64) as usize;
        sorted.limit(number(self.first), self.rows.map(number))?.select_exprs(self.columns)
    }

    /// The same query for asap sql.
    pub(crate) fn sql(&self, source: &Source) -> String {
        let table = match &source.pairs {
            Some(pairs) if self.table == PAIRS => format!("({pairs})"),
            _ => quoted(self.table),
        };
        let mut lines = vec![format!("SELECT {}", self.columns.join(", ")), format!("FROM {table}")];
        lines.extend(self.condition.map(|condition| format!("WHERE {}", condition.text)));
        let by =
            |(by, is_largest_first): &(&str, bool)| format!("{by}{}", if *is_largest_first { " DESC" } else { "" });
        let order: Vec<_> = self.order.iter().map(by).collect();
        lines.extend((!order.is_empty()).then(|| format!("ORDER BY {}", order.join(", "))));
        lines.extend(self.rows.map(|rows| format!("LIMIT {rows} OFFSET {}", self.first)));
        lines.join("\n")
    }
}

async fn rows(context: &SessionContext, sql: &str) -> Result<QueryRows> {
    collected(context.sql(sql).await?).await
}

async fn collected(found: DataFrame) -> Result<QueryRows> {
    let columns = found.schema().fields().iter().map(|field| field.name().clone()).collect();
    Ok(QueryRows { columns, rows: whole_table::rows_of(&found.collect().await?)? })
}

/// Reads texts only of the rows that pass a filter, in batches that fit memory.
fn prepare(context: &SessionContext) {
    let state = context.state_ref();
    let mut state = state.write();
    let mut config = state.config().clone().with_batch_size(BATCH_ROWS);
    config.options_mut().execution.parquet.pushdown_filters = true;
    *state.config_mut() = config;
}

/// Checks that there is an output with rows or rejects, and with steps.
async fn output(context: &SessionContext, location: &str) -> Result<(String, Status, DFSchema), Failure> {
    let status = status(location).await?;
    if status.rows == 0 && status.rejects.is_empty() {
        let advice = "run asap run first, or wait for its first commit";
        return Err(Failure::Failed(format!("{location} has no rows to show: {advice}")));
    }
    let (location, schema) = pinned(context, location).await?;
    let missing: Vec<_> =
        COLUMNS.into_iter().filter(|column| !schema.has_column_with_unqualified_name(column)).collect();
    if !missing.is_empty() {
        return Err(Failure::Failed(format!(
            "{location} has no column {}: asap view shows outputs of pipelines that keep or drop steps; query this one with \
             asap sql",
            missing.join(", ")
        )));
    }
    Ok((location, status, schema))
}

/// Checks that two outputs have a chain of the same input row.
async fn check_input(context: &SessionContext, location: &str, against: &str) -> Result<(), Failure> {
    let common = format!(
        "SELECT 1 FROM {} AS a JOIN {} AS b ON a.source['file'] = b.source['file'] AND a.source['row'] = b.source['row'] LIMIT 1",
        quoted(location),
        quoted(against)
    );
    match context.sql(&common).await?.count().await? {
        0 => Err(Failure::Usage(format!(
            "{}: {against} has no chain of {location}: pass an output of the same input",
            Flag("--against")
        ))),
        _ => Ok(()),
    }
}

/// Checks that an exam is about the pipeline that made an output.
async fn check_pipeline(
    context: &SessionContext,
    exam: &str,
    location: &str,
    pipeline: Option<&str>,
) -> Result<(), Failure> {
    let Some(pipeline) = pipeline else { return Ok(()) };
    let sql = format!("SELECT DISTINCT pipeline FROM {} ORDER BY pipeline", quoted(exam));
    let found = rows(context, &sql).await?;
    let found: Vec<_> = found.iter().map(|row| row.text("pipeline")).collect();
    if found.contains(&pipeline) {
        return Ok(());
    }
    let examined: Vec<_> = found.into_iter().filter(|name| ![ORIGINAL, RANDOM, BLOCK].contains(name)).collect();
    Err(Failure::Usage(format!(
        "{}: {exam} is an exam of {}, and {location} was made by {pipeline}: pass an exam with --pipelines {pipeline}",
        Flag("--exam"),
        examined.join(", ")
    )))
}

/// Registers the current version of a table under its location, so that each query reads this version.
async fn pinned(context: &SessionContext, location: &str) -> Result<(String, DFSchema)> {
    let location = location.trim_end_matches('/').to_string();
    let name = TableReference::bare(location.clone());
    let table = context.table_provider(name.clone()).await?;
    let schema = DFSchema::try_from(table.schema())?;
    // The same location may be named twice.
    context.deregister_table(name.clone())?;
    context.register_table(name, table)?;
    Ok((location, schema))
}

/// A query, ready for asap sql, and its rows.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Picture {
    pub name: &'static str,
    pub title: &'static str,
    /// How to read it.
    pub about: String,
    pub sql: String,
    #[serde(flatten)]
    pub rows: QueryRows,
}

/// The rows of a query, as JSON.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct QueryRows {
    pub columns: Vec<String>,
    pub rows: Vec<Map<String, Value>>,
}

impl QueryRows {
    pub(crate) fn iter(&self) -> impl Iterator<Item = QueryRow<'_>> + Clone {
        self.rows.iter().map(QueryRow)
    }

    pub(crate) fn is_number(&self, column: &str) -> bool {
        self.iter().any(|row| row.get(column).is_number())
    }

    pub(crate) fn first(&self) -> Option<QueryRow<'_>> {
        self.iter().next()
    }
}

/// A row of a query. A missing value is 0 or an empty text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryRow<'a>(&'a Map<String, Value>);

impl<'a> QueryRow<'a> {
    pub(crate) fn of(row: &'a Map<String, Value>) -> Self {
        Self(row)
    }

    pub(crate) fn get(self, column: &str) -> &'a Value {
        self.0.get(column).unwrap_or(&Value::Null)
    }

    pub(crate) fn text(self, column: &str) -> &'a str {
        self.get(column).as_str().unwrap_or_default()
    }

    pub(crate) fn count(self, column: &str) -> u64 {
        self.get(column).as_u64().unwrap_or_default()
    }

    pub(crate) fn number(self, column: &str) -> f64 {
        self.get(column).as_f64().unwrap_or_default()
    }

    pub(crate) fn list(self, column: &str) -> impl Iterator<Item = QueryRow<'a>> {
        self.get(column).as_array().into_iter().flatten().filter_map(|item| item.as_object()).map(QueryRow)
    }
}
