//! How Delta tables reach object stores: as everything else does, by [`location::store`]. The engine of Delta knows only
//! this machine's files by itself.

use std::sync::Arc;

use deltalake_core::logstore::{
    LogStore, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig, default_logstore, logstore_factories,
    object_store_factories,
};
use deltalake_core::{DeltaResult, DeltaTableError};
use object_store::path::Path;
use url::Url;

use crate::location;

/// What the URLs of object stores begin with.
const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// Lets Delta tables lie on object stores, for the whole process.
pub fn register() {
    for scheme in SCHEMES.iter().filter_map(|scheme| Url::parse(&format!("{scheme}://")).ok()) {
        object_store_factories().insert(scheme.clone(), Arc::new(Stores));
        logstore_factories().insert(scheme, Arc::new(Stores));
    }
}

struct Stores;

impl ObjectStoreFactory for Stores {
    fn parse_url_opts(&self, url: &Url, _: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        let store = location::store(url).map_err(|error| DeltaTableError::generic(error.strip_backtrace()))?;
        let path = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
        Ok((store, path))
    }
}

impl LogStoreFactory for Stores {
    fn with_options(
        &self,
        prefixed_store: ObjectStoreRef,
        root_store: ObjectStoreRef,
        location: &Url,
        options: &StorageConfig,
    ) -> DeltaResult<Arc<dyn LogStore>> {
        Ok(default_logstore(prefixed_store, root_store, location, options))
    }
}
