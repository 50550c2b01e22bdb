//! Which files of the input are new, done or changed, and which of their rows are open.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use object_store::ObjectStoreExt;
use object_store::path::Path as StorePath;
use sha2::{Digest, Sha256};

use crate::corpus::scan::slices::{cell_start, cut, row_group_start};
use crate::corpus::{Corpus, CorpusFile, FileFailure, FileRows, Slice};
use crate::run::input::content_hashes::{Contents, hex};
use crate::run::input::delta_inputs::Gone;
use crate::run::output::Output;
use crate::run::output::finished_slice::Finished;
use crate::run::output::ledger::{Before, FileVersion, HeldFile, Ledger, RetriedSlice, SliceName};
use crate::run::output::missing::Missing;
use crate::run::request::{OnChange, Part, Request};

#[derive(Debug, Clone)]
pub struct OpenSlice {
    pub slice: Slice,
    pub name: SliceName,
    /// The first row of the cell of the file's grid in which it lies: parts share slices out by it.
    pub cell: u64,
    pub group: usize,
    pub before: Before,
}

impl OpenSlice {
    /// Whether the old rows of its file are deleted in the commit that adds its rows.
    pub(crate) fn replaces(&self) -> bool {
        matches!(self.before, Before::Other(_))
    }
}

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

/// Divides files by what an output holds of them.
///
/// # Errors
/// If a file of this machine cannot be read.
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

/// Gives files that were renamed since they were read their old paths, so that their rows are known. A file is renamed if it has
/// the content of a file of the output that no longer exists. Returns a note for users.
pub(crate) async fn keep_old_names(
    files: &mut [CorpusFile],
    ledger: &Ledger,
    contents: &mut Contents,
    state: &SessionState,
) -> Option<String> {
    let here: HashSet<String> = files.iter().map(|file| file.path.clone()).collect();
    // A time says nothing about a content.
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

/// A note about files that are no longer in the input and of which only some rows are done. With a limit, files are half done on
/// purpose.
pub(crate) fn half_done_and_gone(ledger: &Ledger, here: &HashSet<&str>, is_limited: bool) -> Option<String> {
    let half_done = ledger.files().filter(|(path, held)| !here.contains(path.as_str()) && held.rows_done() < held.rows);
    let (path, held) = half_done.min_by_key(|(path, _)| *path).filter(|_| !is_limited)?;
    let (done, rows) = (held.rows_done(), held.rows);
    Some(format!(
        "{done} of {rows} rows of {path} are done, and the file is no longer in the input: the output is not finished. Put the \
         file back, or fill the output anew with --new-generation"
    ))
}

/// Whether nothing lies any more where `before` lay, seen from a file of the same source. A listing cannot tell: it may be of
/// another pattern.
async fn is_gone(file: &CorpusFile, before: &str, state: &SessionState) -> bool {
    let location = file.meta.location.to_string();
    // The paths of named sources begin with the name, which is no folder.
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
        true => format!("its {} bytes are others", found.size),
        false => format!("{} bytes then, {} now", held.size, found.size),
    };
    DataFusionError::Execution(format!(
        "{} has changed since its rows were read ({sizes}): say --on-change reprocess to replace them, ignore to keep them",
        file.path
    ))
}

/// What a file holds now: what the log of its table says, else its ETag, or its content where the store is a file system,
/// whose ETag a copy changes.
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

/// An ETag as every listing gives it: some quote it, some call it weak.
fn plain(e_tag: &str) -> String {
    let bare = e_tag.strip_prefix("W/").unwrap_or(e_tag).trim_matches('"');
    match bare.contains('/') {
        true => hex(&Sha256::digest(bare)),
        false => bare.to_string(),
    }
}

/// The files that are replaced by files without rows: nothing comes in whose commit would delete their old rows.
pub fn emptied(corpus: &Corpus, divided: &Divided) -> Vec<Gone> {
    let empty = corpus.files().map(|(_, file)| file).filter(|file| file.rows() == 0).map(|file| &file.file.path);
    let replaced = empty.filter(|path| divided.replaced.contains(*path));
    replaced.map(|path| Gone { path: path.clone(), why: "the file has no rows any more".to_string() }).collect()
}

/// The files whose rows were in shards that no longer exist.
pub fn lost(missing: &Missing) -> Vec<Gone> {
    let why = match missing.shards.len() {
        1 => "a shard that held some of them no longer exists; what the input still has of them is made again"
            .to_string(),
        shards => format!(
            "{shards} shards that held some of them no longer exist; what the input still has of them is made again"
        ),
    };
    missing.files.iter().map(|path| Gone { path: path.clone(), why: why.clone() }).collect()
}

/// What is to be done of recognised files.
#[derive(Debug, Default)]
pub struct Slices {
    /// The slices, ordered by schema and path: as many rows as the limit leaves, of them the part that was asked for.
    pub open: Vec<OpenSlice>,
    /// Slices that are of other parts.
    pub left: u64,
    /// Rows that are beyond the limit.
    pub beyond: u64,
}

/// The slices of recognised files that are not done, or are tried again.
pub fn slices(
    corpus: &Corpus,
    divided: &Divided,
    ledger: &Ledger,
    again: &[RetriedSlice],
    request: &Request,
    slice_rows: u64,
    staged: &[Finished],
) -> Slices {
    let mut open: Vec<OpenSlice> = Vec::new();
    let mut tried: Vec<OpenSlice> = Vec::new();
    for (group, file) in corpus.files() {
        let path = &file.file.path;
        let Some(version) = divided.versions.get(path) else { continue };
        let before = before_of(path, divided, ledger);
        let ranges = match ledger.file(path).filter(|_| before == Before::Open) {
            Some(held) => held.open(),
            None => without(file.rows(), staged.iter().map(|staged| &staged.slice).filter(|slice| slice.path == *path)),
        };
        for (cell, slice) in cut(file, &ranges, slice_rows) {
            let name = SliceName {
                generation: ledger.generation,
                version: version.clone(),
                file_rows: file.rows(),
                start: slice.start,
                end: slice.end,
                path: path.clone(),
            };
            open.push(OpenSlice { slice, name, cell, group, before: before.clone() });
        }
        for again in again.iter().filter(|again| again.slice.path == *path && again.slice.version == *version) {
            let cell = cell_start(&file.row_groups, slice_rows, again.slice.start);
            tried.push(again_of(again, file, cell, group));
        }
    }
    open.sort_by(|a, b| (&a.name.path, a.name.start).cmp(&(&b.name.path, b.name.start)));
    let rows_staged = staged.iter().map(|staged| staged.slice.rows()).sum();
    let beyond = limit(&mut open, ledger, divided, request, rows_staged);
    open.append(&mut tried);
    let all = open.len();
    if let Some(part) = request.part {
        open.retain(|slice| is_of(part, slice));
    }
    open.sort_by(|a, b| (a.group, &a.name.path, a.name.start).cmp(&(b.group, &b.name.path, b.name.start)));
    let left = (all - open.len()) as u64;
    Slices { open, left, beyond }
}

/// What the output holds of a file before its open slices are done.
fn before_of(path: &str, divided: &Divided, ledger: &Ledger) -> Before {
    match ledger.file(path).filter(|_| divided.replaced.contains(path)) {
        Some(HeldFile { version, rows, .. }) => Before::Other(version.key(*rows)),
        None => Before::Open,
    }
}

/// The rows of a file that are in none of these slices, which are ascending.
fn without<'a>(rows: u64, slices: impl Iterator<Item = &'a SliceName>) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    for slice in slices {
        ranges.push((at, slice.start));
        at = slice.end;
    }
    ranges.push((at, rows));
    ranges.retain(|(start, end)| start < end);
    ranges
}

/// The slices of replaced files that earlier runs wrote and did not commit. Of a part's run, those of its files.
///
/// # Errors
/// If the store fails.
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
        let (rows, version) = (file.rows(), version.clone());
        let whole = SliceName {
            generation: ledger.generation,
            version,
            file_rows: rows,
            start: 0,
            end: rows,
            path: path.clone(),
        };
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

/// Keeps the first rows of the open ones, so many that the output is of no more than the limit; how many others there are.
fn limit(open: &mut Vec<OpenSlice>, ledger: &Ledger, divided: &Divided, request: &Request, rows_staged: u64) -> u64 {
    let mut beyond = 0;
    if let Some(limit) = request.limit {
        let replaced = divided.replaced.iter().filter_map(|path| ledger.file(path)).map(|held| held.rows_done());
        let mut left = limit.saturating_sub(ledger.rows - replaced.sum::<u64>() + rows_staged);
        open.retain_mut(|slice| {
            let rows = slice.name.rows().min(left);
            left -= rows;
            beyond += slice.name.rows() - rows;
            slice.name.end = slice.name.start + rows;
            slice.slice.end_at(slice.name.end);
            rows > 0
        });
    }
    beyond
}

/// Whether a slice is of a part: what is asked of it does not depend on which rows are open. A file that is replaced is
/// replaced at once, so all of it is of one part.
fn is_of(part: Part, slice: &OpenSlice) -> bool {
    let path = &slice.name.path;
    if slice.replaces() { is_in(part, path) } else { is_in(part, &format!("{}/{path}", slice.cell)) }
}

fn is_in(part: Part, key: &str) -> bool {
    let hash = Sha256::digest(key);
    let number = hash.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    number % part.of + 1 == part.number
}
