//! Which shards of the rejects count.
//!
//! The rejects of a slice are committed before the slice is done, so that no reject is ever missing. Whose they are stands in
//! the path of a shard: `asap-<attempt>/<generation>-<slice>-<before>/…`. They count if that attempt did the slice. The others
//! are of an attempt that was killed, or overtaken, or taken back; or of one that is still under way. An attempt can only win
//! while the slice is as it was when its work began, which is what `before` says: nobody had done it, or the attempt whose
//! rejects are tried again. Nor can it win once another slice is done that has some of its rows, as runs with other slices
//! than a run that was killed make them. So it is known, whatever clocks say, which shards will never count.

use std::collections::HashMap;
use std::ops::Range;

use object_store::path::Path;

use super::ledger::{ATTEMPT, Attempt, SliceName};
use crate::log::{LiveFile, State};

/// In place of an attempt: nobody had done the slice.
const NOBODY: &str = "000000000000";

/// What an output's log says of slices.
pub struct Settled {
    generation: u64,
    /// By the slice's key: who did it, and whether that was taken back.
    slices: HashMap<String, (Attempt, bool)>,
    /// By the content's key: the ranges of its rows that are done.
    done: HashMap<String, Vec<Range<u64>>>,
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

/// What the path of a shard says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub attempt: Attempt,
    /// The generation of the output.
    pub generation: u64,
    /// The slice: see [`SliceName::key`].
    pub slice: String,
    /// Who had done the slice before; None if nobody had.
    pub before: Option<Attempt>,
}

impl Place {
    /// The folder of the rejects of a slice.
    pub fn folder(attempt: Attempt, slice: &SliceName, before: Option<Attempt>) -> Path {
        let before = before.map_or(NOBODY.to_string(), |before| before.to_string());
        let inner = format!("{}-{}-{before}", slice.generation, slice.key());
        Path::from_iter([format!("{ATTEMPT}{attempt}"), inner])
    }

    /// What the path of a shard says; None if no run wrote it.
    pub fn of(path: &str) -> Option<Self> {
        let (attempt, rest) = path.strip_prefix(ATTEMPT)?.split_once('/')?;
        let mut parts = rest.split_once('/')?.0.splitn(3, '-');
        let (generation, slice, before) = (parts.next()?, parts.next()?, parts.next()?);
        let before = if before == NOBODY { None } else { Some(before.parse().ok()?) };
        Some(Self {
            attempt: attempt.parse().ok()?,
            generation: generation.parse().ok()?,
            slice: slice.to_string(),
            before,
        })
    }

    /// The content of the slice and its rows; None where an earlier asap wrote the shard.
    fn rows(&self) -> Option<(&str, Range<u64>)> {
        let (content, rows) = self.slice.split_once('.')?;
        let (start, end) = rows.split_once('.')?;
        Some((content, start.parse().ok()?..end.parse().ok()?))
    }
}

impl Settled {
    /// What the log of an output says.
    pub fn of(state: &State, generation: u64) -> Self {
        let mut settled = Self { generation, slices: HashMap::new(), done: HashMap::new() };
        for found in state.transactions.values() {
            let Ok(slice) = found.app_id.parse::<SliceName>() else { continue };
            if slice.generation == generation {
                settled.add(&slice, found.version);
            }
        }
        settled
    }

    /// What a transaction of this version says of a slice.
    fn add(&mut self, slice: &SliceName, version: i64) {
        let done = Attempt::of(version);
        let said = (done.unwrap_or(Attempt::taken_back_by(version)), done.is_none());
        let key = slice.key();
        if let Some((content, _)) = key.split_once('.').filter(|_| done.is_some()) {
            self.done.entry(content.to_string()).or_default().push(slice.start..slice.end);
        }
        self.slices.insert(slice.earlier_key(), said);
        self.slices.insert(key, said);
    }

    /// Whether a slice is done that has some of a shard's rows.
    fn has_rows_of(&self, place: &Place) -> bool {
        let Some((content, rows)) = place.rows() else { return false };
        let done = self.done.get(content).into_iter().flatten();
        done.into_iter().any(|done| done.start < rows.end && rows.start < done.end)
    }

    /// What a shard is.
    pub fn standing(&self, shard: &LiveFile) -> Standing {
        let Some(place) = Place::of(&shard.path) else { return Standing::Stale };
        if place.generation != self.generation {
            // One that is ahead of us is of a run that has begun anew since.
            return if place.generation > self.generation { Standing::Open } else { Standing::Stale };
        }
        match self.slices.get(&place.slice) {
            Some((done, false)) if *done == place.attempt => Standing::Counts,
            Some((done, false)) if place.before == Some(*done) => Standing::Open,
            Some((_, false)) => Standing::Stale,
            Some((gone, true)) if *gone == place.attempt => Standing::Stale,
            Some((_, true)) | None if place.before.is_none() && !self.has_rows_of(&place) => Standing::Open,
            Some((_, true)) | None => Standing::Stale,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::ledger::FileVersion;

    fn slice() -> SliceName {
        let version = FileVersion { size: 7, fingerprint: "x".to_string() };
        SliceName { generation: 2, version, file_rows: 9, start: 0, end: 9, path: "a.parquet".to_string() }
    }

    fn shard(attempt: Attempt, before: Option<Attempt>) -> LiveFile {
        let path = format!("{}/part-0.parquet", Place::folder(attempt, &slice(), before));
        let file = json!({ "path": path, "size": 1, "modificationTime": 0, "dataChange": true });
        serde_json::from_value(file).unwrap()
    }

    #[test]
    fn a_path_says_whose_a_shard_is() {
        let (one, two) = (Attempt::new(), Attempt::new());
        let place = Place::of(&shard(one, Some(two)).path).unwrap();
        assert_eq!((place.attempt, place.before, place.generation), (one, Some(two), 2));
        assert_eq!(place.slice, slice().key());
        assert_eq!(place.rows().map(|(_, rows)| rows), Some(0..9));
        assert_eq!(Place::of("part-0.parquet"), None);
    }

    #[test]
    fn a_shard_counts_for_the_attempt_that_won() {
        let [one, two, three] = [Attempt::new(), Attempt::new(), Attempt::new()];
        let with = |said: Option<(Attempt, bool)>| {
            let mut settled = Settled { generation: 2, slices: HashMap::new(), done: HashMap::new() };
            if let Some((attempt, is_gone)) = said {
                settled.add(&slice(), if is_gone { attempt.taken_back() } else { attempt.done() });
            }
            settled
        };
        let open = with(None);
        assert_eq!(open.standing(&shard(one, None)), Standing::Open);
        let done = with(Some((one, false)));
        assert_eq!(done.standing(&shard(one, None)), Standing::Counts);
        assert_eq!(done.standing(&shard(two, None)), Standing::Stale);
        assert_eq!(done.standing(&shard(two, Some(one))), Standing::Open);
        assert_eq!(done.standing(&shard(two, Some(three))), Standing::Stale);
        let again = with(Some((two, false)));
        assert_eq!(again.standing(&shard(one, None)), Standing::Stale);
        assert_eq!(again.standing(&shard(two, Some(one))), Standing::Counts);
        let taken_back = with(Some((one, true)));
        assert_eq!(taken_back.standing(&shard(one, None)), Standing::Stale);
        assert_eq!(taken_back.standing(&shard(two, None)), Standing::Open);
        // Of a run with other slices: rows that are done are not done again.
        let of = |start, end| {
            let cut = SliceName { start, end, ..slice() };
            let mut settled = with(None);
            settled.add(&cut, two.done());
            settled.standing(&shard(one, None))
        };
        assert_eq!(
            [of(4, 6), of(0, 1), of(8, 20), of(9, 20)],
            [Standing::Stale, Standing::Stale, Standing::Stale, Standing::Open]
        );
        // As an earlier asap wrote it.
        let path = format!("asap-{one}/2-{}-000000000000/part-0.parquet", slice().earlier_key());
        let earlier =
            serde_json::from_value(json!({ "path": path, "size": 1, "modificationTime": 0, "dataChange": true }));
        assert_eq!(done.standing(&earlier.unwrap()), Standing::Counts);
        let anew = Settled { generation: 3, ..done };
        assert_eq!(anew.standing(&shard(one, None)), Standing::Stale);
    }
}
