//! The folder of what asap keeps beside a table: its rejects, paid answers, and what it remembers of files.

use datafusion::common::{Result, exec_datafusion_err};
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

use crate::location;
use crate::log::store_of;

/// Its name hides it from Delta's readers, from Delta's vacuum and from patterns of files; tables that were made under the
/// second name, which patterns find, keep that.
pub const FOLDERS: [&str; 2] = [".asap", "_asap"];

/// The folder beside the table at a URL.
///
/// # Errors
/// If the store cannot be read.
pub async fn beside(table: &Url) -> Result<Url> {
    let [name, older] = FOLDERS;
    let store = store_of(table)?;
    let mut found = store.list(Some(&Path::from(older)));
    match found.try_next().await {
        Ok(Some(_)) => join(table, &format!("{older}/")),
        Ok(None) | Err(object_store::Error::NotFound { .. }) => join(table, &format!("{name}/")),
        Err(error) => Err(location::failed(&format!("cannot read {}", location::display(table)), error.into())),
    }
}

/// A folder in a folder; both end in a slash.
///
/// # Errors
/// If that is no URL.
pub fn join(url: &Url, folder: &str) -> Result<Url> {
    url.join(folder).map_err(|error| exec_datafusion_err!("{url}{folder} is not a URL: {error}"))
}
