//! Locations: what a user types becomes a URL, and a URL becomes a store.

mod redact;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, config_err, exec_datafusion_err};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use url::Url;

pub use redact::redact;

/// The URL of a folder (or of a file) as typed: a path of this machine, or `scheme://…`.
///
/// # Errors
/// If the text is neither.
pub fn parse(text: &str) -> Result<Url> {
    if text.is_empty() {
        return config_err!("a location is a path or a URL such as s3://bucket/folder, found an empty text");
    }
    if text.contains("://") {
        return Url::parse(text).map_err(|error| exec_datafusion_err!("{text} is not a URL: {error}"));
    }
    let path = std::path::absolute(Path::new(text))?;
    let url = if path.is_file() { Url::from_file_path(&path) } else { Url::from_directory_path(&path) };
    let url =
        url.map_err(|()| exec_datafusion_err!("{} is not a path that can be written as a URL", path.display()))?;
    // Parsing resolves `..`, which stores do not know.
    Url::parse(url.as_str()).map_err(|error| exec_datafusion_err!("{text} is not a path: {error}"))
}

/// The URL of a folder to write to, as typed: as [`parse`], with a slash at its end.
///
/// # Errors
/// As [`parse`], and for a path of this machine that Delta's log cannot name.
pub fn folder(text: &str) -> Result<Url> {
    let mut url = parse(text)?;
    let encoded = |part: &[u8]| part.len() == 3 && part[0] == b'%' && part[1..].iter().all(u8::is_ascii_hexdigit);
    if local_path(&url).is_some_and(|path| path.as_os_str().as_encoded_bytes().windows(3).any(encoded)) {
        return config_err!(
            "a Delta table cannot lie in {}: a % with two hexadecimal digits behind it would be read as one character; \
             choose another output",
            display(&url)
        );
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

/// The store that serves a URL, rooted at the bucket or at `/`. Credentials come from the environment, under the names
/// that the store's own tools use.
///
/// # Errors
/// If no store knows the URL's scheme.
pub fn store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    if url.scheme() == "file" {
        return Ok(Arc::new(LocalFileSystem::new().with_automatic_cleanup(true)));
    }
    let options = std::env::vars().map(|(key, value)| (key.to_ascii_lowercase(), value));
    let (store, _) = object_store::parse_url_opts(url, options).map_err(DataFusionError::from)?;
    Ok(Arc::from(store))
}

/// The stores of a session: whichever URL is asked for gets its store from [`store`].
#[derive(Debug, Default)]
pub struct Stores {
    made: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.made.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.made.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if let Ok(store) = self.made.get_store(url) {
            return Ok(store);
        }
        let made = store(url)?;
        self.made.register_store(url, Arc::clone(&made));
        Ok(made)
    }
}

/// The path on this machine that a URL names, if it is one of this machine.
pub fn local_path(url: &Url) -> Option<PathBuf> {
    (url.scheme() == "file").then(|| url.to_file_path().ok()).flatten()
}

/// A location as people read it: a path relative to the working directory where it lies below it, else a path, else
/// the URL, without secrets.
pub fn display(url: &Url) -> String {
    let Some(path) = local_path(url) else { return redact(url.as_str()) };
    let shown = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).map(Path::to_path_buf).ok());
    let shown = shown.filter(|relative| !relative.as_os_str().is_empty()).unwrap_or(path);
    shown.display().to_string().trim_end_matches('/').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_urls_and_are_shown_as_typed() {
        let url = parse("no such folder/ä").unwrap();
        assert_eq!(url.scheme(), "file");
        assert!(url.path().ends_with('/'));
        assert_eq!(display(&url), "no such folder/ä");
        assert_eq!(display(&parse("s3://bucket/a b").unwrap()), "s3://bucket/a%20b");
        assert_eq!(display(&parse("no/../such/./folder").unwrap()), "such/folder");
        assert!(parse("").is_err());
    }

    #[test]
    fn an_output_is_a_folder_that_delta_can_name() {
        assert_eq!(folder("s3://bucket/a").unwrap().path(), "/a/");
        assert_eq!(folder("file:///no/such/folder").unwrap(), folder("/no/such/folder/").unwrap());
        assert!(folder("100% done").is_ok());
        let error = folder("pct%41x").unwrap_err().to_string();
        assert!(error.contains("pct%41x: a %"), "{error}");
    }
}
