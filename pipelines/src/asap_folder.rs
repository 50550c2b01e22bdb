//! The folder `.asap` next to a table: rejects, paid answers, staged receipts, and what asap remembers about files.

use datafusion::common::{Result, exec_datafusion_err};
use url::Url;

/// The leading dot hides it from Delta readers, from Delta's vacuum and from glob patterns.
pub const FOLDER: &str = ".asap";

pub fn asap_folder(table: &Url) -> Result<Url> {
    join(table, &format!("{FOLDER}/"))
}

/// Joins a folder to a folder; both end in a slash.
pub fn join(url: &Url, folder: &str) -> Result<Url> {
    url.join(folder).map_err(|error| exec_datafusion_err!("{url}{folder} is not a URL: {error}"))
}
