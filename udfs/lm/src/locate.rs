//! Finds a model: in a folder, in the cache of the Hugging Face Hub, or the small one that ships with asap.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;

use crate::model::config::ModelConfig;
use crate::{LmError, Result};

/// Name of the model that ships with asap.
pub const SMALL: &str = "small";
const SMALL_FINGERPRINT: &str = "d531f2d4636b";

const SMALL_FILES: [(&str, &[u8]); 5] = [
    ("config.json", include_bytes!("../../../data/model/config.json")),
    ("generation_config.json", include_bytes!("../../../data/model/generation_config.json")),
    ("model.safetensors", include_bytes!("../../../data/model/model.safetensors")),
    ("tokenizer.json", include_bytes!("../../../data/model/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../../../data/model/tokenizer_config.json")),
];

/// Returns the folder of a model: `small`, a path, or `org/name` (or `org/name@revision`). The latter is looked up in
/// the cache of the Hugging Face Hub if no such folder exists.
pub fn locate(named: &str) -> Result<PathBuf> {
    match named {
        SMALL => small(&user_folders()?.cache_dir()),
        _ => folder(named, hub, &format!("org/name in its cache, or '{SMALL}'")),
    }
}

/// Like [`locate`], but without `small`: for models other than decoders, such as an encoder.
pub fn locate_folder(named: &str) -> Result<PathBuf> {
    folder(named, hub, "or org/name in its cache")
}

fn folder(named: &str, hub: impl FnOnce() -> Option<PathBuf>, others: &str) -> Result<PathBuf> {
    let folder = PathBuf::from(named);
    if folder.exists() {
        return Ok(folder);
    }
    match repository(named).and_then(|found| Some((found, hub()?))) {
        Some(((repository, revision), hub)) => snapshot(&hub, repository, revision),
        None => Err(LmError::NoModel(format!(
            "there is no folder {named}; a model is a folder in Hugging Face's layout, {others}"
        ))),
    }
}

fn user_folders() -> Result<Xdg> {
    Xdg::new()
        .map_err(|_| LmError::NoModel("found no home folder, which is needed to find the cache: set HOME".to_string()))
}

/// Returns the folder of the small model, and writes it if it is missing or incomplete. Several processes may write it
/// at the same time: a folder only gets its final name once it is complete.
fn small(caches: &Path) -> Result<PathBuf> {
    let models = caches.join("asap/models");
    let folder = models.join(format!("{SMALL}-{SMALL_FINGERPRINT}"));
    if is_whole(&folder) {
        return Ok(folder);
    }
    let failed = |error| {
        let folder = folder.display();
        LmError::NoModel(format!("cannot write {folder}: {error}; set XDG_CACHE_HOME to a writable folder"))
    };
    std::fs::create_dir_all(&models).map_err(failed)?;
    let write_files = |to: &Path| SMALL_FILES.iter().try_for_each(|(name, bytes)| std::fs::write(to.join(name), bytes));
    let written = tempfile::Builder::new().prefix(SMALL).tempdir_in(&models).map_err(failed)?;
    write_files(written.path()).map_err(failed)?;
    if std::fs::rename(written.path(), &folder).is_ok() {
        let _ = written.keep();
    } else if !is_whole(&folder) {
        // The folder exists, but a file in it is missing or has another size.
        write_files(&folder).map_err(failed)?;
    }
    Ok(folder)
}

fn is_whole(folder: &Path) -> bool {
    let has =
        |(name, bytes): &(&str, &[u8])| folder.join(name).metadata().is_ok_and(|file| file.len() == bytes.len() as u64);
    SMALL_FILES.iter().all(has)
}

/// Returns the number of a model's parameters: by its config, or by the size of its weights in 16 bits.
pub fn parameters(folder: &Path) -> Option<u64> {
    if let Ok(config) = ModelConfig::load(folder) {
        return Some(config.parameters());
    }
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let weights = files.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    Some(weights.filter_map(|path| path.metadata().ok()).map(|file| file.len() / 2).sum())
}

fn repository(named: &str) -> Option<((&str, &str), &str)> {
    let (repository, revision) = named.split_once('@').unwrap_or((named, "main"));
    let (organisation, name) = repository.split_once('/')?;
    let is_name = |part: &str| {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain)
    };
    let is_revision = !revision.is_empty() && !revision.contains("..");
    (is_name(organisation) && is_name(name) && is_revision).then_some(((organisation, name), revision))
}

fn hub() -> Option<PathBuf> {
    hub_of(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn hub_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from);
    path("HF_HUB_CACHE")
        .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| Some(path("HF_HOME")?.join("hub")))
        .or_else(|| Some(user_folders().ok()?.cache_dir().join("huggingface/hub")))
}

/// Returns the snapshot of a revision: the commit of a branch or tag, or the commit itself.
fn snapshot(hub: &Path, (organisation, name): (&str, &str), revision: &str) -> Result<PathBuf> {
    let repository = hub.join(format!("models--{organisation}--{name}"));
    let pointed = std::fs::read_to_string(repository.join("refs").join(revision));
    let commit = pointed.map_or(revision.to_string(), |commit| commit.trim().to_string());
    let snapshot = repository.join("snapshots").join(commit);
    if snapshot.is_dir() {
        return Ok(snapshot);
    }
    let at = if revision == "main" { String::new() } else { format!(" --revision {revision}") };
    Err(LmError::NoModel(format!(
        "there is no folder {organisation}/{name}, and the model is not in the cache {}: hf download {organisation}/{name}{at}",
        hub.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_model_is_the_one_in_the_repository() {
        let home = tempfile::tempdir().unwrap();
        let found = small(home.path()).unwrap();
        assert!(found.starts_with(home.path().join("asap/models")), "{}", found.display());
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/model");
        let fingerprint = crate::fingerprint(&repository).unwrap();
        assert_eq!(crate::fingerprint(&found).unwrap(), fingerprint);
        assert!(fingerprint.starts_with(SMALL_FINGERPRINT), "{fingerprint}");
        assert_eq!(small(home.path()).unwrap(), found);
        // A removed file is written again.
        std::fs::remove_file(found.join("tokenizer.json")).unwrap();
        std::fs::write(found.join("model.safetensors"), "cut").unwrap();
        assert_eq!(small(home.path()).unwrap(), found);
        assert!(crate::fingerprint(&found).unwrap().starts_with(SMALL_FINGERPRINT));
        assert_eq!(found.parent().unwrap().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn many_may_write_the_small_model_at_once() {
        let home = tempfile::tempdir().unwrap();
        let found: Vec<PathBuf> = std::thread::scope(|scope| {
            let each = (0..8).map(|_| scope.spawn(|| small(home.path()).unwrap()));
            each.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        assert!(is_whole(&found[0]));
        assert_eq!(found[0].parent().unwrap().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_repository_is_found_in_the_cache_of_the_hub() {
        let home = tempfile::tempdir().unwrap();
        let hub = home.path().join("elsewhere/hub");
        let repository = hub.join("models--Qwen--Qwen2.5-0.5B");
        std::fs::create_dir_all(repository.join("snapshots/abc")).unwrap();
        std::fs::create_dir_all(repository.join("refs")).unwrap();
        std::fs::write(repository.join("refs/main"), "abc\n").unwrap();
        for others in [
            [("HF_HUB_CACHE", hub.clone())],
            [("HUGGINGFACE_HUB_CACHE", hub.clone())],
            [("HF_HOME", home.path().join("elsewhere"))],
        ] {
            let of = |name: &str| others.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            let located = |named| folder(named, || hub_of(of), "");
            for named in ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B@main", "Qwen/Qwen2.5-0.5B@abc"] {
                assert_eq!(located(named).unwrap(), repository.join("snapshots/abc"), "{named}");
            }
            let error = located("Qwen/Qwen3-8B").unwrap_err().to_string();
            assert!(error.contains("hf download Qwen/Qwen3-8B") && error.contains("elsewhere/hub"), "{error}");
            let error = located("Qwen/Qwen2.5-0.5B@v2").unwrap_err().to_string();
            assert!(error.contains("hf download Qwen/Qwen2.5-0.5B --revision v2"), "{error}");
        }
        for nothing in ["nothing", "./a/b", "a/b/c", "/a/b", "../a"] {
            let error = folder(nothing, || Some(hub.clone()), "").unwrap_err().to_string();
            assert!(error.contains(&format!("there is no folder {nothing}; a model is")), "{nothing}: {error}");
        }
    }
}
