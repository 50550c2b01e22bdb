//! A folder of files that asap owns, on this machine or in an object store.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::common::{Result, config_datafusion_err};
use object_store::ObjectStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use url::Url;

use super::{display, local_path, store};
use crate::objects;

#[derive(Debug, Clone)]
pub struct Folder {
    /// Paths in this store are relative to the folder.
    pub store: Arc<dyn ObjectStore>,
    /// The path on this machine; None in an object store.
    pub local: Option<PathBuf>,
    pub shown: String,
}

impl Folder {
    pub fn open(url: &Url) -> Result<Self> {
        let prefix = Path::from_url_path(url.path()).map_err(|error| config_datafusion_err!("{error}"))?;
        let store = Arc::new(PrefixStore::new(store(url)?, prefix));
        Ok(Self { store, local: local_path(url), shown: display(url) })
    }

    /// Removes a file. A missing file is not an error.
    pub async fn remove(&self, name: &str) -> object_store::Result<()> {
        objects::delete(self.store.as_ref(), &name.into()).await
    }
}
