//! Files that belong to a table: they hold removed rows, old versions of rows and rows that nobody committed, so they are
//! not read as plain files.

use datafusion::common::{Result, exec_err};
use futures::TryStreamExt;
use futures::future::try_join_all;
use object_store::ObjectStore;
use object_store::path::Path;

/// How a table format shows: the name of the folder that holds its log, and how the names of files in it end.
const FORMATS: [(&str, &str, &str); 3] =
    [("Delta", "_delta_log", ""), ("Iceberg", "metadata", ".metadata.json"), ("Hudi", ".hoodie", "")];

/// Refuses a folder in which a table lies, by the parts of the paths of its files.
pub(super) fn refuse_tables<'a>(paths: impl Iterator<Item = &'a [String]>, shown: &str) -> Result<()> {
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

/// Refuses a folder or a file that lies in a table, by what lies beside the folders above it.
pub(super) async fn refuse_part_of_table(store: &dyn ObjectStore, root: &Path, shown: &str) -> Result<()> {
    let parts: Vec<_> = root.parts().collect();
    let above = (0..parts.len()).map(|depth| Path::from_iter(parts[..depth].iter().cloned()));
    let looks = above.flat_map(|folder| FORMATS.map(|format| (folder.clone(), format)));
    let found = looks.map(|(folder, (format, log, ending))| async move {
        let mut inside = store.list(Some(&folder.clone().join(log)));
        match inside.try_next().await {
            Ok(Some(first)) if ending.is_empty() || first.location.as_ref().ends_with(ending) => {
                Ok(Some((format, folder)))
            }
            Ok(Some(_)) => {
                let rest: Vec<_> = inside.try_collect().await?;
                Ok(rest.iter().any(|file| file.location.as_ref().ends_with(ending)).then_some((format, folder)))
            }
            Ok(None) | Err(object_store::Error::NotFound { .. }) => Ok(None),
            // A key may be good for the folder that it was made for, and for none above it; plain HTTP lists nothing.
            Err(
                object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. }
                | object_store::Error::NotSupported { .. },
            ) => Ok(None),
            Err(error) => Err(error),
        }
    });
    match try_join_all(found).await?.into_iter().flatten().last() {
        Some((format, folder)) => refuse(format, &format!("/{folder}"), shown),
        None => Ok(()),
    }
}

fn refuse(format: &str, table: &str, shown: &str) -> Result<()> {
    let how = match format {
        "Delta" => {
            format!(
                "asap sql -c \"CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{table}'\" -c \"COPY t TO 'rows.parquet'\""
            )
        }
        _ => format!("write its rows to a folder of their own with what reads {format}"),
    };
    exec_err!(
        "{shown} holds files of the {format} table {table}, among which are removed rows too: copy its rows out first ({how}), \
         or name folders or patterns without it"
    )
}
