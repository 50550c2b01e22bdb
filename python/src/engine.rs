//! The engine of a process: it opens on first use, and a forked process opens its own.

use std::sync::Arc;
use std::time::Duration;

use asap::cli;
use asap::config::{self, SettingArgs};
use asap::failure::Failure;
use asap_llm::Llm;
use asap_pipelines::answers::SharedAnswers;
use asap_udfs::{Models, Settings};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

macro_rules! errors {
    ($($name:ident, $base:ty, $doc:literal;)+) => { $(pyo3::create_exception!(asap, $name, $base, $doc);)+ };
}

errors! {
    Error, PyException, "A failure of asap. Its subclasses say what kind of failure.";
    ArgumentError, Error, "An argument or a setting is wrong.";
    BudgetError, Error, "A limit on calls or on their cost is spent. `calls` is the number of calls that were sent.";
    InputError, Error, "The data cannot be read, or a query or a pipeline is wrong.";
    RejectsError, Error, "More rows were rejected than the run allows.";
    TableError, Error, "Another process changed the output meanwhile. Repeat the call if you still want its rows.";
    UnavailableError, Error, "An endpoint, a store or a backend does not answer now. Repeat the call later.";
}

/// How often Python looks for signals while it waits.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// How long a fork waits for work that was abandoned.
const LAST: Duration = Duration::from_secs(10);

pub(crate) struct Engine {
    pub runtime: Runtime,
    pub models: Models,
    /// The session of functions, for the settings of the last call.
    session: Mutex<Option<(Settings, Session)>>,
}

#[derive(Clone)]
pub(crate) struct Session {
    pub context: SessionContext,
    pub llm: Llm,
}

/// The engine, with the process that opened it. Only threads that hold the GIL lock it, so no other thread does while a
/// process forks.
static ENGINE: Mutex<Option<(u32, Arc<Engine>)>> = Mutex::new(None);

/// Returns the engine of this process.
pub(crate) fn engine(_: Python<'_>) -> PyResult<Arc<Engine>> {
    let mut opened = ENGINE.lock();
    let process = std::process::id();
    if let Some((of, engine)) = opened.as_ref()
        && *of == process
    {
        return Ok(Arc::clone(engine));
    }
    // This process is the first one of the cores, unless a parent is.
    asap_lm::ops::on_cores(|| ());
    cli::log_warnings();
    let engine = Engine { runtime: cli::runtime()?, models: Models::default(), session: Mutex::new(None) };
    let engine = Arc::new(engine);
    // The threads of the parent process do not exist here, so its engine would wait for them forever.
    std::mem::forget(opened.replace((process, Arc::clone(&engine))));
    Ok(engine)
}

/// Close the engine before this process forks. Threads that wait for a lock would stay in tables of the forked process,
/// where they do not exist.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    let opened = ENGINE.lock().take().filter(|(of, _)| *of == std::process::id());
    if let Some(Engine { runtime, models, session }) = opened.and_then(|(_, engine)| Arc::into_inner(engine)) {
        py.detach(|| {
            drop((session, models));
            runtime.shutdown_timeout(LAST);
        });
    }
}

impl Engine {
    /// Returns a session for functions. It is kept until a call has other settings.
    pub(crate) fn session(&self, settings: Settings) -> Result<Session, Failure> {
        let mut held = self.session.lock();
        if let Some((of, session)) = held.as_ref()
            && *of == settings
        {
            return Ok(session.clone());
        }
        let session = self.new_session(settings.clone())?;
        // Results are in the order of the rows.
        let state = session.context.state_ref();
        state.write().config_mut().options_mut().optimizer.enable_round_robin_repartition = false;
        *held = Some((settings, session.clone()));
        Ok(session)
    }

    /// Returns a session for a batch of rows. Limits on calls hold for all batches with these settings.
    pub(crate) fn session_of_batch(&self, settings: Settings) -> Result<Session, Failure> {
        let llm = self.session(settings.clone())?.llm;
        let _entered = self.runtime.enter();
        let context = asap_pipelines::named_tables::session(settings, &llm, &self.models)?;
        Ok(Session { context, llm })
    }

    /// Returns a session for a query.
    pub(crate) fn new_session(&self, settings: Settings) -> Result<Session, Failure> {
        let _entered = self.runtime.enter();
        let llm = Llm::new(Some(Arc::new(SharedAnswers::new(&settings))));
        let context = asap_pipelines::named_tables::session(settings, &llm, &self.models)?;
        Ok(Session { context, llm })
    }
}

impl Session {
    /// Waits for the answers to sent calls, which are paid. Fails if the endpoint is down.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        self.llm.drained().await;
        self.llm.failure().map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Reads settings by their names with underscores, such as `refine_max_tokens`, on top of file and environment.
pub(crate) fn settings_of(given: Vec<(String, String)>) -> PyResult<Settings> {
    let (mut args, mut config) = (Vec::new(), None);
    for (name, value) in given {
        match name.as_str() {
            "config" => config = Some(value.into()),
            _ => args.push(format!("{}={value}", key_of(&name)?)),
        }
    }
    config::load(&SettingArgs { set: args, config }).map_err(failed)
}

/// Returns the key of a setting, such as `asap.refine.max_tokens`. The package checks the names that its users write.
pub(crate) fn key_of(name: &str) -> PyResult<String> {
    let key = Settings::KEYS.iter().find(|key| key.replace('.', "_") == name);
    key.map(|key| format!("asap.{key}")).ok_or_else(|| ArgumentError::new_err(format!("there is no setting {name}")))
}

/// A failure in Python.
pub(crate) fn failed(failure: Failure) -> PyErr {
    match failure {
        Failure::Usage(message) => ArgumentError::new_err(message),
        Failure::Refused(message) | Failure::FileFailed(message) => InputError::new_err(message),
        Failure::Failed(message) => Error::new_err(message),
        Failure::BudgetSpent { message, calls } => budget_is_spent(message, calls),
        Failure::TooManyRejects(message) => RejectsError::new_err(message),
        Failure::OtherRun(message) | Failure::Conflict(message) => TableError::new_err(message),
        Failure::TryLater(message) | Failure::Stopped(message) => UnavailableError::new_err(message),
        Failure::ReaderGone => Error::new_err("the reader of the result closed it"),
    }
}

fn budget_is_spent(message: String, calls: u64) -> PyErr {
    let error = BudgetError::new_err(message);
    Python::attach(|py| error.value(py).setattr("calls", calls)).map_or_else(|failed| failed, |()| error)
}

/// Waits for `work` without the GIL. Ctrl-C drops it.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    engine: &Engine,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> PyResult<T> {
    let mut task = engine.runtime.spawn(work);
    loop {
        if let Some(done) = wait_a_tick(py, engine, &mut task) {
            return done;
        }
        if let Err(interrupt) = py.check_signals() {
            task.abort();
            return Err(interrupt);
        }
    }
}

/// Waits for a task until the next look for signals.
pub(crate) fn wait_a_tick<T: Send + 'static>(
    py: Python<'_>,
    engine: &Engine,
    task: &mut JoinHandle<Result<T, Failure>>,
) -> Option<PyResult<T>> {
    let tick = || engine.runtime.block_on(async { tokio::time::timeout(TICK, task).await });
    match py.detach(tick).ok()? {
        Ok(done) => Some(done.map_err(failed)),
        Err(_) => Some(Err(Error::new_err("the work panicked; see the message above"))),
    }
}
