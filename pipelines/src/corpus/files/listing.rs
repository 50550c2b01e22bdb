//! Lists the files of a location, never from a cache.

use std::path::{Path as FilePath, PathBuf};

use asap_kernels::front_end::either;
use asap_udfs::typo::nearest;
use datafusion::catalog::Session;
use datafusion::common::{Result, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

use crate::corpus::files::file::CorpusFile;
use crate::corpus::files::source::Source;
use crate::corpus::files::{foreign, is_hidden, json};
use crate::location;
use crate::objects::{Nameless, existing};

/// Endings of data files in other formats. Compressed files have one more ending.
const OTHER_FORMATS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "arrow", "avro"];
const COMPRESSED: [&str; 4] = ["gz", "zst", "bz2", "xz"];
/// What asap train measured, next to the model.
const METRICS: &str = "metrics.jsonl";
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file's path segments below the listed folder, and the file.
type FoundFile = (Vec<String>, ObjectMeta);

pub(crate) struct Listing {
    pub files: Vec<CorpusFile>,
    /// Data files in other formats.
    pub left_out: Vec<String>,
    /// Names that are no paths, with the reason.
    pub nameless: Vec<String>,
    /// What else is to be known about the files.
    pub note: Option<String>,
}

impl Listing {
    /// Lists a file, or a folder with its subfolders, without names that begin with `_` or `.`. An empty folder gives
    /// an empty listing: a job may start before its input exists.
    ///
    /// In a folder with Parquet, only Parquet is read, because the same rows often exist in both formats; else JSON
    /// lines. Other `.json` files are read only if they are named: in folders they often describe the data.
    ///
    /// A dataset of the Hub without either is read from the branch in which the Hub has it as Parquet.
    pub(crate) async fn new(session: &dyn Session, source: &Source) -> Result<Self> {
        let (listing, other) = Self::at(session, source).await?;
        if !listing.files.is_empty() {
            return Ok(listing);
        }
        if let Some(converted) = Self::converted(session, source).await? {
            return Ok(converted);
        }
        let Some(other) = other else { return Ok(listing) };
        let (store, store_url, _) = source.in_store(session)?;
        foreign::refuse_file(store.as_ref(), &other, &name(&store_url, &other.location)).await
    }

    /// Lists a location, and returns the first file of another format too.
    async fn at(session: &dyn Session, source: &Source) -> Result<(Self, Option<ObjectMeta>)> {
        let url = &source.url;
        let (store, store_url, root) = source.in_store(session)?;
        let shown = location::display(url);
        if !url.path().ends_with('/')
            && !root.as_ref().is_empty()
            && let Some(meta) = existing(store.head(&root).await)?
        {
            foreign::refuse_part_of_table(store.as_ref(), &root, &shown).await?;
            let parts = [root.filename().unwrap_or_default().to_string()];
            let files = vec![corpus_file(source, &store_url, meta, &parts)];
            return Ok((Self { files, left_out: vec![], nameless: vec![], note: None }, None));
        }
        let (found, nameless) = list(store.as_ref(), &root).await.map_err(|error| match url.scheme() {
            "file" => location::failed(&format!("cannot list {shown}"), error.into()),
            _ => error.into(),
        })?;
        let is_missing = || url.scheme() == "file" && !location::local_path(url).is_some_and(|path| path.is_dir());
        if found.is_empty() && is_missing() {
            return exec_err!("there is no file or folder {shown}{}{}", neighbor(url), of_elsewhere(&source.typed));
        }
        foreign::refuse_tables(found.iter().map(|(parts, _)| parts.as_slice()), &shown)?;
        foreign::refuse_part_of_table(store.as_ref(), &root, &shown).await?;
        let nameless = unlisted(source, &store_url, &root, nameless);
        let mut listing = Self { files: vec![], left_out: vec![], nameless, note: None };
        let other = listing.choose(source, &store_url, found);
        Ok((listing, other))
    }

    /// Lists the branch in which the Hub has a dataset as Parquet; None without one.
    async fn converted(session: &dyn Session, source: &Source) -> Result<Option<Self>> {
        let Some(url) = location::converted(&source.url) else { return Ok(None) };
        let shown = location::display(&url);
        let (mut listing, _) = match Self::at(session, &source.at(url)).await {
            Err(error) if location::lacks_revision(&error) => return Ok(None),
            listing => listing?,
        };
        if listing.files.is_empty() {
            return Ok(None);
        }
        // The Hub converts the first gigabytes of a large dataset.
        let is_part = listing.files.iter().any(|file| file.path.split('/').any(|part| part.starts_with("partial-")));
        let rest = if is_part { ", which has only the first part of the rows" } else { "" };
        listing.note = Some(format!(
            "{} has no Parquet and no JSON lines, so its rows are read from {shown}{rest}",
            location::display(&source.url)
        ));
        Ok(Some(listing))
    }

    /// Adds the files to read, and leaves out other data files. Returns the first file of another format.
    fn choose(&mut self, source: &Source, store_url: &ObjectStoreUrl, found: Vec<FoundFile>) -> Option<ObjectMeta> {
        let mut lines = Vec::new();
        let mut other = None;
        // The folder of a trained model has measurements too.
        let is_model = found.iter().any(|(parts, _)| parts.last().is_some_and(|file| file == "training.json"));
        for (parts, meta) in found {
            if parts.iter().any(|part| is_hidden(part)) || !source.takes(&parts.join("/")) {
                continue;
            }
            let ending = parts.last().map_or("", String::as_str).to_ascii_lowercase();
            if ending.ends_with(".parquet") || source.is_pattern() && json::is_json(&ending) {
                self.files.push(corpus_file(source, store_url, meta, &parts));
            } else if json::is_lines(&ending) && !(is_model && ending == METRICS) {
                lines.push(corpus_file(source, store_url, meta, &parts));
            } else if is_other_format(&ending) {
                self.left_out.push(name(store_url, &meta.location));
                if ending == "tokenizer.json" { other = Some(meta) } else { _ = other.get_or_insert(meta) }
            }
        }
        if self.files.is_empty() {
            self.files = lines;
        } else {
            self.left_out.extend(lines.into_iter().map(|file| file.name));
        }
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        other
    }
}

/// Names in a message at most.
const NAMED: usize = 5;

/// As [`neighbor`], for a location as typed.
pub fn suggestion(typed: &str) -> String {
    location::parse(typed).map_or(String::new(), |url| neighbor(&url))
}

/// A suggestion from the folder that would hold a missing local file or folder: a name like it, or those of its kind.
pub(crate) fn neighbor(url: &Url) -> String {
    let typed = location::local_path(url).unwrap_or_default();
    let Some(path) = typed.ancestors().take_while(|path| !path.exists()).last() else { return String::new() };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return String::new() };
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !is_hidden(name));
    names.sort_unstable();
    let start = name.to_string_lossy();
    let is_longer = |name: &&str| start.len() > 1 && name.starts_with(&*start);
    let near = nearest(&start, names.iter().map(String::as_str));
    let near = near.or_else(|| names.iter().map(String::as_str).find(is_longer)).map(|near| folder.join(near));
    // The rest of the path may be right.
    let whole = |near: PathBuf| match typed.strip_prefix(path).map(|rest| near.join(rest)) {
        Ok(whole) if typed != path && whole.exists() => whole,
        _ => near,
    };
    if let Some(url) = near.and_then(|near| Url::from_file_path(whole(near)).ok()) {
        return format!(" (did you mean {}?)", location::display(&url));
    }
    let ending = path.extension();
    let of_kind = names.iter().filter(|name| ending.is_some() && FilePath::new(name).extension() == ending);
    let of_kind: Vec<&str> = of_kind.take(NAMED).map(String::as_str).collect();
    if of_kind.is_empty() { String::new() } else { format!(" (its folder has {})", of_kind.join(", ")) }
}

fn corpus_file(source: &Source, store_url: &ObjectStoreUrl, mut meta: ObjectMeta, parts: &[String]) -> CorpusFile {
    // Azure lists ETags without quotes, but requires them in requests.
    if let Some(e_tag) = meta.e_tag.as_mut().filter(|e_tag| source.url.scheme() != "file" && !e_tag.contains('"')) {
        *e_tag = format!("\"{e_tag}\"");
    }
    let path = source.path_of(&parts.join("/"));
    let name = name(store_url, &meta.location);
    let (store_url, partitions) = (store_url.clone(), partitions(parts));
    CorpusFile { path, name, store_url, meta, partitions, in_table: None, temporary: None }
}

/// Advice for a location with the separators of Windows, or one that looks like the name of a Hub dataset, and not like a
/// file or a path in a local folder.
fn of_elsewhere(typed: &str) -> String {
    if typed.contains('\\') {
        return format!("; a path has slashes here: {}", typed.replace('\\', "/"));
    }
    if typed.contains(',') {
        let several = either(
            "asap run also takes several --from NAME=LOC",
            "asap.run also takes a list, from_=['a=LOC', 'b=LOC']",
        );
        return format!("; a location has no commas: a pattern in quotes names several files ({several})");
    }
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    let is_file = |name: &str| name.ends_with(".parquet") || is_other_format(name);
    match typed.split('/').collect::<Vec<_>>().as_slice() {
        [organisation, name]
            if is_part(organisation) && is_part(name) && !is_file(name) && !FilePath::new(organisation).is_dir() =>
        {
            format!("; a dataset of the Hugging Face Hub is hf://datasets/{typed}")
        }
        _ => String::new(),
    }
}

pub(crate) fn name(store_url: &ObjectStoreUrl, path: &Path) -> String {
    if location::local_path(store_url.as_ref()).is_some() {
        return format!("/{path}");
    }
    let mut url: Url = AsRef::<Url>::as_ref(store_url).clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.clear().extend(path.parts().map(|part| part.as_ref().to_string()));
    }
    location::display(&url)
}

fn partitions(parts: &[String]) -> Vec<(String, Option<String>)> {
    let folders = parts.split_last().map_or(&[][..], |(_, folders)| folders);
    let pairs = folders.iter().filter_map(|folder| folder.split_once('=')).filter(|(key, _)| !key.is_empty());
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    pairs.map(|(key, value)| (decoded(key), (value != NULL_FOLDER).then(|| decoded(value)))).collect()
}

/// The names that are no paths, for users, with the reason. Hidden names and those that the pattern does not match were never
/// meant.
fn unlisted(source: &Source, store_url: &ObjectStoreUrl, root: &Path, nameless: Vec<Nameless>) -> Vec<String> {
    let below = |name: &str| name.strip_prefix(root.as_ref()).unwrap_or(name).trim_start_matches('/').to_string();
    let is_meant = |name: &str| !name.split('/').any(is_hidden) && source.takes(name);
    let meant = nameless.into_iter().filter(|nameless| is_meant(&below(&nameless.name)));
    let place = match location::local_path(store_url.as_ref()) {
        Some(_) => "/".to_string(),
        None => location::display(store_url.as_ref()),
    };
    let mut shown: Vec<String> =
        meant.map(|Nameless { name, reason }| format!("{:?}, which {reason}", format!("{place}{name}"))).collect();
    shown.sort_unstable();
    shown
}

/// Lists every file below a folder, and the names there that are no paths.
async fn list(store: &dyn ObjectStore, root: &Path) -> object_store::Result<(Vec<FoundFile>, Vec<Nameless>)> {
    let mut listed = store.list(Some(root));
    let (mut found, mut nameless) = (Vec::new(), Vec::new());
    while let Some(file) = listed.next().await {
        let file = match file {
            Ok(file) => file,
            Err(object_store::Error::NotFound { .. }) if found.is_empty() && nameless.is_empty() => break,
            Err(error) => match Nameless::of(&error) {
                Some(name) => {
                    nameless.push(name);
                    continue;
                }
                None => return Err(error),
            },
        };
        let parts = file.location.prefix_match(root).map(|parts| parts.map(|part| part.as_ref().to_string()).collect());
        if let Some(parts) = parts.filter(|parts: &Vec<String>| !parts.is_empty()) {
            found.push((parts, file));
        }
    }
    Ok((found, nameless))
}

fn is_other_format(name: &str) -> bool {
    let mut endings = name.rsplit('.');
    let last = endings.next().unwrap_or_default();
    let ending = if COMPRESSED.contains(&last) { endings.next().unwrap_or_default() } else { last };
    OTHER_FORMATS.contains(&ending)
}
