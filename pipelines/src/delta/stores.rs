//! Object stores for Delta tables, from [`location::store`] like everywhere else. By itself the `deltalake` engine
//! supports only local files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use deltalake_core::logstore::{
    LogStore, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig, default_logstore, logstore_factories,
    object_store_factories,
};
use deltalake_core::{DeltaResult, DeltaTableError};
use object_store::path::Path;
use url::Url;

use crate::location;

/// URL schemes of object stores that can have tables. The `deltalake` engine accepts no https URL.
const SCHEMES: [&str; 9] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "hf"];

pub(crate) fn register() {
    let stores = Arc::new(Stores::default());
    for scheme in SCHEMES.iter().filter_map(|scheme| Url::parse(&format!("{scheme}://")).ok()) {
        object_store_factories().insert(scheme.clone(), stores.clone());
        logstore_factories().insert(scheme, stores.clone());
    }
}

#[derive(Default)]
struct Stores {
    containers: Mutex<HashMap<String, String>>,
}

impl Stores {
    /// The `deltalake` engine looks up the store of a table by the host of its URL alone, so a second container of an
    /// account would be read from the first.
    fn check_container(&self, url: &Url) -> DeltaResult<()> {
        let (Some(host), container) = (url.host_str(), url.username()) else { return Ok(()) };
        let mut containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        let held = containers.entry(host.to_string()).or_insert_with(|| container.to_string());
        if held == container {
            return Ok(());
        }
        Err(DeltaTableError::generic(format!(
            "a session can read the Delta tables of one container of {host} only, and this one has read {held}: read \
             {container} in another session"
        )))
    }
}

impl ObjectStoreFactory for Stores {
    fn parse_url_opts(&self, url: &Url, _: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        self.check_container(url)?;
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

#[cfg(test)]
mod tests {
    use crate::delta::stores::*;

    #[test]
    fn tables_of_a_second_container_of_an_account_are_refused() {
        let stores = Stores::default();
        let open = |place: &str| {
            let url = Url::parse(&format!("abfss://{place}")).unwrap();
            stores.parse_url_opts(&url, &StorageConfig::default()).map(|(_, path)| path.to_string())
        };
        assert_eq!(open("one@account.dfs.core.windows.net/a/").unwrap(), "a");
        assert_eq!(open("one@account.dfs.core.windows.net/b/").unwrap(), "b");
        assert_eq!(open("one@other.dfs.core.windows.net/b/").unwrap(), "b");
        let error = open("two@account.dfs.core.windows.net/a/").unwrap_err().to_string();
        assert!(error.contains("one container of account.dfs.core.windows.net only"), "{error}");
    }
}
