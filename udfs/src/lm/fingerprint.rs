//! What a model is, whatever its folder is called.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{LmError, Result};

/// Endings of the files of a model that change what it computes.
const MODEL_FILES: [&str; 3] = [".json", ".jinja", ".safetensors"];
/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// The SHA-256 of the files of a model, by name and content, in 64 hexadecimal digits: a copy of the model is the same
/// model.
///
/// # Errors
/// If the folder or a file cannot be read.
pub fn fingerprint(folder: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(|source| LmError::Read { path: folder.to_path_buf(), source })? {
        let entry = entry.map_err(|source| LmError::Read { path: folder.to_path_buf(), source })?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| MODEL_FILES.iter().any(|ending| name.ends_with(ending)));
    names.sort();
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES];
    for name in names {
        let path = folder.join(&name);
        hash.update(&name);
        let failed = |source| LmError::Read { path: path.clone(), source };
        let mut file = File::open(&path).map_err(failed)?;
        loop {
            let read = file.read(&mut block).map_err(failed)?;
            if read == 0 {
                break;
            }
            hash.update(&block[..read]);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
