//! Refuses files that asap does not read: files of other formats, and files of a table, which have removed, old and
//! uncommitted rows.

use std::io::Read;
use std::path::Path as FilePath;

use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{Result, exec_err};
use flate2::bufread::MultiGzDecoder;
use futures::TryStreamExt;
use futures::future::try_join_all;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::corpus::files::file::MAGIC;
use crate::corpus::files::is_hidden;
use crate::delta::FOLDER;
use crate::location::command;
use crate::object_reader::get_range;
use crate::objects::named;

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
            return refuse_table(format, &table, shown);
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
        Some((format, folder)) => refuse_table(format, &table(&folder), shown),
        None => Ok(()),
    }
}

/// Whether a folder has the log of a Delta table. A store that cannot list, such as a web server, has none.
pub async fn is_delta_table(store: &dyn ObjectStore, root: &Path) -> Result<bool> {
    Ok(holds(store, &root.clone().join(FOLDER), "").await?)
}

async fn holds(store: &dyn ObjectStore, folder: &Path, ending: &str) -> object_store::Result<bool> {
    let is_one = |file: &ObjectMeta| std::future::ready(file.location.as_ref().ends_with(ending));
    match named(store.list(Some(folder))).try_filter(is_one).try_next().await {
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

fn refuse_table(format: &str, table: &str, shown: &str) -> Result<()> {
    let how = match format {
        "Delta" => format!("name the table's own folder, {table}"),
        _ => format!("write its rows to a separate folder with a tool that reads {format}"),
    };
    exec_err!(
        "{shown} contains files of the {format} table {table}, which may have removed rows: {how}, or name folders or \
         patterns without it"
    )
}

/// Refuses a file that is not a whole Parquet file, with the way to convert it.
pub(crate) async fn refuse_file<T>(store: &dyn ObjectStore, file: &ObjectMeta, name: &str) -> Result<T> {
    let start = match file.size {
        0 => return exec_err!("{name} is not a Parquet file: it is empty"),
        size => get_range(store, file, 0..size.min(4096)).await?,
    };
    if start.starts_with(MAGIC) {
        return exec_err!("{name} is a Parquet file that was cut short: its last part is missing; fetch it again");
    }
    refuse_start(&start, name)?;
    if name.ends_with(".bz2") || name.ends_with(".xz") || name.ends_with(".zst") {
        return exec_err!("{name} is compressed, but not with gzip: decompress it first");
    }
    let is_named = |ending: &str| name.ends_with(ending) || name.ends_with(&format!("{ending}.gz"));
    let (folder, file) = name.rsplit_once('/').unwrap_or((".", name));
    if file.ends_with(".arrow") && start.windows(9).any(|bytes| bytes == b"input_ids") {
        return exec_err!(
            "{name} holds tokens (input_ids), as asap feed writes them: name the corpus with the texts that they were made from"
        );
    }
    if file.ends_with(".arrow") || ["state.json", "dataset_info.json"].contains(&file) {
        let script = format!(
            "from datasets import load_from_disk; load_from_disk({}).to_parquet('converted.parquet')",
            python(folder)
        );
        let convert = command(&["python", "-c", &script]);
        return exec_err!(
            "{name} is part of a dataset saved with save_to_disk, not Parquet; convert it first: {convert}"
        );
    }
    if ["tokenizer.json", "tokenizer_config.json"].contains(&file) {
        return exec_err!("{folder} is a model, and no corpus: {} describes it", command(&["asap", "model", folder]));
    }
    match is_json(&start) {
        true if is_named(".json") => exec_err!(
            "{name} is JSON. In folders, asap reads only *.parquet and *.jsonl, because other JSON files often describe the \
             data: name the file itself, or a pattern such as '{folder}/*.json'"
        ),
        true => exec_err!("{name} is JSON, not Parquet: give it the ending .jsonl or .json"),
        _ if is_named(".csv") => refuse_csv(name, &start, "CSV", ""),
        _ if is_named(".tsv") => refuse_csv(name, &start, "TSV", "'format.delimiter' E'\\t', "),
        _ if is_text(&start) => exec_err!(
            "{name} is not a Parquet file but text: asap reads Parquet, and JSON in files that end in .jsonl or .json, with \
             an object per row, such as {{\"question\": …, \"cot\": …, \"answer\": …}}"
        ),
        _ => exec_err!("{name} is not a Parquet file: neither its first nor its last bytes are PAR1"),
    }
}

/// Whether the beginning of a file is JSON: an object or a list, which may go on.
fn is_json(start: &[u8]) -> bool {
    let is_begun = start.trim_ascii_start().starts_with(b"{") || start.trim_ascii_start().starts_with(b"[");
    let first = serde_json::Deserializer::from_slice(start).into_iter::<serde::de::IgnoredAny>().next();
    is_begun && first.is_some_and(|first| first.map_or_else(|error| error.is_eof(), |_| true))
}

/// Refuses files by their first bytes, whatever their name is: Excel files, other archives, and text in UTF-16.
pub(crate) fn refuse_start(start: &[u8], name: &str) -> Result<()> {
    let is_excel = ending(name).eq_ignore_ascii_case("xlsx") || start.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]);
    match start {
        [b'P', b'K', 3, 4, ..] | [0xd0, 0xcf, 0x11, 0xe0, ..] if is_excel => {
            let script = format!(
                "import pandas; pandas.read_excel({}).to_json('converted.jsonl', orient='records', lines=True)",
                python(name)
            );
            let convert = command(&["python", "-c", &script]);
            exec_err!("{name} is an Excel file; convert it first: {convert}")
        }
        [b'P', b'K', 3, 4, ..] => exec_err!("{name} is a ZIP archive: unpack it first"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, b' '..=b'~', 0, ..] | [b' '..=b'~', 0, _, 0, ..] => {
            let utf8 = "iconv -f UTF-16 -t UTF-8";
            let (convert, ending) = match name.strip_suffix(".gz") {
                Some(plain) => (format!("{} | {utf8}", command(&["gunzip", "-c", name])), ending(plain)),
                None => (format!("{utf8} {}", command(&[name])), ending(name)),
            };
            exec_err!("{name} is text in UTF-16; convert it to UTF-8 first: {convert} > converted.{ending}")
        }
        _ => Ok(()),
    }
}

fn ending(name: &str) -> &str {
    FilePath::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

/// Whether the first bytes of a file are text; a letter may be cut at their end.
fn is_text(start: &[u8]) -> bool {
    str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |text| !text.contains('\0'))
}

/// A text in Python.
fn python(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Refuses CSV with the commands that convert it. Columns become text: types cannot be inferred with multi-line cells.
fn refuse_csv<T>(name: &str, start: &[u8], format: &str, delimiter: &str) -> Result<T> {
    let is_compressed = name.ends_with(".gz");
    let mut header = start.to_vec();
    if is_compressed {
        header.clear();
        // The input is truncated, so an error at its end is expected.
        let _ = MultiGzDecoder::new(start).read_to_end(&mut header);
    }
    let header = String::from_utf8_lossy(&header);
    let reader = Format::default().with_header(true).with_delimiter(if delimiter.is_empty() { b',' } else { b'\t' });
    let (schema, _) = reader.infer_schema(header.trim_start_matches('\u{feff}').as_bytes(), Some(0))?;
    let quoted = |field: &FieldRef| format!("\"{}\" TEXT", field.name().replace('"', "\"\""));
    let columns: Vec<String> = schema.fields().iter().map(quoted).collect();
    let compression = if is_compressed { ", 'format.compression' 'GZIP'" } else { "" };
    let create = format!(
        "CREATE EXTERNAL TABLE t ({}) STORED AS CSV LOCATION '{}' OPTIONS ({delimiter}'format.has_header' 'true', \
         'format.newlines_in_values' 'true'{compression})",
        columns.join(", "),
        name.replace('\'', "''")
    );
    let convert = command(&["asap", "sql", "-c", &create, "-c", "COPY t TO 'converted.parquet'"]);
    exec_err!("{name} is {format}, not Parquet; convert it first: {convert}")
}
