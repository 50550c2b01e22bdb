//! What `--long` takes, of a feed and of a training.

use asap_lm::example::Long;
use clap::ValueEnum;

/// What becomes of a row of too many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LongRows {
    /// It is left out
    Drop,
    /// It is cut
    Cut,
}

impl From<LongRows> for Long {
    fn from(long: LongRows) -> Self {
        match long {
            LongRows::Drop => Self::Drop,
            LongRows::Cut => Self::Cut,
        }
    }
}
