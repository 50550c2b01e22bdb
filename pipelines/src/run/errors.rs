//! Reasons for the end of a run that have exit codes of their own.

use asap_kernels::front_end::{Again, Flag, Setting, either};
use asap_llm::Usage;
use datafusion::common::DataFusionError;

use super::request::MaxRejects;
use crate::location::command;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("interrupted before a row was read; {} to start again", either("run the same command", "repeat the call"))]
    Interrupted,
    /// Two first runs started while the table changed in between: rows could be in both versions, in different files.
    #[error("another run started with version {other} of {table}, and this one with version {ours}: {}", Again)]
    OtherSnapshot { table: String, other: u64, ours: u64 },
    /// Another run began a new table generation while this one was running.
    #[error(
        "another run replaces all rows of {table} (table generation {found}; this run was planned for {planned}): this run \
         commits nothing more. {:#} if you still want its rows",
        Again
    )]
    Superseded { table: String, planned: u64, found: u64 },
    /// Another program replaced the table, or changed its pipeline.
    #[error(
        "{table} is another table now, or has another pipeline, than when this run was planned: this run commits nothing \
         more. {:#}",
        Again
    )]
    OtherTable { table: String },
    /// Shards that a command merges are no longer there.
    #[error("another commit to {table} merged these shards or deleted rows of them first: {}", Again)]
    OtherCommit { table: String },
    #[error(
        "{rejected} of {rows} rows were rejected, more than {} allows ({reasons}); work since the last commit is not \
         committed",
        .most.flag()
    )]
    TooManyRejects { rejected: u64, rows: u64, most: MaxRejects, reasons: String },
    #[error(
        "{location} has no rows, so nothing was exported: {} shows what became of its input; {} exports the columns alone",
        command(&["asap", "table", "status", location]),
        Flag("--allow-empty")
    )]
    NothingToExport { location: String },
    #[error(
        "the first {rows} rows are all rejected ({reasons}), so the answers of the language model are unusable. None of \
         these rows is committed, and the answers are kept: change {} or its prompts ({}), or try {} first",
        Setting("asap.anchor.model"),
        Setting("asap.anchor.prompt_dir"),
        Flag("--limit 20")
    )]
    AllRejected { rows: u64, reasons: String },
    #[error(
        "the budget is spent after {} calls ({} tokens in, {} out, cost {:.4}): {why}. Every paid answer is kept, and \
         rows without an answer are not committed: raise that setting and {}",
        .usage.calls, .usage.tokens_in, .usage.tokens_out, .usage.cost, Again
    )]
    BudgetSpent { usage: Usage, why: String },
}

impl From<RunError> for DataFusionError {
    fn from(error: RunError) -> Self {
        Self::External(Box::new(error))
    }
}
