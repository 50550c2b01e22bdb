//! Finds a model: in a folder, on the Hugging Face Hub, or the small one that ships with asap.

use std::path::{Path, PathBuf};

use asap_hub::{HubError, Part};
use asap_kernels::front_end::Again;
use asap_kernels::typo;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use serde_json::Value;

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

/// Returns the folder of a model: `small`, a path, or `org/name` (or `org/name@revision`). If no folder has the latter
/// name, it is looked up in the cache of the Hugging Face Hub, and downloaded if it is not there.
///
/// # Errors
/// If there is no such model, or it cannot be downloaded.
pub fn locate(named: &str) -> Result<PathBuf> {
    of_part(named, Part::Whole)
}

/// Like [`locate`], for work that needs no weights: none are downloaded.
///
/// # Errors
/// As [`locate`].
pub fn locate_tokenizer(named: &str) -> Result<PathBuf> {
    of_part(named, Part::Tokenizer)
}

/// Like [`locate`], but downloads nothing. None if the model is not on this machine.
pub fn find(named: &str) -> Option<PathBuf> {
    if named == SMALL || Path::new(named).exists() {
        return locate(named).ok();
    }
    let (repository, revision) = repository(named)?;
    asap_hub::cached_model(repository, revision)
}

/// Like [`locate`], but without `small`: for models other than decoders, such as an encoder.
///
/// # Errors
/// As [`locate`].
pub fn locate_folder(named: &str) -> Result<PathBuf> {
    folder(named, Part::Whole, "or org/name on the Hub")
}

fn of_part(named: &str, part: Part) -> Result<PathBuf> {
    match named {
        SMALL => small(&user_folders()?.cache_dir()),
        _ => folder(named, part, &format!("org/name on the Hub, or '{SMALL}'")),
    }
}

fn folder(named: &str, part: Part, others: &str) -> Result<PathBuf> {
    let folder = PathBuf::from(named);
    if is_unfinished(&folder) {
        return Err(LmError::NoModel(format!(
            "{named} holds a training that has not ended, and no model yet: run its asap train or asap.sft command again, \
             which resumes it"
        )));
    }
    if folder.is_dir() && !["config.json", "tokenizer.json"].iter().any(|file| folder.join(file).exists()) {
        return Err(LmError::NoModel(format!(
            "{named} is no model, since it has no config.json: a model is a folder in Hugging Face's layout, {others}"
        )));
    }
    if folder.is_file() {
        return Err(LmError::NoModel(format!(
            "{named} is a file: a model is a folder in Hugging Face's layout, {others}"
        )));
    }
    if folder.exists() {
        return Ok(folder);
    }
    let addresses = ["https://huggingface.co/", "http://huggingface.co/", "huggingface.co/", "hf://"];
    if let Some(path) = addresses.iter().find_map(|address| named.strip_prefix(address)) {
        let name: Vec<&str> = path.trim_start_matches("models/").split('/').take(2).collect();
        let name = match name.as_slice() {
            [organization, model] if !model.is_empty() && !["datasets", "spaces"].contains(organization) => {
                name.join("/")
            }
            _ => "organization/model".to_string(),
        };
        return Err(LmError::NoModel(format!("an address is no model: write {name}, its name on the Hub")));
    }
    let near = neighbor(&folder);
    let Some((repository, revision)) = repository(named) else {
        return Err(LmError::NoModel(format!(
            "there is no folder {named}{near}; a model is a folder in Hugging Face's layout, {others}"
        )));
    };
    // A folder next to it exists: the name is that of a folder, and no repository.
    let is_local = Path::new(repository).parent().is_some_and(Path::is_dir) && !named.contains('@');
    if is_local && asap_hub::cached_model(repository, revision).is_none() {
        return Err(LmError::NoModel(format!(
            "there is no folder {named}{near}; for a model of the Hub, add the revision: {named}@main"
        )));
    }
    asap_hub::model(repository, revision, part).map_err(|error| match error {
        HubError::Disk { path, kind, message } => LmError::Write { path, source: std::io::Error::new(kind, message) },
        HubError::Unavailable(why) => {
            LmError::Unavailable(format!("there is no folder {named}{near}, and {why}: {Again} later"))
        }
        refused => LmError::NoModel(format!("there is no folder {named}{near}, and {refused}")),
    })
}

/// A suggestion of a model whose folder has a name like that of a missing one.
fn neighbor(missing: &Path) -> String {
    let name = missing.file_name().unwrap_or_default().to_string_lossy();
    let parent = missing.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = parent.unwrap_or(Path::new(".")).read_dir().into_iter().flatten().flatten();
    let is_model = |path: &PathBuf| path.join("config.json").exists();
    let models = entries.map(|entry| entry.path()).filter(is_model);
    let names = models.filter_map(|path| Some(path.file_name()?.to_str()?.to_string()));
    let mut names: Vec<String> = names.chain((parent.is_none() && name != SMALL).then(|| SMALL.to_string())).collect();
    names.sort_unstable();
    let near = typo::nearest(&name, names.iter().map(String::as_str));
    near.map_or(String::new(), |near| format!(" (did you mean {}?)", missing.with_file_name(near).display()))
}

/// The files of a training, in the folder of its model: its settings, and its summary, which is written last.
pub const TRAINING_BEGUN: &str = "settings.json";
pub const TRAINING_ENDED: &str = "training.json";

fn is_unfinished(folder: &Path) -> bool {
    let begun = std::fs::read(folder.join(TRAINING_BEGUN)).ok();
    let begun = begun.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    // Other programs may write a file of this name.
    let is_training = begun.is_some_and(|begun| begun["settings"].is_object() && begun["version"].is_u64());
    is_training && !folder.join(TRAINING_ENDED).exists()
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

fn repository(named: &str) -> Option<(&str, &str)> {
    let (repository, revision) = named.split_once('@').unwrap_or((named, "main"));
    let (organisation, name) = repository.split_once('/')?;
    let is_name = |part: &str| {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain)
    };
    let is_revision = !revision.is_empty() && !revision.starts_with('/') && !revision.contains("..");
    (is_name(organisation) && is_name(name) && is_revision).then_some((repository, revision))
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
    fn what_is_no_folder_and_no_repository_is_not_looked_up() {
        for nothing in ["nothing", "./a/b", "a/b/c", "/a/b", "../a", "a/b@../c", "a/b@/c", "a/b@"] {
            let error = locate(nothing).unwrap_err().to_string();
            assert!(error.contains(&format!("there is no folder {nothing}; a model is")), "{nothing}: {error}");
        }
        for page in
            ["https://huggingface.co/org/name", "https://huggingface.co/org/name/tree/main", "hf://models/org/name"]
        {
            let error = locate(page).unwrap_err().to_string();
            assert!(error.contains("an address is no model: write org/name, its name on the Hub"), "{page}: {error}");
        }
    }
}
