//! Decides which shards of the rejects are valid.
//!
//! The rejects of a slice are committed before the slice itself, so that no reject is ever missing. The path of a shard
//! names its attempt and slice: `asap-<attempt>/<generation>-<file>.<content>.<first row>-<before>/…`. Its rows are
//! valid if that attempt did the slice that starts at this row. All others belong to an attempt that was killed,
//! overtaken or undone, or that is still running. An attempt can only win while the output still has what it had when
//! the work began, as [`Before`] records. So the log alone decides which shards will never be valid; clocks do not
//! matter.

use std::collections::{BTreeMap, HashMap, HashSet};

use datafusion::common::Result;
use futures::TryStreamExt;
use object_store::path::Path;

use crate::delta::{LiveFile, LogState};
use crate::run::ledger::{ATTEMPT, Attempt, Before, HeldFile, Ledger, SliceName, file_key};
use crate::run::output::Output;
use crate::shards::texts;

pub(crate) struct Settled {
    generation: u64,
    files: HashMap<String, (String, HeldFile)>,
    undone: HashSet<(SliceKey, Attempt)>,
}

/// The keys of the file and content of a slice, and its first row.
type SliceKey = (String, String, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Valid,
    Stale,
    Open,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardPath {
    pub attempt: Attempt,
    pub generation: u64,
    pub file: String,
    pub content: String,
    /// The first row of its slice. The end is known only when the slice is done: a stopped run cuts it short.
    pub start: u64,
    pub before: Before,
}

impl ShardPath {
    pub(crate) fn folder(attempt: Attempt, slice: &SliceName, before: &Before) -> Path {
        let (file, content) = (slice.file_key(), slice.content_key());
        let inner = format!("{}-{file}.{content}.{}-{before}", slice.generation, slice.start);
        Path::from_iter([format!("{ATTEMPT}{attempt}"), inner])
    }

    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (attempt, rest) = path.strip_prefix(ATTEMPT)?.split_once('/')?;
        let mut parts = rest.split_once('/')?.0.splitn(3, '-');
        let (generation, slice, before) = (parts.next()?, parts.next()?, parts.next()?);
        let mut slice = slice.splitn(3, '.');
        Some(Self {
            attempt: attempt.parse().ok()?,
            generation: generation.parse().ok()?,
            file: slice.next()?.to_string(),
            content: slice.next()?.to_string(),
            start: slice.next()?.parse().ok()?,
            before: before.parse().ok()?,
        })
    }

    pub(crate) fn is_of(&self, slice: &SliceName, attempt: Attempt) -> bool {
        self.attempt == attempt
            && self.start == slice.start
            && self.content == slice.content_key()
            && self.file == slice.file_key()
    }
}

impl Settled {
    pub(crate) fn of(state: &LogState, generation: u64) -> Self {
        let mut ledger = Ledger::default();
        ledger.follow(state, generation);
        let held = |(path, held): (&String, &HeldFile)| (file_key(path), (held.version.key(held.rows), held.clone()));
        let files = ledger.files().map(held).collect();
        let undone = state.transactions.values().filter_map(|found| {
            let slice = found.app_id.parse::<SliceName>().ok().filter(|slice| slice.generation == generation)?;
            let is_undone = Attempt::of(found.version).is_none();
            let key = (slice.file_key(), slice.content_key(), slice.start);
            is_undone.then(|| (key, Attempt::deleted_by(found.version)))
        });
        Self { generation, files, undone: undone.collect() }
    }

    pub(crate) fn standing(&self, shard: &LiveFile) -> Standing {
        let Some(path) = ShardPath::parse(&shard.path) else { return Standing::Stale };
        if path.generation != self.generation {
            // The table's log was read before another run started a newer generation. Shards of older generations never
            // become valid.
            return if path.generation > self.generation { Standing::Open } else { Standing::Stale };
        }
        let is_undone = self.undone.contains(&((path.file.clone(), path.content.clone(), path.start), path.attempt));
        let may_win = match (&path.before, self.files.get(&path.file)) {
            (Before::Done(_), None) => false,
            (_, None) => !is_undone,
            (before, Some((content, held))) if *content == path.content => {
                let done = held.done.get(&path.start).map(|(_, attempt)| *attempt);
                if done == Some(path.attempt) {
                    return Standing::Valid;
                }
                match before {
                    Before::Done(before) => done == Some(*before),
                    _ => !is_undone && !held.overlaps(path.start, path.start + 1),
                }
            }
            (Before::Other(replaced), Some((content, _))) => replaced == content && !is_undone,
            (_, Some(_)) => false,
        };
        if may_win { Standing::Open } else { Standing::Stale }
    }
}

/// The number of rejected rows of each status.
pub(crate) async fn by_status(output: &Output) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for (log, shard) in output.valid_rejects() {
        let mut rows = log.rows_of(shard, &["status"]).await?;
        while let Some(batch) = rows.try_next().await? {
            for status in &texts(batch.column(0))? {
                *found.entry(status.unwrap_or_default().to_string()).or_default() += 1;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::delta::Transaction;
    use crate::run::ledger::FileVersion;
    use crate::run::output::rejects::*;

    fn slice_of(fingerprint: &str, start: u64, end: u64) -> SliceName {
        let version = FileVersion { size: 7, fingerprint: fingerprint.to_string() };
        SliceName { generation: 2, version, file_rows: 9, start, end, path: "a.parquet".to_string() }
    }

    fn shard(attempt: Attempt, slice: &SliceName, before: &Before) -> LiveFile {
        let path = format!("{}/part-0.parquet", ShardPath::folder(attempt, slice, before));
        let file = json!({ "path": path, "size": 1, "modificationTime": 0, "dataChange": true });
        serde_json::from_value(file).unwrap()
    }

    fn settled(said: &[(&SliceName, i64)]) -> Settled {
        let transaction = |(slice, version): &(&SliceName, i64)| {
            let said = json!({ "appId": slice.to_string(), "version": version });
            (slice.to_string(), serde_json::from_value::<Transaction>(said).unwrap())
        };
        let state = LogState { transactions: said.iter().map(transaction).collect(), ..LogState::default() };
        Settled::of(&state, 2)
    }

    #[test]
    fn a_path_says_whose_a_shard_is() {
        let slice = slice_of("x", 3, 9);
        for before in [Before::Open, Before::Done(Attempt::new()), Before::Other(slice.content_key())] {
            let attempt = Attempt::new();
            let path = ShardPath::parse(&shard(attempt, &slice, &before).path).unwrap();
            assert_eq!((path.attempt, path.generation, path.start), (attempt, 2, 3));
            assert!(path.is_of(&slice, attempt) && !path.is_of(&slice, Attempt::new()));
            assert_eq!(path.before, before);
        }
        assert_eq!(ShardPath::parse("part-0.parquet"), None);
    }

    #[test]
    fn a_shard_is_valid_for_the_attempt_that_won() {
        let [one, two, three] = [Attempt::new(), Attempt::new(), Attempt::new()];
        let whole = slice_of("x", 0, 9);
        let standing = |said: &[(&SliceName, i64)], attempt, before: Before| {
            settled(said).standing(&shard(attempt, &whole, &before))
        };
        use Standing::{Open, Stale, Valid};
        assert_eq!(standing(&[], one, Before::Open), Open);
        let done = [(&whole, one.done())];
        assert_eq!(standing(&done, one, Before::Open), Valid);
        assert_eq!(standing(&done, two, Before::Open), Stale);
        assert_eq!(standing(&done, two, Before::Done(one)), Open);
        assert_eq!(standing(&done, two, Before::Done(three)), Stale);
        let again = [(&whole, two.done())];
        assert_eq!(standing(&again, one, Before::Open), Stale);
        assert_eq!(standing(&again, two, Before::Done(one)), Valid);
        let undone = [(&whole, one.deleted())];
        assert_eq!(standing(&undone, one, Before::Open), Stale);
        assert_eq!(standing(&undone, two, Before::Open), Open);
        let of_older = settled(&done);
        assert_eq!(Settled { generation: 3, ..of_older }.standing(&shard(one, &whole, &Before::Open)), Stale);
    }

    #[test]
    fn a_slice_that_was_cut_short_keeps_its_rejects() {
        let [one, two] = [Attempt::new(), Attempt::new()];
        let (whole, first, second) = (slice_of("x", 0, 9), slice_of("x", 0, 4), slice_of("x", 4, 9));
        let of = |said: &[(&SliceName, i64)]| settled(said).standing(&shard(one, &whole, &Before::Open));
        assert_eq!(of(&[(&first, one.done())]), Standing::Valid);
        // An attempt must win the first row of its slice.
        assert_eq!(of(&[(&second, two.done())]), Standing::Open);
        assert_eq!(of(&[(&second, two.done()), (&first, two.done())]), Standing::Stale);
    }

    #[test]
    fn a_shard_of_a_content_that_was_replaced_is_stale() {
        let [one, two] = [Attempt::new(), Attempt::new()];
        let [first, second, third] = ["x", "y", "z"].map(|content| slice_of(content, 0, 9));
        let done = settled(&[(&second, two.done())]);
        // From a run that was killed before its file was replaced.
        assert_eq!(done.standing(&shard(one, &first, &Before::Open)), Standing::Stale);
        // From one that replaces the current content, and from one whose content to replace no longer exists.
        assert_eq!(done.standing(&shard(one, &third, &Before::Other(second.content_key()))), Standing::Open);
        assert_eq!(done.standing(&shard(one, &third, &Before::Other(first.content_key()))), Standing::Stale);
        // The old content came back after the new one was done.
        let returned = settled(&[(&second, two.done()), (&third, one.deleted())]);
        assert_eq!(returned.standing(&shard(one, &third, &Before::Other(second.content_key()))), Standing::Stale);
    }
}
