//! Reads the first rows of files, to recognize what their columns hold.

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;

use crate::corpus::files::footer;
use crate::corpus::files::guard::guarded_next;
use crate::corpus::scan::table::FilesTable;

pub(crate) const FIRST_ROWS: usize = 16;

/// Reads columns of the first `limit` rows, of the first readable file with rows. Skips damaged files, so they do not
/// decide for the others.
pub(crate) async fn first_rows(
    session: &dyn Session,
    table: &FilesTable,
    limit: usize,
    columns: &[Expr],
    rows: impl Fn(&FilesTable) -> Result<LogicalPlan>,
) -> Result<Vec<RecordBatch>> {
    let mut failed = None;
    for file in table.files().iter().filter(|file| file.rows_left() > 0) {
        let rows = LogicalPlanBuilder::from(rows(&table.only(file))?).limit(0, Some(limit))?;
        let plan = session.create_physical_plan(&rows.project(columns.to_vec())?.build()?).await?;
        let mut rows = execute_stream(plan, session.task_ctx())?;
        let mut batches = Vec::new();
        loop {
            match guarded_next(&mut rows).await {
                Ok(Some(batch)) => batches.push(batch),
                Ok(None) => return Ok(batches),
                Err(error) => {
                    failed = failed.or(Some(match error {
                        DataFusionError::ObjectStore(_) => error,
                        damage => footer::damaged(&file.file.name, damage.strip_backtrace()),
                    }));
                    break;
                }
            }
        }
    }
    failed.map_or(Ok(vec![]), Err)
}
