//! Locations: turns what a user types into a URL, and a URL into a store.

mod address;
mod azure;
mod command;
mod folder;
mod gcs;
mod http;
mod hub;
mod local;
mod machine;
mod pages;
mod redact;
mod retry;
mod s3;
mod variables;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use asap_kernels::front_end::either;
use datafusion::common::{Result, config_err, exec_datafusion_err};
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;
use url::{Position, Url};

pub(crate) use address::converted;
pub use command::command;
pub use folder::Folder;

use crate::asap_folder::FOLDER;
pub(crate) use hub::lacks_revision;
pub(crate) use local::{if_exists, unfinished};
pub use redact::redact;
pub(crate) use retry::{Unavailable, causes, failed, is_refused_by_disk};
pub use retry::{advice, is_unavailable, retry_timeout, set_retry_timeout};

/// Parses a folder or a file as typed: a local path, or `scheme://…`.
///
/// Each place has one URL: `s3a://` becomes `s3://`, and the container of an Azure URL is in its authority,
/// `abfss://container@account.dfs.core.windows.net/…`.
///
/// # Errors
/// If the text is neither, or if the URL has a secret or a part that is not sent to any store.
pub fn parse(text: &str) -> Result<Url> {
    if text.is_empty() {
        return config_err!("expected a path or a URL such as s3://bucket/folder, found an empty location");
    }
    if text == "-" && !Path::new(text).exists() {
        return config_err!("expected a file or a folder, found - (a pipe): pass a path");
    }
    if let Some((table, folder)) = text.trim_end_matches('/').rsplit_once('/')
        && ["_delta_log", FOLDER].contains(&folder)
    {
        let rejects =
            if folder == FOLDER { format!(", or {table}/{FOLDER}/rejects for its rejects") } else { String::new() };
        let (text, table, rejects) = (redact(text), redact(table), redact(&rejects));
        return config_err!("{text} is what {table} keeps about itself: pass {table}{rejects}");
    }
    if text.contains("://") {
        // Invalid URLs cannot be split into parts, so everything before the last @ is hidden.
        let shown = || text.rsplit_once('@').map_or(redact(text), |(_, rest)| format!("…@{}", redact(rest)));
        let url = Url::parse(text).map_err(|error| exec_datafusion_err!("{} is not a URL: {error}", shown()))?;
        return address::canonical(url);
    }
    let parts = text.split_once(':').filter(|_| !Path::new(text).exists());
    if let Some((scheme @ ("s3" | "gs" | "az" | "abfss" | "hf" | "https"), rest)) = parts {
        let rest = rest.trim_start_matches('/');
        let datasets = if scheme == "hf" && !rest.starts_with("datasets/") { "datasets/" } else { "" };
        return config_err!("a URL has two slashes after {scheme}:, found {text}: write {scheme}://{datasets}{rest}");
    }
    if let Some(rest) = text.strip_prefix("~/").filter(|_| !Path::new(text).exists()) {
        let write = either(format!("write $HOME/{rest}"), format!("use os.path.expanduser('{text}')"));
        return config_err!("{text} names no folder, since only shells expand ~, and only outside quotes: {write}");
    }
    let path = std::path::absolute(Path::new(text))?;
    let url = if path.is_file() { Url::from_file_path(&path) } else { Url::from_directory_path(&path) };
    let url =
        url.map_err(|()| exec_datafusion_err!("{} is not a path that can be written as a URL", path.display()))?;
    // Parsing resolves `..`, which stores do not support.
    Url::parse(url.as_str()).map_err(|error| exec_datafusion_err!("{text} is not a path: {error}"))
}

/// Parses a folder to write to, like [`parse`], and adds a slash at its end.
///
/// # Errors
/// As [`parse`] does, and if the store is read-only or Delta's log cannot name the local path.
pub fn folder(text: &str) -> Result<Url> {
    let mut url = parse(text)?;
    if address::is_read_only(&url) {
        return config_err!(
            "cannot write to {}: {}:// is read-only; choose a path, s3://, gs://, az:// or abfss://",
            display(&url),
            url.scheme()
        );
    }
    let encoded = |part: &[u8]| part.len() == 3 && part[0] == b'%' && part[1..].iter().all(u8::is_ascii_hexdigit);
    if local_path(&url).is_some_and(|path| path.as_os_str().as_encoded_bytes().windows(3).any(encoded)) {
        return config_err!(
            "a Delta table cannot be in {}: a % followed by two hexadecimal digits would be decoded to one character; \
             choose another output",
            display(&url)
        );
    }
    let file = local_path(&url).and_then(|path| path.ancestors().find(|path| path.is_file()).map(Path::to_path_buf));
    if let Some(Ok(file)) = file.map(Url::from_file_path) {
        return config_err!("expected a folder, found the file {}: choose another location", display(&file));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

/// Returns the store of a URL from [`parse`], rooted at the bucket, the container, the host or `/`.
///
/// Credentials come from the environment, under the names that the store's own tools use. Only variables with the
/// store's prefix are read (`AWS_`, `GOOGLE_`, `AZURE_`, `HF_`), and the token of `hf auth login`.
///
/// # Errors
/// If no store supports the URL's scheme, or if the store's variables are wrong or incomplete.
pub fn store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    // Each store owns its connections, so sharing stores shares connections.
    static STORES: LazyLock<Stores> = LazyLock::new(|| Stores { make, made: Mutex::default() });
    STORES.get_store(url)
}

fn make(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    match url.scheme() {
        "file" => Ok(Arc::new(local::Local::default())),
        "s3" | "s3a" => s3::store(url),
        "https" if address::is_s3(url) => s3::store(url),
        "gs" => gcs::store(url),
        "az" | "azure" | "adl" | "abfs" | "abfss" => azure::store(url),
        "http" | "https" => http::store(url),
        "hf" => hub::store(),
        other => config_err!(
            "no store supports {other}://: use a path, or a URL that begins with s3://, gs://, az://, \
             abfss://, hf:// or https://"
        ),
    }
}

pub(crate) struct Stores {
    make: fn(&Url) -> Result<Arc<dyn ObjectStore>>,
    made: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl Default for Stores {
    fn default() -> Self {
        Self { make: store, made: Mutex::default() }
    }
}

impl Stores {
    fn made(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn ObjectStore>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// A store's own Debug shows its credentials.
impl fmt::Debug for Stores {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.made().keys()).finish()
    }
}

/// Returns the part of a URL that names its store: scheme and authority. Azure's containers are user names there.
fn key(url: &Url) -> String {
    url[..Position::BeforePath].replacen("s3a://", "s3://", 1)
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.made().insert(key(url), store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let key = key(url);
        self.made().remove(&key).ok_or_else(|| exec_datafusion_err!("no store is registered for {}", redact(&key)))
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let mut made = self.made();
        if let Some(store) = made.get(&key(url)) {
            return Ok(Arc::clone(store));
        }
        let store = (self.make)(url)?;
        made.insert(key(url), Arc::clone(&store));
        Ok(store)
    }
}

pub fn local_path(url: &Url) -> Option<PathBuf> {
    (url.scheme() == "file").then(|| url.to_file_path().ok()).flatten()
}

/// Formats a location for users: the path of a local location, relative to the working directory if it lies below that;
/// else the URL without secrets.
pub fn display(url: &Url) -> String {
    let Some(path) = local_path(url) else { return redact(url.as_str()) };
    let shown = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).map(Path::to_path_buf).ok());
    let shown = shown.filter(|relative| !relative.as_os_str().is_empty()).unwrap_or(path);
    shown.display().to_string().trim_end_matches('/').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line of `urls.jsonl` holds what is tested, what is typed, and what is wanted.
    #[test]
    fn each_location_is_read_and_shown_as_its_line_wants() {
        for line in include_str!("location/urls.jsonl").lines() {
            let [tested, typed, wanted]: [String; 3] = serde_json::from_str(line).unwrap();
            let found = match tested.as_str() {
                "parsed" => parse(&typed).unwrap().to_string(),
                "refused" => parse(&typed).unwrap_err().strip_backtrace(),
                "shown" => display(&parse(&typed).unwrap()),
                "folder" => folder(&typed).unwrap().to_string(),
                "folder shown" => display(&folder(&typed).unwrap()),
                "folder refused" => folder(&typed).unwrap_err().strip_backtrace(),
                "redacted" => {
                    assert_eq!(redact(&wanted), wanted);
                    redact(&typed)
                }
                _ => panic!("{line}"),
            };
            let is_part = tested.ends_with("refused") && found.contains(&wanted) && !found.contains("geheim");
            assert!(found == wanted || is_part, "{line}: {found}");
        }
    }

    #[test]
    fn two_containers_of_one_account_have_two_stores() {
        let stores = Stores::default();
        let url = |container: &str| parse(&format!("abfss://{container}@account.dfs.core.windows.net/a")).unwrap();
        let registered = |name: &str| {
            let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
            stores.register_store(&url(name), Arc::clone(&store));
            store
        };
        let (one, two) = (registered("one"), registered("two"));
        assert!(Arc::ptr_eq(&stores.get_store(&url("one")).unwrap(), &one));
        assert!(Arc::ptr_eq(&stores.get_store(&url("two")).unwrap(), &two));
    }

    #[test]
    fn s3a_has_the_store_of_s3_and_no_store_shows_a_secret() {
        let stores = Stores::default();
        let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        stores.register_store(&Url::parse("s3://bucket/a").unwrap(), Arc::clone(&store));
        assert!(Arc::ptr_eq(&stores.get_store(&Url::parse("s3a://bucket/b").unwrap()).unwrap(), &store));
        assert_eq!(format!("{stores:?}"), "{\"s3://bucket\"}");
        let error = stores.get_store(&Url::parse("ftp://host/a").unwrap()).unwrap_err().strip_backtrace();
        assert!(error.contains("no store supports ftp://"), "{error}");
    }
}
