//! Results: a column, and a stream of batches. Both have Arrow's PyCapsule interface.

use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::ThreadId;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StructArray};
use datafusion::arrow::datatypes::{Field, FieldRef, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};

use crate::engine::{self, Engine, Session, TICK, failed};
use crate::values;

/// A column of results, for any library that reads Arrow data.
#[pyclass(module = "asap", frozen)]
pub(crate) struct Column {
    pub field: FieldRef,
    pub chunks: Vec<ArrayRef>,
}

#[pymethods]
impl Column {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let chunks = self.chunks.clone().into_iter().map(Ok);
        to_stream_pycapsule(py, Box::new(ArrayIterator::new(chunks, Arc::clone(&self.field))), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.field.as_ref())
    }

    fn __len__(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    fn __repr__(&self) -> String {
        format!("<asap.Column of {}, {} rows>", self.field.data_type(), self.__len__())
    }

    /// Return the values as Python objects.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut objects = Vec::new();
        for chunk in &self.chunks {
            objects.extend(values::objects(py, chunk)?);
        }
        PyList::new(py, objects)
    }
}

/// The rows of a query, as a stream of Arrow batches. They can be read once.
#[pyclass(module = "asap", frozen)]
pub(crate) struct Reader {
    schema: SchemaRef,
    rows: Mutex<Option<Rows>>,
}

/// The batches of a query. It computes in the thread that reads it.
pub(crate) struct Rows {
    pub engine: Arc<Engine>,
    pub session: Session,
    pub stream: SendableRecordBatchStream,
    /// What must live until the rows are read, such as a temporary folder.
    pub keep: Option<Py<PyAny>>,
    pub thread: ThreadId,
    pub is_over: bool,
}

impl Reader {
    pub(crate) fn new(rows: Rows) -> Self {
        Self { schema: rows.stream.schema(), rows: Mutex::new(Some(rows)) }
    }

    fn take(&self) -> PyResult<Rows> {
        let read = "the rows of this query were read before: run the query again, or keep them in a table";
        self.rows.lock().take().ok_or_else(|| engine::Error::new_err(read))
    }

    /// The rows as a column of structs.
    fn field(&self) -> FieldRef {
        let field = Field::new_struct("", self.schema.fields().clone(), false);
        Arc::new(field.with_metadata(self.schema.metadata().clone()))
    }
}

/// Calls a function of the package with a reader.
fn with_package<'py>(name: &str, reader: &Bound<'py, Reader>) -> PyResult<Bound<'py, PyAny>> {
    reader.py().import("asap._data")?.call_method1(name, (reader,))
}

#[pymethods]
impl Reader {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let arrays = self.take()?.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
        to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, self.field())), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.schema.as_ref())
    }

    fn __repr__(&self) -> String {
        let columns = self.schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
        format!("<asap.Reader of {}>", columns.collect::<Vec<_>>().join(", "))
    }

    /// Return the rows as a list of dicts.
    fn to_pylist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        all_rows(slf.py(), slf)?.to_pylist(slf.py())
    }

    /// Return an iterator over the rows, as record batches of pyarrow.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        with_package("batches", slf)
    }

    /// Return the rows as a table of pyarrow.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        with_package("to_arrow", slf)
    }

    /// Return the rows as a data frame of pandas.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        with_package("to_pandas", slf)
    }

    /// Return the rows as a data frame of Polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        with_package("to_polars", slf)
    }
}

/// Return the next batch of a reader as a column of structs, or None after the last.
#[pyfunction]
pub(crate) fn next_batch(py: Python<'_>, reader: &Bound<'_, Reader>) -> PyResult<Option<Column>> {
    let reader = reader.get();
    let mut rows = reader.take()?;
    let Some(batch) = rows.batch(py)? else { return Ok(None) };
    *reader.rows.lock() = Some(rows);
    Ok(Some(Column { field: reader.field(), chunks: vec![Arc::new(StructArray::from(batch))] }))
}

/// Return all rows of a reader as a column of structs.
#[pyfunction]
pub(crate) fn all_rows(py: Python<'_>, reader: &Bound<'_, Reader>) -> PyResult<Column> {
    let reader = reader.get();
    let (mut rows, mut chunks) = (reader.take()?, Vec::<ArrayRef>::new());
    while let Some(batch) = rows.batch(py)? {
        chunks.push(Arc::new(StructArray::from(batch)));
    }
    Ok(Column { field: reader.field(), chunks })
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        if self.is_over {
            Python::attach(|_| drop(self.keep.take()));
        }
        next
    }
}

impl Rows {
    /// Returns the next batch without the GIL.
    fn batch(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let failed = |error| match error {
            ArrowError::ExternalError(cause) => match cause.downcast::<Raised>() {
                Ok(raised) => raised.0,
                Err(cause) => engine::Error::new_err(cause.to_string()),
            },
            other => engine::Error::new_err(other.to_string()),
        };
        // An interrupt says more than the error that it causes.
        let next = py.detach(|| self.next()).transpose();
        next.map_err(|error| py.check_signals().err().unwrap_or_else(|| failed(error)))
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            // Some damaged files make their reader panic, and no panic may cross to the caller's language.
            let stream = &mut self.stream;
            let next = async { tokio::time::timeout(TICK, AssertUnwindSafe(stream.next()).catch_unwind()).await };
            match self.engine.runtime.block_on(next) {
                Ok(Ok(Some(Ok(batch)))) => return Ok(Some(batch)),
                Ok(Ok(Some(Err(error)))) => return Err(external(error.into())),
                Ok(Ok(None)) => {
                    self.engine.runtime.block_on(self.session.settle()).map_err(external)?;
                    return Ok(None);
                }
                Ok(Err(_)) => {
                    return Err(ArrowError::ComputeError("the query panicked; see the message above".to_string()));
                }
                Err(_) => self.look_for_signals()?,
            }
        }
    }

    /// A signal ends the reading. Python raises the signal when it gets control again.
    fn look_for_signals(&self) -> Result<(), ArrowError> {
        if std::thread::current().id() != self.thread {
            return Ok(());
        }
        Python::attach(|py| {
            py.check_signals().map_err(|_| {
                let again = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
                drop(again);
                ArrowError::ComputeError("interrupted".to_string())
            })
        })
    }
}

/// A failure of a query on its way through Arrow's interface, which shows its message.
#[derive(Debug)]
struct Raised(PyErr);

impl Error for Raised {}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Python::attach(|py| self.0.value(py).fmt(f))
    }
}

fn external(failure: asap::failure::Failure) -> ArrowError {
    ArrowError::ExternalError(Box::new(Raised(failed(failure))))
}
