//! What a table was filled with, as one hash.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use datafusion::common::Result;
use datafusion::common::config::ExtensionOptions;
use sha2::{Digest, Sha256};

use super::Request;
use crate::corpus::CorpusFile;

/// Settings that do not change what a row becomes, or whose value is hashed otherwise.
const NOT_HASHED: [&str; 2] = ["asap.on_error", "asap.scorer.model"];
/// Endings of the files of a model that change what it computes.
const MODEL_FILES: [&str; 3] = [".json", ".jinja", ".safetensors"];
/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// The hash of a pipeline, in 32 hexadecimal digits: its SQL, its settings, how columns are read, and the files of the
/// scoring model, by their content, so that a copy of the model is the same model.
///
/// # Errors
/// If the model's files cannot be read.
pub fn pipeline(request: &Request) -> Result<String> {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(&request.sql);
    if let Some(columns) = &request.columns {
        add(&columns.question);
        add(&columns.cot);
        add(columns.answer.as_deref().unwrap_or_default());
    }
    for entry in request.settings.entries() {
        if !NOT_HASHED.contains(&entry.key.as_str()) {
            add(&entry.key);
            add(&entry.value.unwrap_or_default());
        }
    }
    add_folder(&mut hash, Path::new(&request.settings.scorer_model))?;
    Ok(hex(hash))
}

/// The hash of an input file as it is now, in 32 hexadecimal digits: where it lies, its size and its fingerprint.
pub fn file(file: &CorpusFile) -> String {
    let mut hash = Sha256::new();
    for part in [&file.url, &file.size.to_string(), &file.fingerprint] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A folder that is not there adds nothing: a pipeline that needs its model is refused when it is planned.
fn add_folder(hash: &mut Sha256, folder: &Path) -> Result<()> {
    let Ok(entries) = folder.read_dir() else { return Ok(()) };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| MODEL_FILES.iter().any(|ending| name.ends_with(ending)));
    names.sort();
    let mut block = vec![0; BLOCK_BYTES];
    for name in names {
        hash.update(&name);
        let mut file = File::open(folder.join(name))?;
        loop {
            let read = file.read(&mut block)?;
            if read == 0 {
                break;
            }
            hash.update(&block[..read]);
        }
    }
    Ok(())
}
