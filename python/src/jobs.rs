//! Queries, runs and the `asap` command.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use asap::failure::Failure;
use asap::progress::Bar;
use asap::signals::Stop;
use asap_kernels::front_end;
use asap_pipelines::builtin;
use asap_pipelines::corpus::{CORPUS, ColumnMapping, Corpus};
use asap_pipelines::run::output::identity::Identity;
use asap_udfs::Settings;
use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::TableReference;
use datafusion::common::config::ExtensionOptions;
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::col;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use tokio::sync::watch;

use crate::engine::{self, ArgumentError, Error, InputError, failed, key_of, settings_of, wait, wait_a_tick};
use crate::reader::{Reader, Rows};

/// Run the command of these arguments, and return its exit code. `program` starts asap again. Messages name arguments as
/// Python does if `in_python`, and flags otherwise.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>, program: Vec<OsString>, in_python: bool) -> u8 {
    front_end::set_python(in_python);
    asap::program::set_command(program);
    py.detach(|| asap::cli::main_with(arguments))
}

/// Return the names and descriptions of all settings.
#[pyfunction]
pub(crate) fn settings() -> Vec<(String, &'static str)> {
    let entries = Settings::default().entries();
    let name = |key: &str| key.trim_start_matches("asap.").replace('.', "_");
    entries.into_iter().map(|entry| (name(&entry.key), entry.description)).collect()
}

/// Return the names of the options of `asap run`.
#[pyfunction]
pub(crate) fn flags() -> Vec<String> {
    asap::run::flags().into_iter().map(|flag| flag.replace('-', "_")).collect()
}

/// Return a line of `metrics.jsonl` as a record of TensorBoard, or for an empty line the record that begins a file.
#[pyfunction]
pub(crate) fn tensorboard_record(line: &str) -> PyResult<Vec<u8>> {
    asap_train::tensorboard_record(line).map_err(|error| Error::new_err(error.to_string()))
}

/// Return the SQL of a pipeline: a built-in one, or a file.
#[pyfunction]
pub(crate) fn pipeline(named: &str) -> PyResult<String> {
    builtin::pipeline(named).map_err(ArgumentError::new_err)
}

/// Return the built-in pipelines with their descriptions.
#[pyfunction]
pub(crate) fn pipelines() -> Vec<(&'static str, String)> {
    builtin::described()
}

/// Return a hash of what determines the result of a pipeline for a row.
#[pyfunction]
pub(crate) fn fingerprint(sql: &str, columns: Option<&str>, settings: Vec<(String, String)>) -> PyResult<String> {
    let settings = settings_of(settings)?;
    Identity::fingerprint(sql, mapping(columns)?.as_ref(), &settings).map_err(|error| failed(error.into()))
}

fn mapping(columns: Option<&str>) -> PyResult<Option<ColumnMapping>> {
    columns.map(str::parse::<ColumnMapping>).transpose().map_err(|error| failed(error.into()))
}

/// Return the folder of a model on this machine, if it is there.
#[pyfunction]
pub(crate) fn found_model(named: &str) -> Option<String> {
    Some(asap_lm::find(named)?.display().to_string())
}

/// Return the folder of a model: a folder, org/name on the Hub, which is downloaded if the Hub's cache lacks it, or
/// `small`, which is written if it is missing.
#[pyfunction]
pub(crate) fn model_folder(named: &str) -> PyResult<String> {
    let folder = asap_lm::locate(named).map_err(|error| match error.is_unavailable() {
        true => failed(error.into()),
        false => ArgumentError::new_err(error.to_string()),
    })?;
    Ok(folder.display().to_string())
}

/// Run `asap run` with these flags. Now and then, `show` gets a line of progress, and what it counts: rows, all rows, calls
/// and their cost. Ctrl-C ends the run as it does on the command line: finished slices are committed, and a second one ends
/// it immediately. If `returns_rejects`, an output without rows is no failure.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    mut flags: Vec<String>,
    settings: Vec<(String, String)>,
    show: Option<Bound<'_, PyAny>>,
    returns_rejects: bool,
) -> PyResult<String> {
    for (name, value) in settings {
        flags.extend(["--set".to_string(), format!("{}={value}", key_of(&name)?)]);
    }
    let engine = engine::engine(py)?;
    let bar = Arc::new(Bar::new("pruning", true));
    let (ask, asked) = watch::channel(false);
    let own = Arc::clone(&bar);
    let work = async move { asap::run::run_quietly(flags, returns_rejects, &own, Stop::by(asked)).await };
    let mut task = engine.runtime.spawn(work);
    let (started, read_before) = (Instant::now(), asap_lm::tokens_read());
    let mut interrupt: Option<PyErr> = None;
    loop {
        if let Some(done) = wait_a_tick(py, &engine, &mut task) {
            return match (interrupt, done) {
                (None, done) => done,
                // It says what is committed, and how to resume.
                (Some(signal), Err(stopped)) if signal.is_instance_of::<PyKeyboardInterrupt>(py) => {
                    Err(PyKeyboardInterrupt::new_err(stopped.value(py).to_string()))
                }
                (Some(signal), _) => Err(signal),
            };
        }
        let line = match interrupt {
            None => bar.line(started.elapsed(), asap_lm::tokens_read().saturating_sub(read_before), 100),
            Some(_) => "committing the finished rows; a second Ctrl-C ends the run immediately".to_string(),
        };
        let (rows, all_rows, usage) = bar.reached();
        let counts = (line, rows, all_rows, usage.calls, usage.cost);
        let shown = show.as_ref().map_or(Ok(()), |show| show.call1(counts).map(drop));
        if let Err(signal) = py.check_signals().and(shown) {
            if interrupt.is_some() {
                task.abort();
                return Err(signal);
            }
            ask.send_replace(true);
            interrupt = Some(signal);
        }
    }
}

/// Return the report of an output as HTML, and write it to the file `to` if one is named.
#[pyfunction]
pub(crate) fn report(
    py: Python<'_>,
    output: String,
    against: Option<String>,
    exam: Option<String>,
    to: Option<String>,
) -> PyResult<String> {
    let work = async move {
        let [against, exam, to] = [&against, &exam, &to].map(|place| place.as_deref());
        asap_view::frame(&output, against, exam, to).await
    };
    wait(py, engine::engine(py)?.as_ref(), work)
}

/// A table of a query: at a location, or in memory.
enum Table {
    At(String),
    Held(Arc<MemTable>),
}

impl Table {
    fn of(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(location) = data.extract::<String>() {
            return Ok(Self::At(location));
        }
        let reader = data.extract::<AnyRecordBatch>()?.into_reader()?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|error| Error::new_err(error.to_string()))?;
        let table = MemTable::try_new(schema, vec![batches]).map_err(|error| failed(error.into()))?;
        Ok(Self::Held(Arc::new(table)))
    }
}

/// The location of the table `corpus`, and its columns.
type Place = (String, Option<ColumnMapping>);

/// Run a query, and return its rows. `keep` lives until they are read.
#[pyfunction]
#[pyo3(signature = (query, corpus, columns, tables, settings, keep))]
pub(crate) fn sql(
    py: Python<'_>,
    query: String,
    corpus: Option<String>,
    columns: Option<&str>,
    tables: Vec<(String, Bound<'_, PyAny>)>,
    settings: Vec<(String, String)>,
    keep: Option<Py<PyAny>>,
) -> PyResult<Reader> {
    let tables = tables.iter().map(|(name, data)| Ok((name.clone(), Table::of(data)?)));
    let tables = tables.collect::<PyResult<Vec<_>>>()?;
    let columns = mapping(columns)?;
    let corpus = corpus.map(|location| (location, columns));
    rows(py, query, corpus, tables, settings, keep, &[])
}

/// Compute a pipeline over a corpus without an output: its status and its examples for trainers, in the order of the
/// rows.
#[pyfunction]
pub(crate) fn prune(
    py: Python<'_>,
    sql: String,
    corpus: String,
    columns: Option<&str>,
    settings: Vec<(String, String)>,
) -> PyResult<Reader> {
    let corpus = (corpus, mapping(columns)?);
    const WANTED: &[&str] = &["source", "prompt", "completion", "messages", "status", "error"];
    rows(py, sql, Some(corpus), vec![], settings, None, WANTED)
}

fn rows(
    py: Python<'_>,
    query: String,
    corpus: Option<Place>,
    tables: Vec<(String, Table)>,
    settings: Vec<(String, String)>,
    keep: Option<Py<PyAny>>,
    wanted: &'static [&'static str],
) -> PyResult<Reader> {
    let engine = engine::engine(py)?;
    let settings = settings_of(settings)?;
    let session = if wanted.is_empty() { engine.new_session(settings) } else { engine.session_of_batch(settings) };
    let session = session.map_err(failed)?;
    let context = session.context.clone();
    let work = async move {
        if let Some((location, columns)) = corpus {
            let corpus = Corpus::open(&context.state(), &location, columns.as_ref()).await?;
            context.register_table(CORPUS, Arc::new(corpus.view(&context.state())?))?;
        }
        for (name, table) in tables {
            let table = match table {
                Table::At(location) => context.table_provider(TableReference::bare(location)).await?,
                Table::Held(table) => table,
            };
            context.register_table(TableReference::bare(name), table)?;
        }
        let mut frame = context.sql(&query).await?;
        if !wanted.is_empty() {
            let held = wanted.iter().filter(|name| frame.schema().has_column_with_unqualified_name(name));
            frame = frame.clone().select_columns(&held.copied().collect::<Vec<_>>())?;
            frame = frame.sort(vec![col("source").sort(true, false)])?;
        }
        Ok::<_, Failure>(frame.execute_stream().await?)
    };
    let stream = wait(py, &engine, work)?;
    let thread = std::thread::current().id();
    Ok(Reader::new(Rows { engine, session, stream, keep, thread, is_over: false }))
}

/// Write a table to a Parquet file, and return the number of its rows.
#[pyfunction]
pub(crate) fn write_parquet(data: AnyRecordBatch, path: PathBuf) -> PyResult<u64> {
    let reader = data.into_reader()?;
    let failed = |error: &dyn ToString| Error::new_err(error.to_string());
    // The writer panics on some types.
    if let Some(column) = reader.schema().fields().iter().find(|column| is_foreign(column.data_type())) {
        let (name, kind) = (column.name(), column.data_type());
        let what =
            format!("column {name} has the type {kind}, which asap cannot read: convert the column, or leave it out");
        return Err(InputError::new_err(what));
    }
    let mut writer =
        ArrowWriter::try_new(File::create(path)?, reader.schema(), None).map_err(|error| failed(&error))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch.map_err(|error| failed(&error))?;
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(|error| failed(&error))?;
    }
    writer.close().map_err(|error| failed(&error))?;
    Ok(rows)
}

fn is_foreign(kind: &DataType) -> bool {
    match kind {
        DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::Interval(IntervalUnit::MonthDayNano) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => is_foreign(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_foreign(field.data_type())),
        DataType::Dictionary(_, value) => is_foreign(value),
        _ => false,
    }
}
