//! The files of a location: always listed afresh, never from a cache.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::{Position, Url};

use super::footer;
use crate::location;

/// Endings of files that hold rows, but not as Parquet; a compressed one ends in one more.
const OTHER_FORMATS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "arrow", "avro"];
const COMPRESSED: [&str; 4] = ["gz", "zst", "bz2", "xz"];

/// The Parquet files below a location.
pub(super) struct Listing {
    /// The store's URL: scheme and host.
    pub store_url: ObjectStoreUrl,
    pub store: Arc<dyn ObjectStore>,
    /// The location as the user reads it.
    pub shown: String,
    /// Parquet files, ordered by path.
    pub files: Vec<ObjectMeta>,
    /// Files of other formats beside them.
    pub left_out: Vec<String>,
}

impl Listing {
    /// Lists a file, or a folder with the folders below it, without names that begin with `_` or `.`.
    ///
    /// # Errors
    /// If nothing is there, if no Parquet file is among it, or if it is a Delta table, whose files are not its rows.
    pub async fn new(
        url: &Url,
        store_of: impl FnOnce(&ObjectStoreUrl) -> Result<Arc<dyn ObjectStore>>,
    ) -> Result<Self> {
        let store_url = ObjectStoreUrl::parse(&url[..Position::BeforePath])?;
        let store = store_of(&store_url)?;
        let shown = location::display(url);
        let root = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
        if !url.path().ends_with('/')
            && let Some(file) = head(store.as_ref(), &root).await?
        {
            return Ok(Self { store_url, store, shown, files: vec![file], left_out: vec![] });
        }
        let found = list(store.as_ref(), &root).await?;
        if found.is_empty() && !location::local_path(url).is_some_and(|path| path.is_dir()) {
            return exec_err!("there is no file or folder {shown}");
        }
        if found.iter().any(|(parts, _)| parts[0] == "_delta_log") {
            return exec_err!(
                "{shown} is a Delta table, whose files hold removed rows too: copy its rows out first, \
                 asap sql -c \"CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{shown}'\" -c \"COPY t TO 'rows.parquet'\""
            );
        }
        let mut listing = Self { store_url, store, shown, files: vec![], left_out: vec![] };
        for (parts, file) in found.into_iter().filter(|(parts, _)| !parts.iter().any(|part| is_hidden(part))) {
            let name = parts.last().map_or("", String::as_str).to_ascii_lowercase();
            if name.ends_with(".parquet") {
                listing.files.push(file);
            } else if is_other_format(&name) {
                listing.left_out.push(file.location.to_string());
            }
        }
        listing.files.sort_by(|a, b| a.location.cmp(&b.location));
        listing.refuse_without_parquet().await?;
        Ok(listing)
    }

    async fn refuse_without_parquet(&self) -> Result<()> {
        if !self.files.is_empty() {
            return Ok(());
        }
        let Some(other) = self.left_out.first() else {
            return exec_err!("the folder {} holds no Parquet file (*.parquet)", self.shown);
        };
        let file = self.store.head(&Path::from(other.as_str())).await?;
        footer::refuse(&*self.store, &file, &self.name(&file.location)).await
    }

    /// A file by the name that people and other programs know it by: its path on this machine, else its URL.
    pub fn name(&self, path: &Path) -> String {
        match location::local_path(self.store_url.as_ref()) {
            Some(_) => format!("/{path}"),
            None => self.url(path),
        }
    }

    pub fn url(&self, path: &Path) -> String {
        let mut url: Url = AsRef::<Url>::as_ref(&self.store_url).clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path.parts().map(|part| part.as_ref().to_string()));
        }
        url.to_string()
    }
}

async fn head(store: &dyn ObjectStore, path: &Path) -> Result<Option<ObjectMeta>> {
    match store.head(path).await {
        Ok(file) => Ok(Some(file)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(DataFusionError::from(error)),
    }
}

/// Every file below a folder, with the parts of its path from there.
async fn list(store: &dyn ObjectStore, root: &Path) -> Result<Vec<(Vec<String>, ObjectMeta)>> {
    let listed = store.list(Some(root)).try_filter_map(async |file| {
        let parts = file.location.prefix_match(root).map(|parts| parts.map(|part| part.as_ref().to_string()).collect());
        Ok(parts.filter(|parts: &Vec<String>| !parts.is_empty()).map(|parts| (parts, file)))
    });
    match listed.try_collect().await {
        Err(object_store::Error::NotFound { .. }) => Ok(vec![]),
        listed => Ok(listed?),
    }
}

fn is_hidden(part: &str) -> bool {
    part.starts_with(['_', '.'])
}

fn is_other_format(name: &str) -> bool {
    let mut endings = name.rsplit('.');
    let last = endings.next().unwrap_or_default();
    let ending = if COMPRESSED.contains(&last) { endings.next().unwrap_or_default() } else { last };
    OTHER_FORMATS.contains(&ending)
}
