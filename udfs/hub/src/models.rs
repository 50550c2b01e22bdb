//! Downloads of models: the files that asap reads, into the Hub's cache.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use asap_kernels::interrupt;
use serde_json::Value;
use sha2::Digest;

use crate::cache::{Cached, cache, create_parent};
use crate::environment::forbidden;
use crate::hub::{Hub, Kind, Place, Repository};
use crate::tree::Entry;
use crate::{HubError, Result};

/// The forms of weights, the preferred one first: the file, and the list of its parts if it has several.
const WEIGHTS: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
const LIST: &str = ".index.json";
/// Larger files of this kind are no settings, such as vocabularies of words.
const LARGEST_SETTINGS: u64 = 256 << 20;
const BLOCK_BYTES: usize = 1 << 20;
/// How long a failed download is not tried again: a command asks for a model several times.
const FAILED: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(100);

/// What of a model is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All but the weights: tokenizer, chat template and settings.
    Tokenizer,
    Whole,
}

/// How far a download is.
#[derive(Debug, Clone)]
pub struct Progress {
    pub model: String,
    /// Bytes that are here, and bytes in all, which are equal at the end.
    pub done: u64,
    pub all: u64,
}

type Show = Box<dyn Fn(&Progress) + Send + Sync>;
static SHOW: OnceLock<Show> = OnceLock::new();

/// Shows downloads of this process from now on. Only the first call counts.
pub fn on_progress(show: impl Fn(&Progress) + Send + Sync + 'static) {
    drop(SHOW.set(Box::new(show)));
}

fn show(model: &str, done: u64, all: u64) {
    if let Some(show) = SHOW.get() {
        show(&Progress { model: model.to_string(), done, all });
    }
}

/// Returns the folder of a model (`org/name`) in the Hub's cache. What is missing of `part` is downloaded, at the
/// commit that the cache has for `revision`, else at its present one. A cached model is not compared with the Hub.
///
/// # Errors
/// If the model has no such part, the Hub refuses or does not answer, downloads are forbidden, or the disk is full.
pub fn model(name: &str, revision: &str, part: Part) -> Result<PathBuf> {
    let cache = cache(|name| std::env::var_os(name)).ok_or_else(|| {
        HubError::Refused("found no home folder, which is needed to find the cache of the Hub: set HF_HOME".to_string())
    })?;
    model_in(&cache, name, revision, part)
}

/// Returns the folder of a model in the Hub's cache, if it is there as a whole.
pub fn cached_model(name: &str, revision: &str) -> Option<PathBuf> {
    let cached = Cached::new(&cache(|name| std::env::var_os(name))?, name);
    let (_, snapshot) = known(&cached, revision);
    has(&snapshot, Part::Whole).then_some(snapshot)
}

/// The commit that the cache has for a revision, and the folder of its files.
fn known(cached: &Cached, revision: &str) -> (String, PathBuf) {
    let commit = cached.commit(revision).unwrap_or_else(|| revision.to_string());
    let snapshot = cached.snapshot(&commit);
    (commit, snapshot)
}

fn model_in(cache: &Path, name: &str, revision: &str, part: Part) -> Result<PathBuf> {
    static LAST_FAILURE: Mutex<Option<(Instant, Asked, HubError)>> = Mutex::new(None);
    let cached = Cached::new(cache, name);
    let (known, snapshot) = known(&cached, revision);
    if has(&snapshot, part) {
        return Ok(snapshot);
    }
    if let Some(why) = forbidden() {
        // Loading says which file is missing.
        if snapshot.is_dir() {
            return Ok(snapshot);
        }
        let at = if revision == "main" { String::new() } else { format!(" --revision {revision}") };
        return Err(HubError::Refused(format!(
            "the model is not in the cache {}, and {why}, or run hf download {name}{at}",
            cache.display()
        )));
    }
    let asked = (cache.to_path_buf(), name.to_string(), revision.to_string(), part);
    // Held during a download: others of this process wait for it.
    let mut last = LAST_FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, _, error)) = last.as_ref().filter(|(at, of, _)| *of == asked && at.elapsed() < FAILED) {
        return Err(error.clone());
    }
    let downloaded = on_a_thread(async {
        let hub = Hub::new()?;
        let repository = Repository { kind: Kind::Model, name: name.to_string() };
        let download = Download { commit: hub.commit(&repository, &known).await?, hub, repository, cached };
        download.run(revision, part).await
    });
    show(name, 0, 0);
    *last = downloaded.as_ref().err().map(|error| (Instant::now(), asked, error.clone()));
    downloaded
}

type Asked = (PathBuf, String, String, Part);

/// Runs a download. The caller may be a task of another runtime, which would not let it block.
fn on_a_thread<T: Send>(work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let unable = |error: std::io::Error| HubError::Refused(format!("cannot start a download: {error}"));
    let asked_to_end = async {
        while !interrupt::is_asked() {
            tokio::time::sleep(TICK).await;
        }
    };
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
        runtime.block_on(async {
            tokio::select! {
                done = work => done,
                () = asked_to_end => Err(HubError::Unavailable("the download was interrupted".to_string())),
            }
        })
    };
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("asap-hub".to_string()).spawn_scoped(scope, run).map_err(unable)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether a snapshot has a part of its model.
fn has(snapshot: &Path, part: Part) -> bool {
    let exists = |name: &str| snapshot.join(name).exists();
    let has_settings = exists("config.json") && exists("tokenizer.json");
    let has_weights = |file: &str| {
        let parts = || parts(&fs::read(snapshot.join(format!("{file}{LIST}"))).ok()?).ok();
        exists(file) || parts().is_some_and(|parts| parts.iter().all(|part| exists(part)))
    };
    has_settings && (part == Part::Tokenizer || WEIGHTS.into_iter().any(has_weights))
}

/// The names of the files that a list of weights names.
fn parts(list: &[u8]) -> std::result::Result<BTreeSet<String>, String> {
    let list: Value = serde_json::from_slice(list).map_err(|error| error.to_string())?;
    let files = list["weight_map"].as_object().ok_or("expected an object weight_map")?.values();
    files.map(|file| file.as_str().map(str::to_string).ok_or("expected names of files".to_string())).collect()
}

struct Download {
    hub: Hub,
    repository: Repository,
    commit: String,
    cached: Cached,
}

impl Download {
    async fn run(self, revision: &str, part: Part) -> Result<PathBuf> {
        let mut entries = self.hub.tree(&self.place(""), false).await?;
        entries.retain(|entry| entry.is_file && is_name(&entry.path));
        if let Some(wrong) = entries.iter().find(|entry| !is_hash(&entry.etag)) {
            return Err(self.hub.unreadable(&format!("expected a hash of {}, found {:?}", wrong.path, wrong.etag)));
        }
        let is_settings = |entry: &&Entry| {
            let is_read = entry.path.ends_with(".json") || entry.path.ends_with(".jinja");
            is_read && entry.size <= LARGEST_SETTINGS
        };
        let (mut done, all) = (0, entries.iter().filter(is_settings).map(|entry| entry.size).sum());
        for entry in entries.iter().filter(is_settings) {
            self.fetch(entry, &mut done, all).await?;
        }
        if part == Part::Whole {
            let weights = self.weights(&entries)?;
            let (mut done, all) = (0, weights.iter().map(|entry| entry.size).sum());
            for entry in weights {
                self.fetch(entry, &mut done, all).await?;
            }
        }
        self.cached.point(revision, &self.commit)?;
        Ok(self.cached.snapshot(&self.commit))
    }

    fn place(&self, path: &str) -> Place {
        Place { repository: self.repository.clone(), revision: self.commit.clone(), path: path.to_string() }
    }

    /// The files of the weights, in the preferred form that the model has.
    fn weights<'a>(&self, entries: &'a [Entry]) -> Result<Vec<&'a Entry>> {
        let named = |name: &str| entries.iter().find(|entry| entry.path == name);
        for file in WEIGHTS {
            if let Some(whole) = named(file) {
                return Ok(vec![whole]);
            }
            let list = format!("{file}{LIST}");
            if named(&list).is_none() {
                continue;
            }
            let path = self.cached.snapshot(&self.commit).join(&list);
            let wrong = |found: String| HubError::Refused(format!("{list} of {}: {found}", self.repository));
            let parts = fs::read(&path).map_err(|error| error.to_string()).and_then(|list| parts(&list));
            let found = |part: &String| named(part).ok_or_else(|| wrong(format!("there is no file {part}")));
            return parts.map_err(wrong)?.iter().map(found).collect();
        }
        Err(HubError::Refused(format!(
            "{} has no weights that asap reads: expected {}, or parts of them with a list ({LIST})",
            self.repository,
            WEIGHTS.join(" or ")
        )))
    }

    /// Puts a file into the snapshot. Another process that needs it waits, and finds it.
    async fn fetch(&self, entry: &Entry, done: &mut u64, all: u64) -> Result<()> {
        let blob = self.cached.blob(&entry.etag);
        if !blob.exists() {
            let _lock = self.cached.lock(&entry.etag).await?;
            if !blob.exists() {
                self.receive(entry, &blob, *done, all).await?;
            }
        }
        *done += entry.size;
        show(&self.repository.name, *done, all);
        self.cached.link(&self.commit, &entry.path, &entry.etag)
    }

    /// Downloads a blob, or the rest of one. Its name says that it is whole, so it gets it last.
    async fn receive(&self, entry: &Entry, blob: &Path, before: u64, all: u64) -> Result<()> {
        let path = blob.with_file_name(format!("{}.incomplete", entry.etag));
        let failed = HubError::writing(&path);
        create_parent(&path)?;
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(&failed)?;
        let mut is_resumed = true;
        while is_resumed {
            let mut hash = Hash::of(entry);
            let mut held = hash.read(&mut file).map_err(&failed)?;
            if held > entry.size {
                empty(&mut file).map_err(&failed)?;
                (hash, held) = (Hash::of(entry), 0);
            }
            is_resumed = held > 0;
            if held < entry.size {
                let rest = is_resumed.then(|| format!("bytes={held}-{}", entry.size - 1));
                let mut body = self.hub.read(self.place(&entry.path), rest, Some(&entry.etag)).await?;
                if body.range != (held..entry.size) {
                    return Err(self.hub.unreadable(&format!("{} has another size than its listing", entry.path)));
                }
                while let Some(bytes) = body.chunk().await? {
                    file.write_all(&bytes).map_err(&failed)?;
                    hash.update(&bytes);
                    held += bytes.len() as u64;
                    show(&self.repository.name, before + held, all);
                }
            }
            if hash.matches(&entry.etag) {
                file.sync_all().map_err(&failed)?;
                return fs::rename(&path, blob).map_err(HubError::writing(blob));
            }
            empty(&mut file).map_err(&failed)?;
        }
        Err(HubError::Refused(format!(
            "{} of {} does not have the hash {} of its listing: the bytes that {} sends are not those of the model",
            entry.path,
            self.repository,
            entry.etag,
            self.hub.shown()
        )))
    }
}

fn empty(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()
}

/// Whether a path names a visible file of the root.
fn is_name(path: &str) -> bool {
    !path.starts_with('.') && !path.contains(['/', '\0'])
}

/// Whether a text is a hash, and so no path.
fn is_hash(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The hash that identifies a file: SHA-256 of large ones, git's of others.
enum Hash {
    Large(sha2::Sha256),
    Git(sha1::Sha1),
}

impl Hash {
    fn of(entry: &Entry) -> Self {
        match entry.etag.len() {
            64 => Self::Large(sha2::Sha256::new()),
            _ => Self::Git(sha1::Digest::new_with_prefix(format!("blob {}\0", entry.size))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Large(hash) => hash.update(bytes),
            Self::Git(hash) => sha1::Digest::update(hash, bytes),
        }
    }

    /// Reads a file from its begin to its end. Returns its length.
    fn read(&mut self, file: &mut File) -> std::io::Result<u64> {
        file.rewind()?;
        let mut block = vec![0; BLOCK_BYTES];
        let mut length = 0;
        loop {
            let read = file.read(&mut block)?;
            if read == 0 {
                return Ok(length);
            }
            self.update(&block[..read]);
            length += read as u64;
        }
    }

    fn matches(self, expected: &str) -> bool {
        let found: Vec<u8> = match self {
            Self::Large(hash) => hash.finalize().to_vec(),
            Self::Git(hash) => sha1::Digest::finalize(hash).to_vec(),
        };
        found.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_in_the_cache_of_the_hub() {
        let home = tempfile::tempdir().unwrap();
        let hub = home.path().join("elsewhere/hub");
        let repository = hub.join("models--Qwen--Qwen2.5-0.5B");
        fs::create_dir_all(repository.join("snapshots/abc")).unwrap();
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::write(repository.join("refs/main"), "abc\n").unwrap();
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            fs::write(repository.join("snapshots/abc").join(file), "").unwrap();
        }
        for others in [
            [("HF_HUB_CACHE", hub.clone())],
            [("HUGGINGFACE_HUB_CACHE", hub.clone())],
            [("HF_HOME", home.path().join("elsewhere"))],
        ] {
            let of = |name: &str| others.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            assert_eq!(cache(of).as_ref(), Some(&hub));
        }
        for revision in ["main", "abc"] {
            let found = model_in(&hub, "Qwen/Qwen2.5-0.5B", revision, Part::Whole).unwrap();
            assert_eq!(found, repository.join("snapshots/abc"), "{revision}");
        }
    }

    #[test]
    fn weights_in_parts_are_whole_with_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("config.json", "");
        assert!(!has(folder.path(), Part::Tokenizer));
        write("tokenizer.json", "");
        assert!(has(folder.path(), Part::Tokenizer) && !has(folder.path(), Part::Whole));
        write("model.safetensors.index.json", r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#);
        write("1.safetensors", "");
        assert!(!has(folder.path(), Part::Whole));
        write("2.safetensors", "");
        assert!(has(folder.path(), Part::Whole));
        write("model.safetensors.index.json", r#"{"weight_map": {"a": 1}}"#);
        assert!(!has(folder.path(), Part::Whole));
    }

    #[test]
    fn only_hashes_and_names_of_the_root_become_paths() {
        assert!(is_name("config.json") && !is_name(".env") && !is_name("../a") && !is_name("a/b"));
        assert!(
            is_hash(&"0a".repeat(20)) && is_hash(&"0a".repeat(32)) && !is_hash("../../a") && !is_hash(&"x".repeat(40))
        );
    }
}
