//! Commands that inspect and maintain an output. Each reads the logs, which alone determine the valid rows.

pub mod export;
pub mod history;
mod levels;
mod messages;
pub mod optimize;
pub mod rejects;
pub mod status;
pub mod upload;
pub mod vacuum;
pub mod verify;

use asap_kernels::front_end::{Flag, either};
use datafusion::common::{Result, config_err, exec_datafusion_err, exec_err};
use futures::TryStreamExt;
use object_store::path::Path;

use crate::corpus::files::listing::neighbor;
use crate::delta::Log;
use crate::location;
use crate::objects::existing;
use crate::run::ledger::ATTEMPT;
use crate::run::output::Output;

/// Opens the output of a run at a location as typed.
pub async fn open(location: &str) -> Result<Output> {
    crate::delta::stores::register();
    if let Some(output) = location.trim_end_matches('/').strip_suffix("/.asap/rejects") {
        return config_err!("{location} holds the rejects of {output}: pass {output}");
    }
    if location::local_path(&location::parse(location)?).is_some_and(|path| path.is_file()) {
        let to = Flag("--to");
        return config_err!(
            "{location} is a file, and no output of asap run: pass the folder that was its {to}. asap inspect shows what a \
             file holds"
        );
    }
    let folder = location::folder(location)?;
    let local = location::local_path(&folder);
    if local.as_ref().is_some_and(|path| !path.exists()) {
        return exec_err!(
            "there is no folder {location}{}: pass the folder that was the {} of asap run, which writes none if its input \
             has no rows",
            neighbor(&folder),
            Flag("--to")
        );
    }
    // A folder without a log gets this message, not advice for a new output.
    let store = crate::delta::store_of(&folder)?;
    let is_table = store.list(Some(&Path::from(crate::delta::FOLDER))).try_next().await;
    match is_table {
        Ok(None) | Err(object_store::Error::NotFound { .. }) => {}
        _ => {
            let output = Output::open(folder).await?;
            if output.table().is_some() {
                return Ok(output);
            }
        }
    }
    // A run that ended before its first commit leaves answers and shards.
    let left =
        existing(store.list_with_delimiter(None).await)?.map(|listed| listed.common_prefixes).unwrap_or_default();
    let is_of_run = |name: &str| name == crate::asap_folder::FOLDER || name.starts_with(ATTEMPT);
    if left.iter().any(|folder| folder.filename().is_some_and(is_of_run)) {
        return exec_err!(
            "{location} has no commit yet: its run ended before the first one; {}",
            either("run the same asap run command again", "repeat the call")
        );
    }
    let is_output =
        |name: &&str| local.as_ref().is_some_and(|local| local.join(name).join(crate::delta::FOLDER).is_dir());
    let held = left.iter().filter_map(Path::filename).find(is_output);
    let held = held.map_or(String::new(), |name| format!(", but holds {}/{name}", location.trim_end_matches('/')));
    exec_err!("{location} is not an output of asap run{held}: pass the folder that was its {}", Flag("--to"))
}

fn table(output: &Output) -> Result<&Log> {
    output.table().ok_or_else(|| exec_datafusion_err!("{} has no table", location::display(&output.url)))
}

/// A path of a log as a path in the store of its table; None if it is outside the folder of the table.
fn inside(path: &str) -> Option<Path> {
    let path = (!path.contains("://")).then(|| Path::from_url_path(path).ok()).flatten()?;
    let first = path.parts().next()?.as_ref().to_string();
    (first != crate::delta::FOLDER && first != crate::asap_folder::FOLDER).then_some(path)
}
