//! Records whether an output has all rows of its input.

use datafusion::common::Result;
use serde_json::{Value, json};

use super::Output;
use crate::delta;
use crate::run::ledger::Ledger;
use crate::run::output::table_properties::generation as generation_of;

/// The application of the transaction that marks the output as complete. Its version counts the done input rows.
const FINISHED: &str = "asap/finished";

/// The application of the transaction that counts the input rows beyond the limit of a complete output.
const BEYOND_LIMIT: &str = "asap/beyond-limit";

/// The version of a finished transaction that a later run withdrew because it found rows that are not done.
const WITHDRAWN: i64 = -1;

pub fn is_finished(said: &delta::Transaction) -> bool {
    let generation = said.app_id.strip_prefix(FINISHED);
    generation.is_some_and(|generation| generation.starts_with('/')) && said.version != WITHDRAWN
}

/// Whether a run marked the table as complete, and the table has as many rows now as then.
pub fn says_finished(state: &delta::LogState) -> bool {
    let generation = generation_of(state);
    let Some(said) = state.transactions.get(&format!("{FINISHED}/{generation}")) else { return false };
    let mut ledger = Ledger::default();
    ledger.follow(state, generation);
    said.version == ledger.rows as i64
}

impl Output {
    /// Marks the output as complete except for `beyond` rows over a limit, unless it already is marked for as many
    /// rows. Readers that follow the table may stop there.
    pub(crate) async fn say_finished(&mut self, beyond: u64, summary: &Value) -> Result<()> {
        let Self { table: Some(log), ledger, attempt, .. } = self else { return Ok(()) };
        let (generation, run) = (ledger.generation, attempt.to_string());
        let (name, limit) = (format!("{FINISHED}/{generation}"), format!("{BEYOND_LIMIT}/{generation}"));
        log.commit(|state| {
            // Another run has started to replace all rows.
            if generation_of(state) != generation {
                return Ok(vec![]);
            }
            ledger.follow(state, generation);
            let (rows, beyond) = (ledger.rows as i64, beyond as i64);
            let said = |name: &String| state.transactions.get(name).map(|said| said.version);
            if said(&name) == Some(rows) && said(&limit).unwrap_or(0) == beyond {
                return Ok(vec![]);
            }
            let more = json!({ "run": run, "finished": rows, "summary": summary });
            let said = vec![delta::transaction(&name, rows), delta::transaction(&limit, beyond)];
            Ok(delta::commit("WRITE", "Append", more, said))
        })
        .await?;
        Ok(())
    }

    /// Withdraws the mark of an earlier run, after a run that found rows that it could not finish.
    pub(crate) async fn withdraw_finished(&mut self) -> Result<()> {
        let Self { table: Some(log), generation, attempt, .. } = self else { return Ok(()) };
        let run = attempt.to_string();
        log.commit(|state| {
            if generation_of(state) != *generation || !says_finished(state) {
                return Ok(vec![]);
            }
            let said = vec![delta::transaction(&format!("{FINISHED}/{generation}"), WITHDRAWN)];
            Ok(delta::commit("WRITE", "Append", json!({ "run": run, "finished": null }), said))
        })
        .await?;
        self.follow();
        Ok(())
    }

    /// When a run marked the output as complete, in milliseconds since 1970 (UTC).
    pub fn finished_at(&self) -> Option<i64> {
        let log = self.table.as_ref().filter(|log| says_finished(&log.state))?;
        log.state.transactions.get(&format!("{FINISHED}/{}", self.ledger.generation))?.last_updated
    }

    /// The input rows that a complete output leaves out because they are beyond a limit.
    pub fn rows_beyond_limit(&self) -> u64 {
        let limit = format!("{BEYOND_LIMIT}/{}", self.ledger.generation);
        let said = self.table.as_ref().and_then(|log| log.state.transactions.get(&limit));
        said.map_or(0, |said| said.version.max(0) as u64)
    }
}
