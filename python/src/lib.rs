//! asap for Python: the module `asap._asap`. The package `asap` next to it gives its functions their Python form.
//!
//! | module | contents |
//! |---|---|
//! | [`engine`] | the engine of a process, and how Python waits for it |
//! | [`functions`] | the SQL functions over Arrow data and lists |
//! | [`jobs`] | queries, runs, the `asap` command |
//! | [`reader`] | results as Arrow streams |
//! | [`values`] | Python values as arrays, and arrays as Python values |

mod engine;
mod functions;
mod jobs;
mod reader;
mod values;

/// As the program does: see its `main.rs`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pyo3::pymodule]
mod _asap {
    use asap_kernels::front_end;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::engine::{
        ArgumentError, BudgetError, Error, InputError, RejectsError, TableError, UnavailableError, before_fork,
    };
    #[pymodule_export]
    use crate::functions::{call, functions};
    #[pymodule_export]
    use crate::jobs::{
        fingerprint, flags, found_model, main, model_folder, pipeline, pipelines, prune, report, run, settings, sql,
        tensorboard_record, write_parquet,
    };
    #[pymodule_export]
    use crate::reader::{Column, Reader, all_rows, next_batch};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        front_end::set_python(true);
        // As PEP 440 writes the commit of `0.1.0 (a1b2c3d4e)`.
        module.add("__version__", asap_pipelines::VERSION.replace(" (", "+").trim_end_matches(')'))
    }
}
