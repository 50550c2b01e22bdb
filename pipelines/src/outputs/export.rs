//! Exports the rows of an output to a folder that any Parquet reader opens, and that the datasets library loads by its
//! path.

use std::collections::BTreeMap;
use std::sync::Arc;

use asap_kernels::front_end::Flag;
use asap_kernels::steps::Separator;
use asap_lm::example::tools_of_openai;
use asap_udfs::messages::as_json;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, StringArray, new_empty_array, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, config_err, exec_datafusion_err, exec_err};
use datafusion::parquet::arrow::AsyncArrowWriter;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde::Serialize;
use serde_json::{Value, json};

use crate::corpus::{guarded_future, guarded_next};
use crate::delta::{LiveFile, Log, LogState, store_of};
use crate::outputs::messages::{has_messages, with_pruned_thoughts};
use crate::outputs::{open, table};
use crate::run::RunError;
use crate::run::output::Output;
use crate::run::output::provenance::{Provenance, WRITTEN_BY};
use crate::run::output::receipt::Counts;
use crate::run::output::rejects;
use crate::run::output::table_properties::originals_of;
use crate::run::says_finished;
use crate::shards::writer_properties;
use crate::{location, objects};

const FILE_BYTES: u64 = 500 << 20;
/// An object that exists until an export is complete.
const UNFINISHED: &str = "_unfinished";
/// The schemas of the tools of a conversation.
const TOOLS: &str = "tools";

#[derive(Debug, Serialize)]
pub struct Exported {
    pub to: String,
    pub table_version: u64,
    pub files: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Whether the output was finished: rows of the input may still be missing.
    pub finished: bool,
}

/// The form in which an export has conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Messages {
    /// The column `messages` alone has the pruned thoughts, and `tools` is JSON text, as a list of structs has NULL for the fields
    /// that other rows have.
    OpenAi,
    /// So do the columns that came in, each in its own form.
    Original,
}

/// Writes the rows of an output to an empty folder, or to that of a killed export, with a description for the datasets
/// library and a dataset card, which contains `about`. An output without rows
/// leaves nothing, unless `allow_empty`.
///
/// # Errors
/// [`RunError::NothingToExport`], or if the output or the folder is wrong.
pub async fn export(
    location: &str,
    to: &str,
    about: Option<&str>,
    allow_empty: bool,
    messages: Messages,
) -> Result<Exported> {
    let output = open(location).await?;
    let log = table(&output)?;
    let to = location::folder(to)?;
    if to.as_str().starts_with(output.url.as_str()) {
        return config_err!("{} is in the output {location}: choose another folder", location::display(&to));
    }
    let store = store_of(&to)?;
    begin(store.as_ref(), &location::display(&to)).await?;
    let schema = Arc::new(log.state.schema()?);
    let originals = match messages {
        Messages::OpenAi => vec![],
        Messages::Original => original_messages(&log.state, &schema, location)?,
    };
    let groups = groups(log);
    let mut counts = Counts::default();
    let mut bytes = 0;
    for (index, group) in groups.iter().enumerate() {
        let path = Path::from(format!("train-{index:05}-of-{:05}.parquet", groups.len()));
        write(&output, group, &schema, (messages, &originals), Arc::clone(&store), &path, &mut counts).await?;
        bytes += store.head(&path).await?.size;
    }
    let exported = Exported {
        to: location::display(&to),
        table_version: log.state.version,
        files: groups.len() as u64,
        rows: counts.rows_out,
        bytes,
        finished: says_finished(&log.state),
    };
    if exported.rows == 0 && !allow_empty {
        for object in objects::list(store.as_ref(), &Path::default()).await? {
            objects::delete(store.as_ref(), &object.location).await?;
        }
        return Err(RunError::NothingToExport { location: location.to_string() }.into());
    }
    let rejects = rejects::by_status(&output).await?;
    let parts = output.identity().map(|identity| identity.parts().clone()).unwrap_or_default();
    let card = card(output.provenance().as_ref(), &parts, &exported, &counts, &rejects);
    let about = about.map_or(String::new(), |about| format!("\n## What pruning did\n\n{about}"));
    let info = info(exported_schema(&schema, messages)?.as_ref(), &exported);
    store.put(&Path::from("dataset_info.json"), PutPayload::from(format!("{info:#}\n"))).await?;
    store.put(&Path::from("README.md"), PutPayload::from(card + &about)).await?;
    objects::delete(store.as_ref(), &Path::from(UNFINISHED)).await?;
    Ok(exported)
}

/// Marks an empty folder as an unfinished export, or empties the folder of an export that was killed.
async fn begin(store: &dyn ObjectStore, to: &str) -> Result<()> {
    let mark = Path::from(UNFINISHED);
    let left = objects::list(store, &Path::default()).await?;
    let is_marked = left.iter().any(|object| object.location == mark);
    if let (Some(object), false) = (left.first(), is_marked) {
        return exec_err!(
            "{to} is not empty (it contains {}): pass a new folder to {}, or delete this one if it is an earlier export",
            object.location,
            Flag("--to")
        );
    }
    store.put(&mark, PutPayload::from_static(b"asap export writes this folder\n")).await?;
    for object in left.iter().filter(|object| object.location != mark) {
        objects::delete(store, &object.location).await?;
    }
    Ok(())
}

/// The live shards in writing order, grouped into files. There is at least one group, so that an output without rows
/// exports its columns.
fn groups(log: &Log) -> Vec<Vec<&LiveFile>> {
    let mut shards: Vec<_> = log.state.files.values().collect();
    shards.sort_by_key(|shard| (shard.modification_time, &shard.path));
    let mut groups = vec![vec![]];
    let mut bytes = 0;
    for shard in shards {
        if bytes > 0 && bytes + shard.size > FILE_BYTES {
            groups.push(vec![]);
            bytes = 0;
        }
        bytes += shard.size;
        if let Some(group) = groups.last_mut() {
            group.push(shard);
        }
    }
    groups
}

async fn write(
    output: &Output,
    shards: &[&LiveFile],
    schema: &SchemaRef,
    (messages, originals): (Messages, &[String]),
    store: Arc<dyn ObjectStore>,
    path: &Path,
    counts: &mut Counts,
) -> Result<()> {
    let properties = writer_properties()?.build();
    let object = BufWriter::new(store, path.clone());
    let exported = exported_schema(schema, messages)?;
    let mut writer = AsyncArrowWriter::try_new(object, Arc::clone(&exported), Some(properties))?;
    let log = table(output)?;
    let separator = output.identity().and_then(|held| Separator::named(held.parts().get("asap.chain.steps")?));
    let separator = separator.unwrap_or_default();
    for shard in shards {
        let unreadable = |error| unreadable(output, shard, error);
        let opening = guarded_future(log.rows_of(shard, &[])).await;
        let mut batches = opening.unwrap_or_else(|panicked| exec_err!("{panicked}")).map_err(unreadable)?;
        while let Some(batch) = guarded_next(&mut batches).await.map_err(unreadable)? {
            let batch = whole(&batch, shard, schema, messages)?;
            // Rows of an output have the list of their steps.
            counts.count_originals(&batch, Separator::default());
            counts.count_output(&batch);
            let batch = match originals {
                [] => batch,
                columns => with_pruned_thoughts(&batch, columns, separator)?,
            };
            writer.write(&batch).await?;
        }
    }
    writer.close().await?;
    Ok(())
}

/// The columns of messages that came in.
fn original_messages(state: &LogState, schema: &Schema, location: &str) -> Result<Vec<String>> {
    let has = |name: &String| schema.field_with_name(name).is_ok_and(|field| has_messages(field.data_type()));
    let mut originals = originals_of(state)?;
    // Other columns continue a prompt.
    originals.sort_by_key(|(name, _)| name != "prompt");
    let names: Vec<String> = originals.into_iter().map(|(_, column)| column).filter(has).collect();
    if names.is_empty() || schema.field_with_name("turns").is_err() {
        return exec_err!(
            "{location} has no list of messages that came in: run it again with {} all if its input has one (not a text or a column \
             history), or export without {} original",
            Flag("--originals"),
            Flag("--messages")
        );
    }
    Ok(names)
}

/// Adds to the error of a shard which one it is and what to do, unless its store is unavailable.
fn unreadable(output: &Output, shard: &LiveFile, error: DataFusionError) -> DataFusionError {
    if location::is_unavailable(&error) {
        return error;
    }
    let to = location::display(&output.url);
    exec_datafusion_err!(
        "shard {} of {to} cannot be read ({}): {} lists all such shards; delete them, and run the same asap \
         run command again, which processes their rows again",
        shard.path,
        error.strip_backtrace(),
        location::command(&["asap", "table", "verify", &to])
    )
}

/// The rows of a shard with all columns of the table. The values of partition columns are in the log, and columns added
/// later are NULL.
fn whole(batch: &RecordBatch, shard: &LiveFile, schema: &Schema, messages: Messages) -> Result<RecordBatch> {
    let column = |field: &Arc<Field>| -> Result<ArrayRef> {
        if let Some(column) = batch.column_by_name(field.name()) {
            return Ok(cast(column, field.data_type())?);
        }
        match shard.partition_values.get(field.name()).cloned().flatten() {
            Some(value) => ScalarValue::try_from_string(value, field.data_type())?.to_array_of_size(batch.num_rows()),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        }
    };
    let columns = schema.fields().iter().map(|field| for_trainers(field.name(), column(field)?, messages));
    Ok(RecordBatch::try_new(exported_schema(schema, messages)?, columns.collect::<Result<_>>()?)?)
}

fn exported_schema(schema: &Schema, messages: Messages) -> Result<SchemaRef> {
    let field = |field: &Arc<Field>| {
        let column = for_trainers(field.name(), new_empty_array(field.data_type()), messages)?;
        Ok(field.as_ref().clone().with_data_type(column.data_type().clone()))
    };
    Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Result<Vec<_>>>()?)))
}

/// A column in the type that the datasets library and trainers read.
fn for_trainers(name: &str, column: ArrayRef, messages: Messages) -> Result<ArrayRef> {
    match (name, messages, column.data_type()) {
        (TOOLS, Messages::OpenAi, DataType::List(item)) if item.data_type().is_nested() => {
            let texts = as_json(&column, |_| true)?.into_iter();
            Ok(Arc::new(
                texts.map(|text| text.map(|text| tools_of_openai(&text).unwrap_or(text))).collect::<StringArray>(),
            ))
        }
        _ => Ok(without_map(column)),
    }
}

/// Replaces a map by a list of keys and values, because the datasets library does not support maps.
fn without_map(column: ArrayRef) -> ArrayRef {
    let Some(map) = column.as_map_opt() else { return column };
    let item = Arc::new(Field::new_list_field(map.entries().data_type().clone(), true));
    Arc::new(ListArray::new(item, map.offsets().clone(), Arc::new(map.entries().clone()), map.nulls().cloned()))
}

fn info(schema: &Schema, exported: &Exported) -> Value {
    let features: serde_json::Map<_, _> =
        schema.fields().iter().map(|field| (field.name().clone(), feature(field.data_type()))).collect();
    json!({
        "features": features,
        "splits": { "train": { "name": "train", "num_bytes": exported.bytes, "num_examples": exported.rows } },
        "num_rows": exported.rows,
        "download_size": exported.bytes,
        "dataset_size": exported.bytes,
    })
}

fn feature(kind: &DataType) -> Value {
    let name = match kind {
        DataType::List(item) | DataType::LargeList(item) => {
            return json!({ "feature": feature(item.data_type()), "_type": "List" });
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| (field.name().clone(), feature(field.data_type())));
            return Value::Object(fields.collect());
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_string(),
        DataType::Boolean => "bool".to_string(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_string(),
        // Timestamps of a table are in microseconds.
        DataType::Timestamp(_, None) => "timestamp[us]".to_string(),
        DataType::Timestamp(_, Some(zone)) => format!("timestamp[us, tz={zone}]"),
        // Numbers have their Arrow names.
        other => other.to_string().to_lowercase(),
    };
    json!({ "dtype": name, "_type": "Value" })
}

fn card(
    provenance: Option<&Provenance>,
    parts: &BTreeMap<String, String>,
    exported: &Exported,
    counts: &Counts,
    rejects: &BTreeMap<String, u64>,
) -> String {
    // Without `configs`, which would make the datasets library look for named files only. It assigns files called
    // train-* to the split of that name.
    let mut lines = vec![
        "---\npretty_name: Pruned chains of thought\n---\n".to_string(),
        "# Pruned chains of thought\n".to_string(),
        format!("{WRITTEN_BY}{} from version {} of a table.\n", env!("ASAP_VERSION"), exported.table_version),
        "| | |\n|---|---|".to_string(),
        format!("| rows | {} |", exported.rows),
    ];
    let tokens = [("tokens before", counts.tokens_in), ("tokens after", counts.tokens_out)];
    lines.extend(tokens.iter().filter_map(|(what, tokens)| tokens.map(|tokens| format!("| {what} | {tokens} |"))));
    lines.extend(rejects.iter().map(|(status, rows)| format!("| rejected: {status} | {rows} |")));
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    if let Some(provenance) = provenance {
        lines.push("\n## How it was made\n".to_string());
        lines.extend(provenance.warning().map(|warning| format!("**{warning}.**\n")));
        lines.push("| | |\n|---|---|".to_string());
        lines.extend(provenance.lines().iter().map(|(what, who)| format!("| {what} | {} |", cell(who))));
    }
    lines.push("\n## Settings that determine this table\n\n| part | value |\n|---|---|".to_string());
    lines.extend(parts.iter().map(|(part, value)| format!("| {} | {} |", cell(part), cell(value))));
    lines.join("\n") + "\n"
}
