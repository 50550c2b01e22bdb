//! The sums of an output: every commit checks that the rows read are kept, rejected or filtered, and records how many
//! rows the output then has.
//!
//! That number is a transaction, so it outlives the commits that a checkpoint replaces. Later runs, feeds and `asap
//! verify` compare it with the shards in the log.

use asap_kernels::front_end::{Again, Flag};
use datafusion::common::{Result, exec_err};
use url::Url;

use crate::delta::{self, LogState, live_rows};
use crate::location;
use crate::run::ledger::Before;
use crate::run::output::delete_files::Deletion;
use crate::run::output::finished_slice::{Finished, rows_of};
use crate::run::output::receipt::Counts;
use crate::run::output::table_properties::generation;

/// The application of the transaction, with the table generation after a slash.
const KEPT: &str = "asap/kept";
/// Its version if shards of other programs have no row counts.
const UNKNOWN: i64 = -1;

/// The rows of an output by its last commit; None if an earlier version of asap made that.
fn recorded(state: &LogState) -> Option<u64> {
    let said = state.transactions.get(&format!("{KEPT}/{}", generation(state)))?;
    u64::try_from(said.version).ok()
}

/// The recorded rows of an output, and those in its log; None if unknown.
pub(crate) fn rows(state: &LogState) -> (Option<u64>, Option<u64>) {
    (recorded(state), live_rows(state.files.values()))
}

pub(crate) fn line(generation: u64, rows: Option<u64>) -> String {
    delta::transaction(&format!("{KEPT}/{generation}"), rows.map_or(UNKNOWN, |rows| rows as i64))
}

/// The rows of an output after a commit that follows `state`; None if the log does not have all counts.
pub(crate) fn after(state: &LogState, ours: &[&Finished], deletion: &Deletion) -> Option<u64> {
    let new: u64 = ours.iter().map(|finished| rows_of(&finished.receipt.output)).sum();
    let (removed, rewritten) = deletion.rows();
    (live_rows(state.files.values())? + new + rewritten).checked_sub(removed?)
}

/// Checks, before its commit, that every row of a slice that was read is kept, rejected or filtered, and that its shards
/// have these rows.
pub(crate) fn check(finished: &Finished) -> Result<()> {
    let Finished { slice, before, receipt, .. } = finished;
    let Counts { rows_in, rows_out, rows_rejected, rows_filtered, .. } = receipt.counts;
    let (kept, rejected) = (rows_of(&receipt.output), rows_of(&receipt.rejects));
    // A retry also writes the rejects that it did not try.
    let are_rejects = rejected == rows_rejected || matches!(before, Before::Done(_)) && rejected > rows_rejected;
    let is_sum = rows_in == rows_out + rows_rejected + rows_filtered && rows_in <= slice.rows();
    if is_sum && kept == rows_out && are_rejects {
        return Ok(());
    }
    exec_err!(
        "the sums of {slice} are wrong: expected {rows_in} read rows = {rows_out} kept + {rows_rejected} rejected + \
         {rows_filtered} filtered, and found {kept} rows in its shards and {rejected} in those of its rejects. Nothing of \
         it is committed: {Again}, and report this if it happens again"
    )
}

/// Compares the rows in the log of an output at a state with the recorded number. Returns a note if another program
/// changed them since.
///
/// # Errors
/// If they differ although only runs of asap changed rows, or if the store fails.
pub(crate) async fn compare(url: &Url, state: &LogState) -> Result<Option<String>> {
    let (Some(said), Some(found)) = rows(state) else { return Ok(None) };
    if said == found {
        return Ok(None);
    }
    let (table, store) = (location::display(url), delta::store_of(url)?);
    let advice = format!("{} names the files that differ", location::command(&["asap", "table", "verify", &table]));
    let name = format!("{KEPT}/{}", generation(state));
    for version in (0..=state.version).rev() {
        let lines = delta::read_commit(store.as_ref(), version).await?;
        if lines.iter().flatten().any(|line| line.txn.as_ref().is_some_and(|txn| txn.app_id == name)) {
            break;
        }
        // The beginning of a log may be cleaned.
        if lines.is_none_or(|lines| lines.iter().any(|line| line.changes_rows())) {
            return Ok(Some(format!(
                "another program changed the rows of {table} (version {version}): it has {found}, and asap kept {said}. {advice}"
            )));
        }
    }
    exec_err!(
        "version {} of {table} has {found} rows, but its commits kept {said}, and no other program changed rows since: its \
         log was damaged. {advice}; restore them, or rebuild the output with {}",
        state.version,
        Flag("--new-generation")
    )
}

#[cfg(test)]
mod tests {
    use deltalake_core::kernel::Add;

    use crate::run::ledger::Attempt;
    use crate::run::output::receipt::Receipt;
    use crate::run::output::sums::*;

    #[test]
    fn a_commit_is_refused_unless_its_rows_add_up() {
        let add = |rows: u64| vec![Add { stats: Some(format!("{{\"numRecords\":{rows}}}")), ..Add::default() }];
        let retry = || Before::Done(Attempt::new());
        for (rows_in, kept, rejected, before, is_sum) in [
            (9, 5, 2, Before::Open, true),
            (9, 5, 3, retry(), true),
            (9, 5, 3, Before::Open, false),
            (9, 5, 1, retry(), false),
            (9, 4, 2, Before::Open, false),
            (8, 5, 2, Before::Open, false),
        ] {
            let counts = Counts { rows_in, rows_out: 5, rows_rejected: 2, rows_filtered: 2, ..Counts::default() };
            let receipt = Receipt { output: add(kept), rejects: add(rejected), counts, ..Receipt::default() };
            let slice = "asap/0/7-x/9/0-9/a.parquet".parse().unwrap();
            let finished = Finished { slice, before, receipt, attempt: Attempt::new(), begun_at: None };
            assert_eq!(check(&finished).is_ok(), is_sum, "{finished:?}");
        }
    }
}
