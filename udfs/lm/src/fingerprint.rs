//! Identifies a model by its content, independent of the folder's name.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{LmError, Result};

const MODEL_FILES: [&str; 3] = [".json", ".jinja", ".safetensors"];
const BLOCK_BYTES: usize = 1 << 20;

/// Lists the files of a model that affect its results, sorted by name.
pub fn model_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = LmError::reading(folder);
    let entries = folder.read_dir().map_err(failed)?.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| MODEL_FILES.iter().any(|ending| name.ends_with(ending))).collect();
    names.sort();
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

/// Returns the SHA-256 of a model's files, by name and content, as 64 hexadecimal digits; the same for a copy.
pub fn fingerprint(folder: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for path in model_files(folder)? {
        hash.update(path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default());
        let copied = File::open(&path)
            .and_then(|file| std::io::copy(&mut BufReader::with_capacity(BLOCK_BYTES, file), &mut hash));
        copied.map_err(LmError::reading(&path))?;
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
