//! The folder of what asap keeps next to a table: its rejects, paid answers, staged receipts, and what it remembers of files.

use datafusion::common::{Result, exec_datafusion_err};
use url::Url;

/// Its name hides it from Delta's readers, from Delta's vacuum and from patterns of files.
pub const FOLDER: &str = ".asap";

/// The folder next to the table at a URL.
///
/// # Errors
/// If that is no URL.
pub fn beside(table: &Url) -> Result<Url> {
    join(table, &format!("{FOLDER}/"))
}

/// A folder in a folder; both end in a slash.
///
/// # Errors
/// If that is no URL.
pub fn join(url: &Url, folder: &str) -> Result<Url> {
    url.join(folder).map_err(|error| exec_datafusion_err!("{url}{folder} is not a URL: {error}"))
}
