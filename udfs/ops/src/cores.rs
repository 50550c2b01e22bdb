//! The threads of all cores, also in a forked process, in which the threads of its parent do not exist.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The process whose threads are those of [`rayon`] itself.
static FIRST: OnceLock<u32> = OnceLock::new();
static OF_FORK: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Runs `work`, whose parallel iterators then use all cores of this process.
pub fn on_cores<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match of_fork() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Starts `work` on a core.
pub fn spawn_on_cores(work: impl FnOnce() + Send + 'static) {
    match of_fork() {
        Some(pool) => pool.spawn(work),
        None => rayon::spawn(work),
    }
}

/// Returns the threads of a forked process; None in the first process.
fn of_fork() -> Option<Arc<ThreadPool>> {
    let process = std::process::id();
    if *FIRST.get_or_init(|| process) == process {
        return None;
    }
    let mut held = OF_FORK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, pool)) = held.as_ref()
        && *of == process
    {
        return Some(Arc::clone(pool));
    }
    // A local language model waits for requests on one of them.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().ok()?);
    // A pool of the parent would wait for threads that do not exist.
    std::mem::forget(held.replace((process, Arc::clone(&pool))));
    Some(pool)
}
