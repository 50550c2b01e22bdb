//! Plans and runs statements one after another, and prints their rows.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Instant;

use asap_pipelines::corpus::CORPUS;
use asap_pipelines::statement::{check_text, surprise};
use asap_pipelines::{corpus, location};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{TableReference, config_err, plan_datafusion_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{DdlStatement, DmlStatement, DropTable, LogicalPlan};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{
    ObjectName, ObjectNamePart, SelectFlavor, Set, SetExpr, Statement as SqlStatement, TableObject,
};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use url::Url;

use super::nested;
use super::print::{Print, ResultRows};
use crate::output::note;
use asap_pipelines::named_tables::is_remote;

const STDIN: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
/// The store that holds standard input after it was read.
const STDIN_STORE: &str = "stdin://stdin/";

pub(super) async fn run(context: &SessionContext, text: &str, print: &Print) -> Result<()> {
    let dialect = context.state().config_options().sql_parser.dialect;
    let dialect = dialect_from_str(dialect).ok_or_else(|| plan_datafusion_err!("there is no SQL dialect {dialect}"))?;
    check_text(text, dialect.as_ref())?;
    folder_of(context, text)?.iter().for_each(note);
    for statement in DFParser::parse_sql_with_dialect(text, dialect.as_ref())? {
        run_one(context, statement, print).await?;
    }
    Ok(())
}

async fn run_one(context: &SessionContext, statement: Statement, print: &Print) -> Result<()> {
    let begun = Instant::now();
    let is_show = matches!(&statement, Statement::Statement(sql) if matches!(**sql, SqlStatement::ShowVariable { .. }));
    if let Statement::Statement(sql) = &statement {
        match sql.as_ref() {
            SqlStatement::ShowTables { .. } => {
                note("a Delta table, a folder or a file is a table by its path, too: FROM 'out/pruned'")
            }
            // The planner would count values first.
            SqlStatement::Insert(insert) => {
                if let TableObject::TableName(ObjectName(parts)) = &insert.table
                    && let [ObjectNamePart::Identifier(name)] = parts.as_slice()
                {
                    let named = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
                    check_writable(context, &TableReference::bare(named))?;
                }
            }
            SqlStatement::Query(query) if matches!(query.body.as_ref(), SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect) =>
            {
                return plan_err!("a query names its columns: write SELECT * before FROM");
            }
            SqlStatement::Set(Set::SingleAssignment { variable, .. }) => check_setting(context, &variable.to_string())?,
            SqlStatement::ShowColumns { .. } => note("DESCRIBE 'out/pruned' shows the columns of a location"),
            _ => {}
        }
    }
    let plan = context.state().statement_to_plan(statement).await?;
    surprises(&plan)?.iter().for_each(note);
    let is_description = matches!(plan, LogicalPlan::DescribeTable(_));
    let is_about_queries = is_description || matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let print = match is_show || is_about_queries {
        // A plan is not readable if its lines are cut.
        true => &Print { max_rows: usize::MAX, is_whole: !is_description, ..print.clone() },
        false => print,
    };

    let mut rows = context.execute_logical_plan(checked(context, plan).await?).await?;
    if print.format.is_flat() {
        rows = nested::as_json(rows)?;
    }
    // The plan keeps alive the files that the rows are read from.
    let _held = rows.logical_plan().clone();
    let mut found = rows.execute_stream().await?;
    let task = context.task_ctx();
    let memory = MemoryConsumer::new("rows to print").register(task.memory_pool());
    let mut rows = ResultRows { schema: found.schema(), batches: vec![], count: 0, begun };
    while let Some(batch) = found.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 && rows.count < print.shown() {
            memory.try_grow(get_record_batch_memory_size(&batch))?;
            rows.batches.push(batch.clone());
        }
        rows.count += batch.num_rows();
    }
    let options = FormatOptions::try_from(&task.session_config().options().format)?;
    print.print(&rows, &options)
}

/// Names the setting that is meant by the end of its name.
fn check_setting(context: &SessionContext, name: &str) -> Result<()> {
    if name.starts_with("asap.") || name.starts_with("datafusion.") {
        return Ok(());
    }
    let mut known = context.state().config_options().entries();
    known.extend(context.runtime_env().config_entries());
    match known.into_iter().find(|known| known.key.ends_with(&format!(".{}", name.to_lowercase()))) {
        Some(meant) => config_err!("there is no setting {name}: did you mean {}?", meant.key),
        None => Ok(()),
    }
}

/// Advice on the first expression of a plan that does not say what it seems to.
fn surprises(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut advice = None;
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            advice = advice.take().or(surprise(expr, &schema)?);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(advice)
}

async fn checked(context: &SessionContext, mut plan: LogicalPlan) -> Result<LogicalPlan> {
    match &mut plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) => {
            for named in &mut create.locations {
                *named = match STDIN.contains(&named.as_str()) {
                    true => stdin(context, &create.file_type).await?,
                    false => location_of(context, named, &create.options)?,
                };
            }
        }
        LogicalPlan::Copy(copy) => {
            // A location in a query is a table of this name, or a view.
            let reads_it = |node: &LogicalPlan| {
                let name = match node {
                    LogicalPlan::TableScan(scan) => &scan.table_name,
                    LogicalPlan::SubqueryAlias(view) => &view.alias,
                    _ => return Ok(false),
                };
                Ok(name.to_string() == copy.output_url)
            };
            if copy.input.exists(reads_it)? {
                return plan_err!("{} would be replaced while it is read: choose another name", copy.output_url);
            }
            if let Some(table) = table_around(context, &copy.output_url).await? {
                return plan_err!(
                    "{} is in the Delta table {table}, whose log would not have these rows: choose another folder",
                    copy.output_url
                );
            }
            copy.output_url = location_of(context, &copy.output_url, &copy.options)?;
            if copy.file_type.get_ext() == "csv" {
                let rows = DataFrame::new(context.state(), copy.input.as_ref().clone());
                copy.input = Arc::new(nested::as_json(rows)?.into_unoptimized_plan());
            }
        }
        LogicalPlan::Dml(DmlStatement { table_name: name, .. })
        | LogicalPlan::Ddl(DdlStatement::DropTable(DropTable { name, if_exists: false, .. })) => {
            check_writable(context, name)?;
        }
        _ => {}
    }
    Ok(plan)
}

/// A location is no table of the session, so dropping it would do nothing, and rows written there break an output.
fn check_writable(context: &SessionContext, name: &TableReference) -> Result<()> {
    match context.table_exist(name.clone())? {
        true => Ok(()),
        false => plan_err!(
            "{name} is not a table of this session, and statements only read locations: write rows with COPY (SELECT …) TO 'FILE'"
        ),
    }
}

/// A note on a folder that is read by a name without quotes, although there is a corpus.
fn folder_of(context: &SessionContext, text: &str) -> Result<Option<String>> {
    if !context.table_exist(CORPUS)? {
        return Ok(None);
    }
    let words: Vec<&str> = text.split([' ', '\n', '\t', ')', ';', ',']).filter(|word| !word.is_empty()).collect();
    let is_named = |table: &str| words.windows(2).any(|pair| pair[0] == table && pair[1].eq_ignore_ascii_case("as"));
    let read = words.windows(2).filter(|pair| ["from", "join"].iter().any(|word| pair[0].eq_ignore_ascii_case(word)));
    let is_table = |table: &str| context.table_exist(TableReference::bare(table)).unwrap_or(false);
    let mut tables = read.map(|pair| pair[1]);
    let folder = tables.find(|table| FilePath::new(table).is_dir() && !is_named(table) && !is_table(table));
    Ok(folder.map(|folder| format!("{folder} is the folder {folder} here; the rows of --from are the table corpus")))
}

/// The Delta table in whose folder a location is.
async fn table_around(context: &SessionContext, named: &str) -> Result<Option<String>> {
    let url = location::parse(named)?;
    let store = context.runtime_env().object_store_registry.get_store(&url)?;
    let path = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
    let parts: Vec<_> = path.parts().collect();
    for depth in (0..=parts.len()).rev() {
        let folder = Path::from_iter(parts[..depth].iter().cloned());
        // A store that cannot list has no table to spoil.
        if corpus::is_delta_table(store.as_ref(), &folder).await.unwrap_or(false) {
            let mut table = url;
            table.set_path(folder.as_ref());
            return Ok(Some(location::display(&table)));
        }
    }
    Ok(None)
}

fn location_of(context: &SessionContext, named: &str, options: &HashMap<String, String>) -> Result<String> {
    if let Some(option) = options.keys().find(|key| key.starts_with("aws.") || key.starts_with("gcp.")) {
        return plan_err!(
            "the option {option} is not supported: set what an object store needs in the environment, under the names \
             that its own tools use (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, …)"
        );
    }
    if !is_remote(named) {
        return Ok(named.to_string());
    }
    let url = location::parse(named)?;
    context.runtime_env().object_store_registry.get_store(&url)?;
    Ok(url.into())
}

/// Stores standard input as a file in memory: it can be read only once, but a table several times.
async fn stdin(context: &SessionContext, file_type: &str) -> Result<String> {
    let file = format!("stdin.{}", file_type.to_lowercase());
    let url = Url::parse(STDIN_STORE).map_err(|error| plan_datafusion_err!("{error}"))?;
    if context.runtime_env().object_store_registry.get_store(&url).is_err() {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes)?;
        let store = InMemory::new();
        store.put(&file.as_str().into(), PutPayload::from(bytes)).await?;
        context.register_object_store(&url, Arc::new(store));
    }
    Ok(format!("{STDIN_STORE}{file}"))
}
