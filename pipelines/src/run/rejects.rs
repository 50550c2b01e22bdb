//! Which shards of the rejects count.
//!
//! The rejects of a slice are committed before the slice is done, so that no reject is ever missing. Whose they are stands in
//! the path of a shard: `asap-<attempt>/<key of the slice>/…`. They count if that attempt did the slice. The others are
//! of an attempt that was killed, or overtaken, or taken back; or of one that is still under way.

use std::collections::HashMap;

use super::ledger::{Attempt, SliceName};
use super::write_shards::ATTEMPT;
use crate::log::{LiveFile, State};

/// What an output's log says of slices, by the folders of their rejects.
pub struct Settled {
    generation: u64,
    slices: HashMap<String, (Option<Attempt>, i64)>,
}

/// What a shard of rejects is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its rows are rejects of a slice that is done.
    Counts,
    /// Its slice was done without it, or taken back.
    Stale,
    /// Its attempt may still be under way.
    Open,
}

impl Settled {
    /// What the log of an output says.
    pub fn of(state: &State, generation: u64) -> Self {
        let slices = state.transactions.values().filter_map(|found| {
            let slice: SliceName = found.app_id.parse().ok()?;
            let said = (Attempt::of(found.version), found.last_updated.unwrap_or(i64::MAX));
            (slice.generation == generation).then(|| (slice.key(), said))
        });
        Self { generation, slices: slices.collect() }
    }

    /// What a shard is.
    pub fn standing(&self, shard: &LiveFile) -> Standing {
        let Some((attempt, key)) = place(&shard.path) else { return Standing::Stale };
        let generation = key.split_once('-').and_then(|(generation, _)| generation.parse::<u64>().ok());
        if generation != Some(self.generation) {
            // One that is ahead of us is of a run that has begun anew since.
            return if generation > Some(self.generation) { Standing::Open } else { Standing::Stale };
        }
        match self.slices.get(key) {
            Some((Some(done), _)) if *done == attempt => Standing::Counts,
            // Whoever works on a slice that is done, or was, dates its shards after that.
            Some((_, said)) if shard.modification_time < *said => Standing::Stale,
            _ => Standing::Open,
        }
    }

    /// The last time at which something was said of a slice, in milliseconds since 1970.
    pub fn said(&self, slice: &SliceName) -> Option<i64> {
        self.slices.get(&slice.key()).map(|(_, said)| *said)
    }
}

/// The attempt and the slice's key in the path of a shard.
pub fn place(path: &str) -> Option<(Attempt, &str)> {
    let (folder, rest) = path.strip_prefix(ATTEMPT)?.split_once('/')?;
    Some((folder.parse().ok()?, rest.split_once('/')?.0))
}
