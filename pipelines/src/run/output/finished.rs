//! Whether an output holds all that its input has.

use chrono::Utc;
use datafusion::common::Result;
use serde_json::{Value, json};

use super::Output;
use crate::delta;
use crate::run::output::ledger::Ledger;
use crate::run::output::table_properties::generation as generation_of;

/// The application whose transaction says that the output is complete: its version is the rows of the input that are done.
const FINISHED: &str = "asap/finished";

/// The application whose transaction says of how many rows of the input the output that is complete is not made, because
/// they are beyond a limit.
const BEYOND_LIMIT: &str = "asap/beyond-limit";

/// The version of a finished transaction that a later run withdrew: it found rows that are not done.
const WITHDRAWN: i64 = -1;

/// Whether a transaction says that an output is complete.
pub fn is_finished(said: &delta::Transaction) -> bool {
    let generation = said.app_id.strip_prefix(FINISHED);
    generation.is_some_and(|generation| generation.starts_with('/')) && said.version != WITHDRAWN
}

/// Whether a run said that every row of its input is in the table, of as many rows as are there.
pub fn says_finished(state: &delta::State) -> bool {
    let generation = generation_of(state);
    let Some(said) = state.transactions.get(&format!("{FINISHED}/{generation}")) else { return false };
    let mut ledger = Ledger::default();
    ledger.follow(state, generation);
    said.version == ledger.rows as i64
}

impl Output {
    /// Says that every row of the input is in the output but `beyond` a limit, if that was not said of as many rows: who
    /// follows the table may end there.
    pub(crate) async fn say_finished(&mut self, beyond: u64, summary: &Value) -> Result<()> {
        let Self { table: Some(log), ledger, attempt, .. } = self else { return Ok(()) };
        let (generation, run) = (ledger.generation, attempt.to_string());
        let (name, limit) = (format!("{FINISHED}/{generation}"), format!("{BEYOND_LIMIT}/{generation}"));
        log.commit(|state| {
            // Another run has begun to replace all rows.
            if generation_of(state) != generation {
                return Ok(vec![]);
            }
            ledger.follow(state, generation);
            let (rows, beyond) = (ledger.rows as i64, beyond as i64);
            let said = |name: &String| state.transactions.get(name).map(|said| said.version);
            if said(&name) == Some(rows) && said(&limit).unwrap_or(0) == beyond {
                return Ok(vec![]);
            }
            let now = Utc::now().timestamp_millis();
            let info =
                delta::commit_info("WRITE", "Append", now, json!({ "run": run, "finished": rows, "summary": summary }));
            Ok(vec![info, delta::transaction(&name, rows, now), delta::transaction(&limit, beyond, now)])
        })
        .await?;
        Ok(())
    }

    /// Withdraws what an earlier run said, after a run that found rows that are not done and could not do them.
    pub(crate) async fn withdraw_finished(&mut self) -> Result<()> {
        let Self { table: Some(log), generation, attempt, .. } = self else { return Ok(()) };
        let run = attempt.to_string();
        log.commit(|state| {
            if generation_of(state) != *generation || !says_finished(state) {
                return Ok(vec![]);
            }
            let now = Utc::now().timestamp_millis();
            let info = delta::commit_info("WRITE", "Append", now, json!({ "run": run, "finished": null }));
            Ok(vec![info, delta::transaction(&format!("{FINISHED}/{generation}"), WITHDRAWN, now)])
        })
        .await?;
        self.follow();
        Ok(())
    }

    /// When a run said that every row of the input is in the output, in milliseconds since 1970 (UTC).
    pub fn finished_at(&self) -> Option<i64> {
        let log = self.table.as_ref().filter(|log| says_finished(log.state()))?;
        log.state().transactions.get(&format!("{FINISHED}/{}", self.ledger.generation))?.last_updated
    }

    /// Whether a run said that every row of the input is in the output, of as many rows as are there.
    pub fn is_finished(&self) -> bool {
        self.table.as_ref().is_some_and(|log| says_finished(log.state()))
    }

    /// Of how many rows of its input the output is not made though it is complete, because they are beyond a limit.
    pub fn rows_beyond_limit(&self) -> u64 {
        let limit = format!("{BEYOND_LIMIT}/{}", self.ledger.generation);
        let said = self.table.as_ref().and_then(|log| log.state().transactions.get(&limit));
        said.map_or(0, |said| said.version.max(0) as u64)
    }
}
