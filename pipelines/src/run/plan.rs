//! A pipeline as a plan: which nodes are allowed, and how the original columns of a row are passed through.
//!
//! ```text
//!   SELECT … FROM corpus          planned by the engine, then rewritten:
//!
//!   Projection  source, cot, …    Projection  source, cot, …, __original
//!     SubqueryAlias corpus          Projection  corpus.*, named_struct(…) AS __original
//!       (view of the files)           SubqueryAlias corpus
//! ```
//!
//! The pipeline states only new columns; every output row and every reject still has its original columns.

use asap_kernels::front_end::Flag;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, TableReference, plan_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::source_as_provider;
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, TableScan, lit, when};

use crate::conversations::{are_pruned, is_conversation};
use crate::corpus::CORPUS;
use crate::passed_on::passed_on;

const MAPS: &str = "a pipeline maps rows to rows and cannot hold";

pub(crate) const ORIGINAL: &str = "__original";

/// The table `corpus` while a pipeline is checked: its columns, without rows. Its type identifies the table, whatever
/// alias a pipeline gives it. [`over_files`] replaces it before it is read.
pub(crate) type CorpusTable = EmptyTable;

/// Checks that a pipeline maps rows to rows: one SELECT over `corpus` that keeps the column `source`.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        check_node(node)?;
        node.apply_expressions(|expr| expr.apply(check_expression))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    match plan.schema().field_with_unqualified_name("source") {
        Ok(_) if passed_on(plan, "source", &[]).as_deref() == Some("source") => Ok(()),
        Ok(_) => plan_err!(
            "a pipeline must return the column source of corpus, which identifies each row, without changes: found a \
             computed column"
        ),
        Err(_) => {
            plan_err!("a pipeline must return the column source, which identifies each row: add it to the SELECT")
        }
    }
}

pub(crate) fn without_status(schema: &Schema) -> Option<String> {
    schema.field_with_name("status").is_err().then(|| {
        "the pipeline returns no column status, so the output includes rows that cannot be pruned: add status and error \
         of corpus to its SELECT"
            .to_string()
    })
}

fn check_node(node: &LogicalPlan) -> Result<()> {
    let found = match node {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => return Ok(()),
        LogicalPlan::TableScan(scan) if is_corpus(scan) => return Ok(()),
        LogicalPlan::TableScan(scan) => {
            return plan_err!("a pipeline reads only the table corpus, found {}", scan.table_name);
        }
        LogicalPlan::Aggregate(_) => "an aggregate (GROUP BY, count, sum, …)",
        LogicalPlan::Join(_) => "a join",
        LogicalPlan::Sort(_) => "ORDER BY",
        LogicalPlan::Limit(_) => {
            let (limit, sample) = (Flag("--limit"), Flag("--sample"));
            return plan_err!("{MAPS} LIMIT over corpus: {limit} N takes the first rows, and {sample} N any rows");
        }
        LogicalPlan::Distinct(_) => "DISTINCT",
        LogicalPlan::Union(_) => "UNION",
        LogicalPlan::Window(_) => "a window function",
        LogicalPlan::Unnest(_) => "unnest",
        LogicalPlan::RecursiveQuery(_) => "WITH RECURSIVE",
        LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => "a SELECT without FROM corpus",
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_) => {
            return plan_err!("a pipeline is one SELECT over corpus, found a statement that changes something");
        }
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_) => {
            return plan_err!("a pipeline is one SELECT over corpus, found a statement that describes something");
        }
        _ => return plan_err!("a pipeline is one SELECT over corpus that maps rows to rows"),
    };
    plan_err!("{MAPS} {found} over corpus")
}

fn check_expression(expr: &Expr) -> Result<TreeNodeRecursion> {
    match expr {
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
            plan_err!("{MAPS} a subquery in an expression: {expr}")
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }
}

fn is_corpus(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|provider| provider.downcast_ref::<CorpusTable>().is_some())
}

/// Replaces `corpus` in a checked pipeline with a plan over files, and appends the column [`ORIGINAL`], a struct of
/// `originals` (columns of `corpus`).
pub(crate) fn over_files(plan: LogicalPlan, corpus: &LogicalPlan, originals: &[String]) -> Result<LogicalPlan> {
    let prunes_conversations = are_pruned(&plan)?;
    let rewritten = plan.transform_down(|node| match &node {
        LogicalPlan::TableScan(scan) if is_corpus(scan) => {
            let alias = LogicalPlanBuilder::from(corpus.clone()).alias(CORPUS)?.build()?;
            let corpus = with_originals(alias, originals, prunes_conversations)?;
            Ok(Transformed::new(corpus, true, TreeNodeRecursion::Jump))
        }
        _ => Ok(Transformed::no(node)),
    })?;
    let threaded = rewritten.data.transform_up(|node| match node {
        LogicalPlan::Projection(projection) => pass_through(projection),
        // The schema of an alias is computed from its input, which has a new column.
        LogicalPlan::SubqueryAlias(alias) => {
            let input = alias.input.as_ref().clone();
            Ok(Transformed::yes(LogicalPlanBuilder::from(input).alias(alias.alias)?.build()?))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(threaded.data)
}

/// Adds a column with the original ones to the corpus. A row that is already a reject gets no question, chain and
/// answer, so that no function works on it or costs money for it. A conversation keeps them if the pipeline prunes it.
fn with_originals(corpus: LogicalPlan, originals: &[String], prunes_conversations: bool) -> Result<LogicalPlan> {
    let mut columns = Vec::new();
    for column in corpus.schema().columns() {
        let is_read = ["question", "cot", "answer"].contains(&column.name.as_str());
        columns.push(if is_read {
            let held = |name: &str| Expr::Column(Column::new(column.relation.clone(), name));
            let is_read = match prunes_conversations {
                true => held("status").is_null().or(is_conversation(held)),
                false => held("status").is_null(),
            };
            let name = column.name.clone();
            when(is_read, Expr::Column(column)).end()?.alias_qualified(Some(CORPUS), name)
        } else {
            Expr::Column(column)
        });
    }
    let fields: Vec<Expr> = originals
        .iter()
        .flat_map(|name| {
            [lit(name.as_str()), Expr::Column(Column::new(Some(TableReference::bare(CORPUS)), name.as_str()))]
        })
        .collect();
    // A struct needs at least one field, so a corpus without original columns has NULL.
    let original = if fields.is_empty() { lit(ScalarValue::Null) } else { named_struct(fields) };
    columns.push(original.alias_qualified(Some(CORPUS), ORIGINAL));
    LogicalPlanBuilder::from(corpus).project(columns)?.build()
}

fn pass_through(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let carried = projection.input.schema().columns().into_iter().find(|column| column.name == ORIGINAL);
    let (Some(carried), false) = (carried, projection.schema.field_with_unqualified_name(ORIGINAL).is_ok()) else {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    };
    let mut columns = projection.expr;
    columns.push(Expr::Column(carried));
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, projection.input)?)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::prelude::SessionContext;

    use super::*;

    async fn context() -> SessionContext {
        let ctx = SessionContext::new();
        let rows = "SELECT named_struct('file', 'a.parquet', 'row', n) AS source, cot, status, level AS \"Level.1\" FROM (VALUES \
                    (0, 'x', NULL, 7), (1, 'y', NULL, 8), (2, 'z', 'unverified', 9)) AS t (n, cot, status, level)";
        let batch = ctx.sql(rows).await.unwrap().collect().await.unwrap().remove(0);
        ctx.register_table(CORPUS, Arc::new(CorpusTable::new(batch.schema()))).unwrap();
        ctx.register_batch("files", batch).unwrap();
        ctx
    }

    async fn refusal(sql: &str) -> String {
        let ctx = context().await;
        let plan = ctx.sql(sql).await.unwrap().into_unoptimized_plan();
        check(&plan).expect_err(sql).to_string()
    }

    /// Each line of `refused.jsonl` holds a pipeline and a part of its error.
    #[tokio::test]
    async fn what_is_not_row_to_row_is_refused_by_name() {
        for line in include_str!("refused.jsonl").lines() {
            let [sql, named]: [String; 2] = serde_json::from_str(line).unwrap();
            let error = refusal(&sql).await;
            assert!(error.contains(&named), "{sql}: {error}");
        }
    }

    #[tokio::test]
    async fn original_columns_travel_through_every_projection() {
        let ctx = context().await;
        let sql = "WITH a AS (SELECT *, upper(cot) AS big FROM corpus), b AS (SELECT source, big FROM a WHERE big IS DISTINCT FROM 'Y') \
                   SELECT source, b.big AS cot FROM b";
        let plan = ctx.sql(sql).await.unwrap().into_unoptimized_plan();
        check(&plan).unwrap();
        let files = ctx.table("files").await.unwrap().into_unoptimized_plan();
        let plan = over_files(plan, &files, &["cot".to_string(), "Level.1".to_string()]).unwrap();
        let batches = ctx.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
        let shown = datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        assert!(shown.contains("| X   | {cot: x, Level.1: 7}"), "{shown}");
        // A reject of the corpus keeps its original columns; the pipeline sees no chain.
        assert!(shown.contains("|     | {cot: z, Level.1: 9}"), "{shown}");
        assert!(!shown.contains("Level.1: 8"), "{shown}");
    }
}
