//! CPU-bound work, off the threads that serve the engine.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use asap_lm::ops::spawn_on_cores;
use tokio::sync::oneshot;

use asap_llm::flights::Interrupted;

/// Runs `work` on the thread pool with one thread per core. Work whose future is dropped before it starts does not
/// start.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Interrupted> {
    let (answer, answered) = oneshot::channel();
    spawn_on_cores(move || {
        if !answer.is_closed() {
            // A caller that stopped waiting needs no answer.
            drop(answer.send(catch_unwind(AssertUnwindSafe(work))));
        }
    });
    match answered.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_gives_what_it_gives_and_a_panic_stays_in_its_query() {
        assert_eq!(run(|| 2 + 2).await.unwrap(), 4);
        let panicking = run(|| -> () { panic!("a bug") });
        assert!(futures::FutureExt::catch_unwind(AssertUnwindSafe(panicking)).await.is_err());
        assert_eq!(run(|| 3).await.unwrap(), 3);
    }
}
