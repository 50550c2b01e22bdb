//! The files of an input, divided into new, done and changed, and their open rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use asap_kernels::front_end::Flag;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use object_store::ObjectStoreExt;
use object_store::path::Path as StorePath;
use sha2::{Digest, Sha256};

use crate::corpus::scan::slices::{cell_start, cut, row_group_start};
use crate::corpus::{Corpus, CorpusFile, FileFailure, FileRows, Slice};
use crate::run::content_hashes::{Contents, hex};
use crate::run::delta_inputs::Gone;
use crate::run::ledger::{Before, FileVersion, HeldFile, Ledger, OpenSlice, RetriedSlice, gaps};
use crate::run::output::Output;
use crate::run::output::finished_slice::Finished;
use crate::run::output::missing::Missing;
use crate::run::request::{OnChange, Part, Request};
use crate::run::sample::Sample;

#[derive(Debug, Default)]
pub struct Divided {
    pub open: Vec<CorpusFile>,
    pub versions: HashMap<String, FileVersion>,
    pub replaced: HashSet<String>,
    pub ignored: Vec<String>,
    pub failures: Vec<FileFailure>,
}

impl Divided {
    fn add(&mut self, file: CorpusFile, version: FileVersion) {
        self.versions.insert(file.path.clone(), version);
        self.open.push(file);
    }
}

/// Divides files by their state in an output.
pub fn divide(
    files: Vec<CorpusFile>,
    ledger: &Ledger,
    again: &[RetriedSlice],
    contents: &mut Contents,
    on_change: OnChange,
) -> Result<Divided> {
    let again: HashSet<&str> = again.iter().map(|again| again.slice.path.as_str()).collect();
    let mut divided = Divided::default();
    for file in files {
        let version = match version_of(&file, contents) {
            Ok(version) => version,
            Err(error) => {
                divided.failures.push(FileFailure::new(&file.path, &error));
                continue;
            }
        };
        match ledger.file(&file.path) {
            Some(held) if held.version == version && held.open().is_empty() && !again.contains(file.path.as_str()) => {}
            Some(held) if held.version != version => match on_change {
                OnChange::Ignore => divided.ignored.push(file.path.clone()),
                OnChange::Reprocess => {
                    divided.replaced.insert(file.path.clone());
                    divided.add(file, version);
                }
                OnChange::Fail => {
                    divided.failures.push(FileFailure::new(&file.path, &changed(&file, &held.version, &version)))
                }
            },
            _ => divided.add(file, version),
        }
    }
    Ok(divided)
}

/// Gives renamed files their old paths, so that their rows are recognized. A file counts as renamed if it has the
/// content of a file of the output that no longer exists. Returns a note for users.
pub(crate) async fn keep_old_names(
    files: &mut [CorpusFile],
    ledger: &Ledger,
    contents: &mut Contents,
    state: &SessionState,
) -> Option<String> {
    let here: HashSet<String> = files.iter().map(|file| file.path.clone()).collect();
    // A modification time does not identify a content.
    let of_content = |held: &FileVersion| ["blake3-", "etag-"].iter().any(|kind| held.fingerprint.starts_with(kind));
    let gone = ledger.files().filter(|(path, held)| !here.contains(*path) && of_content(&held.version));
    let mut gone: HashMap<&FileVersion, &String> = gone.map(|(path, held)| (&held.version, path)).collect();
    let mut renamed: Vec<(String, String)> = Vec::new();
    for file in files.iter_mut().filter(|file| ledger.file(&file.path).is_none()) {
        if gone.is_empty() {
            break;
        }
        let Some(before) = version_of(file, contents).ok().and_then(|version| gone.remove(&version)) else { continue };
        if is_gone(file, before, state).await {
            renamed.push((std::mem::replace(&mut file.path, before.clone()), before.clone()));
        }
    }
    let (now, before) = renamed.first()?;
    let others = match renamed.len() - 1 {
        0 => String::new(),
        others => format!("; {others} more files were renamed"),
    };
    Some(format!(
        "{now} has the content of {before}, which no longer exists: it is the same file, and its rows keep the name {before}{others}"
    ))
}

/// A note about partly done files that are no longer in the input. With a limit, partly done files are intended.
pub(crate) fn half_done_and_gone(ledger: &Ledger, here: &HashSet<&str>, is_limited: bool) -> Option<String> {
    let half_done = ledger.files().filter(|(path, held)| !here.contains(path.as_str()) && held.rows_done() < held.rows);
    let (path, held) = half_done.min_by_key(|(path, _)| *path).filter(|_| !is_limited)?;
    let (done, rows) = (held.rows_done(), held.rows);
    Some(format!(
        "{done} of {rows} rows of {path} are done, and the file is no longer in the input: the output is not finished. Put the \
         file back, or rebuild the output with {}",
        Flag("--new-generation")
    ))
}

/// Whether the file `before` no longer exists, derived from a file of the same source. The listing cannot answer this:
/// it may be of another pattern.
async fn is_gone(file: &CorpusFile, before: &str, state: &SessionState) -> bool {
    let location = file.meta.location.to_string();
    // The paths of named sources begin with the name of the source, which is not a folder.
    let named = match (file.path.split_once('/'), before.split_once('/')) {
        (Some((name, path)), Some((same, before))) if name == same => Some((path, before)),
        _ => None,
    };
    let sibling = [Some((file.path.as_str(), before)), named]
        .into_iter()
        .flatten()
        .find_map(|(path, before)| Some(StorePath::parse(format!("{}{before}", location.strip_suffix(path)?)).ok()));
    let (Some(Some(sibling)), Ok(store)) = (sibling, state.runtime_env().object_store(&file.store_url)) else {
        return false;
    };
    matches!(store.head(&sibling).await, Err(object_store::Error::NotFound { .. }))
}

fn changed(file: &CorpusFile, held: &FileVersion, found: &FileVersion) -> DataFusionError {
    let sizes = match held.size == found.size {
        true => format!("same size ({} bytes), different content", found.size),
        false => format!("{} bytes before, {} now", held.size, found.size),
    };
    DataFusionError::Execution(format!(
        "{} has changed since its rows were read ({sizes}): use {} to replace these rows, or {} to keep them",
        file.path,
        Flag("--on-change reprocess"),
        Flag("--on-change ignore")
    ))
}

/// The version of a file: the fingerprint in its table log if it is of a table, else its ETag. On a file system it is
/// the hash of the content, because a copy changes the ETag.
fn version_of(file: &CorpusFile, contents: &mut Contents) -> Result<FileVersion> {
    if let Some(table) = &file.in_table {
        return Ok(FileVersion { size: file.meta.size, fingerprint: table.fingerprint.clone() });
    }
    let is_local = file.store_url.as_str().starts_with("file:");
    let fingerprint = match &file.meta.e_tag {
        _ if is_local => format!("blake3-{}", contents.of_file(Path::new(&file.name))?),
        Some(e_tag) => format!("etag-{}", plain(e_tag)),
        None => format!("time-{}", file.meta.last_modified.timestamp_millis()),
    };
    Ok(FileVersion { size: file.meta.size, fingerprint })
}

/// An ETag in a common form: some listings quote it or mark it as weak.
fn plain(e_tag: &str) -> String {
    let bare = e_tag.strip_prefix("W/").unwrap_or(e_tag).trim_matches('"');
    match bare.contains('/') {
        true => hex(&Sha256::digest(bare)),
        false => bare.to_string(),
    }
}

/// Changed files that have no rows now: no commit of new rows would delete their old rows.
pub fn emptied(corpus: &Corpus, divided: &Divided) -> Vec<Gone> {
    let empty = corpus.files().map(|(_, file)| file).filter(|file| file.rows() == 0).map(|file| &file.file.path);
    let replaced = empty.filter(|path| divided.replaced.contains(*path));
    replaced.map(|path| Gone { path: path.clone(), why: "the file no longer has rows".to_string() }).collect()
}

pub fn lost(missing: &Missing) -> Vec<Gone> {
    let why = match missing.shards.len() {
        1 => "a shard with some of them is missing or damaged; rows that are still in the input are processed again"
            .to_string(),
        shards => format!(
            "{shards} shards with some of them are missing or damaged; rows that are still in the input are processed again"
        ),
    };
    missing.files.iter().map(|path| Gone { path: path.clone(), why: why.clone() }).collect()
}

#[derive(Debug, Default)]
pub struct Slices {
    /// The slices of this part within the limit, ordered by schema and path.
    pub open: Vec<OpenSlice>,
    /// Slices of other parts.
    pub left: u64,
    pub beyond: u64,
}

/// The rows that a run may process.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub request: &'a Request,
    pub slice_rows: u64,
    pub sample: Option<&'a Sample>,
}

/// The slices of recognized files that are open or retried.
pub fn slices(
    corpus: &Corpus,
    divided: &Divided,
    ledger: &Ledger,
    again: &[RetriedSlice],
    wanted: Wanted,
    staged: &[Finished],
) -> Slices {
    let Wanted { request, slice_rows, sample } = wanted;
    let mut open: Vec<OpenSlice> = Vec::new();
    let mut tried: Vec<OpenSlice> = Vec::new();
    for (group, file) in corpus.files() {
        let path = &file.file.path;
        let Some(version) = divided.versions.get(path) else { continue };
        let (chosen, slice_rows) = match sample.map(|sample| sample.of_file(file)) {
            None => (None, slice_rows),
            // A slice of a sample has as many chosen rows.
            Some(Some((chosen, rows_each))) => (Some(chosen), slice_rows.saturating_mul(rows_each)),
            Some(None) => continue,
        };
        let before = before_of(path, divided, ledger);
        let ranges = match ledger.file(path).filter(|_| before == Before::Open) {
            Some(held) => held.open(),
            None => {
                let staged = staged.iter().map(|staged| &staged.slice).filter(|slice| slice.path == *path);
                gaps(file.rows(), staged.map(|slice| (slice.start, slice.end)))
            }
        };
        for (cell, mut slice) in cut(file, &ranges, slice_rows) {
            if let Some(chosen) = &chosen {
                let at = |row: u64| chosen.partition_point(|chosen| *chosen < row);
                slice.only = Some(chosen[at(slice.start)..at(slice.end)].into());
            }
            let name = ledger.name(path, version, file.rows(), (slice.start, slice.end));
            open.push(OpenSlice { slice, name, cell, group, before: before.clone() });
        }
        for again in again.iter().filter(|again| again.slice.path == *path && again.slice.version == *version) {
            let cell = cell_start(&file.row_groups, slice_rows, again.slice.start);
            tried.push(again_of(again, file, cell, group));
        }
    }
    open.sort_by(|a, b| (&a.name.path, a.name.start).cmp(&(&b.name.path, b.name.start)));
    let beyond =
        request.limit.map_or(0, |rows| limit(&mut open, rows, &done_and_rows(corpus, divided, ledger, staged)));
    open.append(&mut tried);
    let all = open.len();
    if let Some(part) = request.part {
        open.retain(|slice| is_of(part, slice));
    }
    open.sort_by(|a, b| (a.group, &a.name.path, a.name.start).cmp(&(b.group, &b.name.path, b.name.start)));
    let left = (all - open.len()) as u64;
    Slices { open, left, beyond }
}

/// What the output has of a file before the file's open slices are done.
fn before_of(path: &str, divided: &Divided, ledger: &Ledger) -> Before {
    match ledger.file(path).filter(|_| divided.replaced.contains(path)) {
        Some(HeldFile { version, rows, .. }) => Before::Other(version.key(*rows)),
        None => Before::Open,
    }
}

/// The uncommitted slices of replaced files from earlier runs. With parts, only those of this part.
pub async fn staged(
    corpus: &Corpus,
    divided: &Divided,
    ledger: &Ledger,
    output: &Output,
    request: &Request,
) -> Result<Vec<Finished>> {
    let mut staged = Vec::new();
    for (_, file) in corpus.files() {
        let path = &file.file.path;
        let Some(version) = divided.versions.get(path).filter(|_| divided.replaced.contains(path)) else { continue };
        if request.part.is_some_and(|part| !is_in(part, path)) {
            continue;
        }
        let whole = ledger.name(path, version, file.rows(), (0, file.rows()));
        staged.extend(output.staged(&whole, &before_of(path, divided, ledger)).await?);
    }
    Ok(staged)
}

fn again_of(again: &RetriedSlice, file: &FileRows, cell: u64, group: usize) -> OpenSlice {
    let RetriedSlice { slice: name, before, rows } = again;
    let slice = Slice {
        file: Arc::clone(&file.file),
        start: name.start,
        end: name.end,
        row_group_start: row_group_start(&file.row_groups, name.start),
        only: Some(Arc::clone(rows)),
    };
    OpenSlice { slice, name: name.clone(), cell, group, before: Before::Done(*before) }
}

/// The done rows of each file, and the rows that it may have: all of an open file, the done ones of another.
fn done_and_rows(
    corpus: &Corpus,
    divided: &Divided,
    ledger: &Ledger,
    staged: &[Finished],
) -> BTreeMap<String, (u64, u64)> {
    let held = ledger.files().filter(|(path, _)| !divided.replaced.contains(*path));
    let mut files: BTreeMap<String, (u64, u64)> =
        held.map(|(path, held)| (path.clone(), (held.rows_done(), held.rows_done()))).collect();
    for staged in staged {
        files.entry(staged.slice.path.clone()).or_default().0 += staged.slice.rows();
    }
    for (_, file) in corpus.files() {
        files.entry(file.file.path.clone()).or_default().1 = file.rows();
    }
    files
}

/// Keeps the first open rows of each file, so that the output has at most `limit` rows, evenly over the files. Returns how
/// many rows are beyond the limit.
fn limit(open: &mut Vec<OpenSlice>, limit: u64, files: &BTreeMap<String, (u64, u64)>) -> u64 {
    // The most rows of a file, except for files that have more already.
    let up_to = |most: u64, (done, rows): &(u64, u64)| most.min(*rows).max(*done);
    let total = |most: u64| files.values().map(|file| up_to(most, file)).sum::<u64>();
    let (mut most, mut too_many) = (0, limit.saturating_add(1));
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if total(middle) <= limit { most = middle } else { too_many = middle }
    }
    let mut rest = limit.saturating_sub(total(most));
    let mut left: HashMap<&str, u64> = HashMap::new();
    for (path, file) in files {
        let more = u64::from(rest > 0 && up_to(most + 1, file) > up_to(most, file));
        rest -= more;
        left.insert(path, up_to(most + more, file) - file.0);
    }
    let (mut beyond, mut none) = (0, 0);
    open.retain_mut(|slice| {
        let left = left.get_mut(slice.name.path.as_str()).unwrap_or(&mut none);
        let rows = slice.name.rows().min(*left);
        *left -= rows;
        beyond += slice.name.rows() - rows;
        slice.name.end = slice.name.start + rows;
        slice.slice.end_at(slice.name.end);
        rows > 0
    });
    beyond
}

/// Whether a slice belongs to a part. It does not depend on which rows are open, so all parts agree. A replaced file
/// belongs to one part as a whole, since one commit replaces it.
fn is_of(part: Part, slice: &OpenSlice) -> bool {
    let path = &slice.name.path;
    if slice.replaces() { is_in(part, path) } else { is_in(part, &format!("{}/{path}", slice.cell)) }
}

fn is_in(part: Part, key: &str) -> bool {
    let hash = Sha256::digest(key);
    let number = hash.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    number % part.of + 1 == part.number
}
