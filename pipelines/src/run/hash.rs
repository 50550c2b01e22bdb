//! What a table was filled with, as one hash.

use std::path::Path;

use datafusion::common::Result;
use datafusion::common::config::ExtensionOptions;
use sha2::{Digest, Sha256};

use asap_udfs::llm::prompts::Prompts;
use asap_udfs::lm::fingerprint;
use asap_udfs::settings::Provider;

use super::Request;
use crate::corpus::CorpusFile;

/// Settings that change how calls are made and not what a row becomes, ...
const HOW_CALLS_ARE_MADE: [&str; 14] = [
    "asap.anchor.api_key_env",
    "asap.anchor.base_url",
    "asap.anchor.max_calls",
    "asap.anchor.max_concurrent_requests",
    "asap.anchor.max_cost",
    "asap.anchor.max_error_rate",
    "asap.anchor.max_requests_per_minute",
    "asap.anchor.max_retries",
    "asap.anchor.max_tokens_per_minute",
    "asap.anchor.price_per_million_input_tokens",
    "asap.anchor.price_per_million_output_tokens",
    "asap.anchor.timeout",
    "asap.cache.dir",
    "asap.on_error",
];
/// ... and those that name files, whose content is hashed.
const FILES: [&str; 2] = ["asap.anchor.prompt_dir", "asap.scorer.model"];

/// The hash of a pipeline, in 32 hexadecimal digits: its SQL, its settings, how columns are read, and by their content
/// the files of the scoring model, the prompts and the local model that is asked, so that a copy of them is the same.
///
/// # Errors
/// If the files cannot be read.
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
    let settings = &request.settings;
    for entry in settings.entries() {
        let key = entry.key.as_str();
        let is_local_model = key == "asap.anchor.model" && settings.anchor_provider == Provider::Local;
        if !HOW_CALLS_ARE_MADE.contains(&key) && !FILES.contains(&key) && !is_local_model {
            add(&entry.key);
            add(&entry.value.unwrap_or_default());
        }
    }
    // A folder that is not there adds nothing: a pipeline that needs its model is refused when it is planned.
    let scorer = Path::new(&settings.scorer_model);
    if scorer.is_dir() {
        add(&fingerprint(scorer)?);
    }
    if settings.anchor_provider != Provider::Extractive {
        let prompts = Prompts::load(settings.anchor_prompt_dir.as_deref())?;
        add(prompts.anchor.hash());
        add(prompts.coarse.hash());
    }
    let local = Path::new(settings.anchor_model.as_deref().unwrap_or_default());
    if settings.anchor_provider == Provider::Local && local.is_dir() {
        add(&fingerprint(local)?);
    }
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
