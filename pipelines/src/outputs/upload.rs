//! Uploads an export as a dataset of the Hugging Face Hub. The command `hf` of Hugging Face does it: it has the
//! protocols of the Hub's storage, and its user is logged in.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;

use asap_hub::{Hub, HubError, Kind, Place, Repository};
use asap_kernels::front_end::Flag;
use datafusion::common::{DataFusionError, Result, config_err, exec_err};
use serde::Serialize;
use tempfile::TempDir;
use tokio::process::Command;

use crate::location::command;
use crate::outputs::export::{Exported, Messages, export};
use crate::run::output::provenance::WRITTEN_BY;

const SCHEME: &str = "hf://datasets/";
/// What a dataset of asap consists of, besides its card.
const DATA: &str = "*.parquet";

/// An upload, made or planned.
#[derive(Debug, Serialize)]
pub struct Uploaded {
    #[serde(flatten)]
    pub exported: Exported,
    /// The names of the files with their sizes in bytes.
    pub uploads: Vec<(String, u64)>,
    /// Whether the dataset has files that the upload replaces.
    pub replaces: bool,
}

/// Whether a location is a dataset of the Hub.
pub fn is_dataset(to: &str) -> bool {
    to.starts_with("hf://")
}

/// Exports the rows of an output, as [`export`], to a dataset of the Hub (`hf://datasets/org/name`) in one commit. A
/// new dataset is private. `is_planned` uploads nothing.
///
/// # Errors
/// If the dataset has files that asap did not write and `may_replace` is false, if the output cannot be exported, or if
/// `hf` is missing or fails.
pub async fn upload(
    location: &str,
    to: &str,
    about: Option<&str>,
    may_replace: bool,
    is_planned: bool,
    allow_empty: bool,
    messages: Messages,
) -> Result<Uploaded> {
    let name = to.strip_prefix(SCHEME).unwrap_or_default().trim_end_matches('/');
    if name.split('/').filter(|part| !part.is_empty()).count() != 2 || name.contains('@') {
        return config_err!("expected {SCHEME}org/name without a revision or a path, found {to}");
    }
    let held = held(name).await.map_err(|error| DataFusionError::External(Box::new(error)))?;
    if let (Held::Foreign(files), false) = (&held, may_replace) {
        return exec_err!(
            "{SCHEME}{name} has files that asap did not write ({}): choose another name, or replace its card and all \
             its Parquet files with {}",
            files.join(", "),
            Flag("--replace")
        );
    }
    let folder = tempfile::tempdir()?;
    let mut exported = export(location, &folder.path().to_string_lossy(), about, allow_empty, messages).await?;
    exported.to = format!("{SCHEME}{name}");
    let uploads = files(folder.path())?;
    let replaces = !matches!(held, Held::Nothing);
    if !is_planned {
        run(folder, name, &exported, replaces).await?;
    }
    Ok(Uploaded { exported, uploads, replaces })
}

/// What a dataset has.
enum Held {
    Nothing,
    /// Files that asap wrote.
    Own,
    /// Files of others.
    Foreign(Vec<String>),
}

async fn held(name: &str) -> asap_hub::Result<Held> {
    let hub = Hub::new()?;
    let repository = Repository { kind: Kind::Dataset, name: name.to_string() };
    let revision = match hub.commit(&repository, "main").await {
        Err(HubError::NoRepository(_) | HubError::NoRevision(_)) => return Ok(Held::Nothing),
        commit => commit?,
    };
    let root = Place { repository, revision, path: String::new() };
    let mut files: Vec<String> = hub.tree(&root, false).await?.into_iter().map(|entry| entry.path).collect();
    files.retain(|file| !file.starts_with('.'));
    if files.is_empty() {
        return Ok(Held::Nothing);
    }
    if !files.iter().any(|file| file == "README.md") {
        return Ok(Held::Foreign(files));
    }
    let mut body = hub.read(Place { path: "README.md".to_string(), ..root }, None, None).await?;
    let mut card = Vec::new();
    while let Some(bytes) = body.chunk().await? {
        card.extend_from_slice(&bytes);
    }
    Ok(if String::from_utf8_lossy(&card).contains(WRITTEN_BY) { Held::Own } else { Held::Foreign(files) })
}

fn files(folder: &Path) -> Result<Vec<(String, u64)>> {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
    };
    let mut files = folder.read_dir()?.map(file).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

async fn run(folder: TempDir, name: &str, exported: &Exported, replaces: bool) -> Result<()> {
    let said = format!("Write {} rows of table version {} with asap", exported.rows, exported.table_version);
    let path = folder.path().to_string_lossy().into_owned();
    let mut words =
        vec!["hf", "upload", name, &path, ".", "--repo-type", "dataset", "--private", "--commit-message", &said];
    if replaces {
        words.extend(["--delete", DATA]);
    }
    let mut upload = Command::new(words[0]);
    upload.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let ended = match upload.status().await {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("hf failed ({status})"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            "there is no command hf, which uploads: run pip install huggingface_hub".to_string()
        }
        Err(error) => format!("cannot run hf: {error}"),
    };
    // The export may have taken long.
    let _ = folder.keep();
    exec_err!("{ended}; the export is in {path}: upload it with {}, or delete it", command(&words))
}
