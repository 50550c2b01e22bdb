//! The end of a run: rows become shards of two tables, and two commits.

use std::time::Instant;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::common::{Result, exec_err};

use super::rows::Rows;
use super::stage::Stage;
use super::summary::Summary;
use super::table::{ATTEMPT, Origin, Table};

/// Where rejects are kept, beside the table.
const REJECTS: &str = "_asap/rejects/";

/// Takes the rows of a pipeline to the output and its rejects.
pub struct Sink {
    rows: Rows,
    output: Table,
    rejects: Table,
    output_stage: Stage,
    rejects_stage: Stage,
    fail_on_reject: bool,
    writing: f64,
}

impl Sink {
    /// Begins shards of the output and, beside it, of the rejects.
    pub async fn begin(output: Table, rows: Rows, fail_on_reject: bool) -> Result<Self> {
        let rejects = Table::open(output.beside(REJECTS)?).await?;
        let attempt = format!("{ATTEMPT}{}", uuid::Uuid::new_v4().simple());
        output.check_writable(&attempt).await?;
        let output_stage = output.stage(&attempt, rows.output.clone())?;
        let rejects_stage = rejects.stage(&attempt, rows.rejects.clone())?;
        Ok(Self { rows, output, rejects, output_stage, rejects_stage, fail_on_reject, writing: 0.0 })
    }

    /// Writes and counts a batch.
    ///
    /// # Errors
    /// If a store fails; with `asap.on_error = 'fail'` at the first reject.
    pub async fn write(&mut self, batch: &RecordBatch, summary: &mut Summary) -> Result<()> {
        let started = Instant::now();
        let divided = self.rows.divide(batch)?;
        let status = divided.rejects.column_by_name("status").map(|column| column.as_string::<i32>().clone());
        let error = divided.rejects.column_by_name("error").map(|column| column.as_string::<i32>().clone());
        for (row, status) in status.iter().flatten().enumerate() {
            let status = status.unwrap_or_default();
            if self.fail_on_reject {
                let reason = error.as_ref().map_or("", |error| error.value(row));
                return exec_err!("a row failed with status {status} ({reason}), and asap.on_error is 'fail'");
            }
            summary.count_reject(status);
        }
        summary.count_output(&divided.output);
        self.output_stage.write(&divided.output).await?;
        self.rejects_stage.write(&divided.rejects).await?;
        self.writing += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Seconds spent encoding and writing shards.
    pub fn seconds_writing(&self) -> f64 {
        self.writing
    }

    /// Commits the rejects, then the output, whose commit alone makes the slices done; its version.
    pub async fn commit(self, origin: &Origin, slices: &[String]) -> Result<u64> {
        let Self { rows, output, rejects, output_stage, rejects_stage, .. } = self;
        let staged_rejects = match rejects_stage.finish().await {
            Ok(staged) => staged,
            Err(error) => {
                output_stage.abandon().await?;
                return Err(error);
            }
        };
        let staged_output = match output_stage.finish().await {
            Ok(staged) => staged,
            Err(error) => {
                staged_rejects.abandon().await?;
                return Err(error);
            }
        };
        // Rejects without an output are what a killed first run left.
        let stale = !output.exists() && rejects.exists();
        if staged_rejects.rows > 0 || stale {
            rejects.commit(&rows.rejects, staged_rejects, origin, slices, stale).await?;
        }
        output.commit(&rows.output, staged_output, origin, slices, false).await
    }

    /// Gives the run up: nothing that it wrote stays.
    pub async fn abandon(self) -> Result<()> {
        self.output_stage.abandon().await?;
        self.rejects_stage.abandon().await
    }
}
