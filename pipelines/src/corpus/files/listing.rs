//! Lists the files of a location, never from a cache.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::{Position, Url};

use crate::corpus::files::file::CorpusFile;
use crate::corpus::files::source::Source;
use crate::corpus::files::{footer, foreign_tables, is_hidden, json};
use crate::location;

/// Endings of data files in other formats. Compressed files have one more ending.
const OTHER_FORMATS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "arrow", "avro"];
const COMPRESSED: [&str; 4] = ["gz", "zst", "bz2", "xz"];
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

pub(crate) struct Listing {
    pub files: Vec<CorpusFile>,
    pub left_out: Vec<String>,
}

impl Listing {
    /// Lists a file, or a folder with its subfolders, without names that begin with `_` or `.`. An empty folder gives
    /// an empty listing: a job may start before its input exists.
    ///
    /// In a folder with Parquet, only Parquet is read, because the same rows often exist in both formats; else JSON
    /// lines. Other `.json` files are read only if they are named: in folders they often describe the data.
    pub(crate) async fn new(
        source: &Source,
        store_of: impl FnOnce(&ObjectStoreUrl) -> Result<Arc<dyn ObjectStore>>,
    ) -> Result<Self> {
        let url = &source.url;
        let store_url = ObjectStoreUrl::parse(&url[..Position::BeforePath])?;
        let store = store_of(&store_url)?;
        let shown = location::display(url);
        let root = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
        let file = |mut meta: ObjectMeta, parts: &[String]| {
            // Azure lists ETags without quotes, but requires them in requests.
            if let Some(e_tag) = meta.e_tag.as_mut().filter(|e_tag| url.scheme() != "file" && !e_tag.contains('"')) {
                *e_tag = format!("\"{e_tag}\"");
            }
            let path = source.path_of(&parts.join("/"));
            let name = name(&store_url, &meta.location);
            let (store_url, partitions) = (store_url.clone(), partitions(parts));
            CorpusFile { path, name, store_url, meta, partitions, in_table: None, temporary: None }
        };
        if !url.path().ends_with('/')
            && !root.as_ref().is_empty()
            && let Some(meta) = head(store.as_ref(), &root).await?
        {
            foreign_tables::refuse_part_of_table(store.as_ref(), &root, &shown).await?;
            let parts = [root.filename().unwrap_or_default().to_string()];
            return Ok(Self { files: vec![file(meta, &parts)], left_out: vec![] });
        }
        let (found, unnameable) = list(store.as_ref(), &root).await?;
        if found.is_empty() && url.scheme() == "file" && !location::local_path(url).is_some_and(|path| path.is_dir()) {
            return exec_err!("there is no file or folder {shown}{}", of_hub(&source.typed));
        }
        foreign_tables::refuse_tables(found.iter().map(|(parts, _)| parts.as_slice()), &shown)?;
        foreign_tables::refuse_part_of_table(store.as_ref(), &root, &shown).await?;
        let mut listing = Self { files: vec![], left_out: unnameable };
        let mut lines = Vec::new();
        let mut other = None;
        for (parts, meta) in found.into_iter().filter(|(parts, _)| !parts.iter().any(|part| is_hidden(part))) {
            if !source.takes(&parts.join("/")) {
                continue;
            }
            let ending = parts.last().map_or("", String::as_str).to_ascii_lowercase();
            if ending.ends_with(".parquet") || source.is_pattern() && json::is_json(&ending) {
                listing.files.push(file(meta, &parts));
            } else if json::is_lines(&ending) {
                lines.push(file(meta, &parts));
            } else if is_other_format(&ending) {
                listing.left_out.push(name(&store_url, &meta.location));
                other.get_or_insert(meta);
            }
        }
        if listing.files.is_empty() {
            listing.files = lines;
        } else {
            listing.left_out.extend(lines.into_iter().map(|file| file.name));
        }
        if let (true, Some(other)) = (listing.files.is_empty(), other) {
            return footer::refuse(store.as_ref(), &other, &name(&store_url, &other.location)).await;
        }
        listing.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }
}

/// Advice for a location that looks like the name of a Hub dataset.
fn of_hub(typed: &str) -> String {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".parquet");
    match typed.split('/').collect::<Vec<_>>().as_slice() {
        [organisation, name] if is_part(organisation) && is_part(name) => format!(
            "; for a dataset of the Hugging Face Hub, run hf download --repo-type dataset {typed} --local-dir DIR and name \
             DIR, or use hf://datasets/{typed}"
        ),
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

async fn head(store: &dyn ObjectStore, path: &Path) -> Result<Option<ObjectMeta>> {
    match store.head(path).await {
        Ok(file) => Ok(Some(file)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(DataFusionError::from(error)),
    }
}

/// Lists every file below a folder with its path segments, and the files whose names no store supports.
async fn list(store: &dyn ObjectStore, root: &Path) -> Result<(Vec<(Vec<String>, ObjectMeta)>, Vec<String>)> {
    let mut listed = store.list(Some(root));
    let (mut found, mut unnameable) = (Vec::new(), Vec::new());
    while let Some(file) = listed.next().await {
        let file = match file {
            Ok(file) => file,
            Err(object_store::Error::NotFound { .. }) => break,
            Err(object_store::Error::InvalidPath { source: object_store::path::Error::BadSegment { path, .. } }) => {
                unnameable.push(format!("{:?}, whose name has a character that no store supports", format!("/{path}")));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let parts = file.location.prefix_match(root).map(|parts| parts.map(|part| part.as_ref().to_string()).collect());
        if let Some(parts) = parts.filter(|parts: &Vec<String>| !parts.is_empty()) {
            found.push((parts, file));
        }
    }
    Ok((found, unnameable))
}

fn is_other_format(name: &str) -> bool {
    let mut endings = name.rsplit('.');
    let last = endings.next().unwrap_or_default();
    let ending = if COMPRESSED.contains(&last) { endings.next().unwrap_or_default() } else { last };
    OTHER_FORMATS.contains(&ending)
}
