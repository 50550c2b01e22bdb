//! Graceful shutdown. SIGTERM, which schedulers send, and Ctrl-C mean the same.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::complain;

/// The exit code after a second signal, as if SIGINT had killed the process.
const KILLED: i32 = 130;

#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens for signals. Prints `doing` on the first one; a second one ends the process immediately.
    pub fn listen(doing: &'static str) -> Self {
        let (tell, told) = watch::channel(false);
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        // Without a handler, the signal just ends the process.
        if let (Ok(mut terminate), Ok(mut interrupt)) = signals {
            tokio::spawn(async move {
                let name = signalled(&mut terminate, &mut interrupt).await;
                complain(&format!("{name}: {doing}; a second signal ends the process immediately"));
                tell.send_replace(true);
                signalled(&mut terminate, &mut interrupt).await;
                std::process::exit(KILLED);
            });
        }
        Self(told)
    }

    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the process is asked to stop, or immediately if it already was.
    pub fn asked(&self) -> impl Future<Output = ()> + use<> {
        let mut told = self.0.clone();
        async move {
            if told.wait_for(|asked| *asked).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Runs `work`, unless Ctrl-C interrupts it: then it is dropped, so that no temporary file remains.
pub(crate) async fn unless_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(Failure::TryLater("interrupted".to_string())),
    }
}

async fn signalled(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "interrupted",
    }
}
