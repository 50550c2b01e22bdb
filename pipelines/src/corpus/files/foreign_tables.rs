//! Files that belong to a table. They have removed, old and uncommitted rows, so they are not read as plain files.

use datafusion::common::{Result, exec_err};
use futures::TryStreamExt;
use futures::future::try_join_all;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::corpus::files::is_hidden;
use crate::delta::FOLDER;

/// Signs of a table format: the name of its log folder, and the ending of the file names in it.
const FORMATS: [(&str, &str, &str); 3] =
    [("Delta", FOLDER, ""), ("Iceberg", "metadata", ".metadata.json"), ("Hudi", ".hoodie", "")];

/// Refuses a folder that contains a table, by the path segments of its files.
pub(crate) fn refuse_tables<'a>(paths: impl Iterator<Item = &'a [String]>, shown: &str) -> Result<()> {
    for parts in paths {
        let Some((file, folders)) = parts.split_last() else { continue };
        for (format, log, ending) in FORMATS {
            let Some(at) = folders.iter().position(|folder| folder == log) else { continue };
            if !file.ends_with(ending) {
                continue;
            }
            let table = match at {
                0 => shown.to_string(),
                _ => format!("{}/{}", shown.trim_end_matches('/'), folders[..at].join("/")),
            };
            return refuse(format, &table, shown);
        }
    }
    Ok(())
}

/// Refuses a folder or a file inside a table, by looking for logs next to the folders above it.
pub(crate) async fn refuse_part_of_table(store: &dyn ObjectStore, root: &Path, shown: &str) -> Result<()> {
    let parts: Vec<_> = root.parts().collect();
    let table = |folder: &Path| match shown.contains("://") {
        true => {
            let names = shown.trim_end_matches('/').rsplitn(parts.len() - folder.parts_count() + 1, '/');
            names.last().unwrap_or(shown).to_string()
        }
        false => format!("/{folder}"),
    };
    // A hidden folder next to the log, such as that of paid answers, is not part of the table.
    let is_inside = |depth: usize| !parts.get(depth).is_some_and(|part| is_hidden(part.as_ref()));
    let above =
        (0..parts.len()).filter(|depth| is_inside(*depth)).map(|depth| Path::from_iter(parts[..depth].iter().cloned()));
    let looks = above.flat_map(|folder| FORMATS.map(|format| (folder.clone(), format)));
    let found = looks.map(|(folder, (format, log, ending))| async move {
        let is_there = holds(store, &folder.clone().join(log), ending).await?;
        Ok::<_, object_store::Error>(is_there.then_some((format, folder)))
    });
    match try_join_all(found).await?.into_iter().flatten().last() {
        Some((format, folder)) => refuse(format, &table(&folder), shown),
        None => Ok(()),
    }
}

pub(crate) async fn is_delta_table(store: &dyn ObjectStore, root: &Path) -> Result<bool> {
    Ok(holds(store, &root.clone().join(FOLDER), "").await?)
}

async fn holds(store: &dyn ObjectStore, folder: &Path, ending: &str) -> object_store::Result<bool> {
    let is_one = |file: &ObjectMeta| std::future::ready(file.location.as_ref().ends_with(ending));
    match store.list(Some(folder)).try_filter(is_one).try_next().await {
        Ok(first) => Ok(first.is_some()),
        // Credentials may cover only one folder and none above it. Plain HTTP cannot list.
        Err(
            object_store::Error::NotFound { .. }
            | object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. }
            | object_store::Error::NotSupported { .. },
        ) => Ok(false),
        // When S3 forbids a listing, only the text of the error shows it.
        Err(error) if error.to_string().contains("403 Forbidden") => Ok(false),
        Err(error) => Err(error),
    }
}

fn refuse(format: &str, table: &str, shown: &str) -> Result<()> {
    let how = match format {
        "Delta" => format!("name the table's own folder, {table}"),
        _ => format!("write its rows to a separate folder with a tool that reads {format}"),
    };
    exec_err!(
        "{shown} contains files of the {format} table {table}, which may have removed rows: {how}, or name folders or \
         patterns without it"
    )
}
