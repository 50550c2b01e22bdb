//! Being asked to end: SIGTERM, as schedulers send it, and Ctrl-C mean the same.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::complain;

/// The exit code of a process that was asked twice: that of one that SIGINT killed.
const KILLED: i32 = 130;

/// Whether the process was asked to end.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on, and says `doing` when it hears. A process that is asked once more ends at once.
    pub fn listen(doing: &'static str) -> Self {
        let (tell, told) = watch::channel(false);
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        // Without a handler the process is simply ended by the signal.
        if let (Ok(mut terminate), Ok(mut interrupt)) = signals {
            tokio::spawn(async move {
                let name = signalled(&mut terminate, &mut interrupt).await;
                complain(&format!("{name}: {doing}; once more ends at once"));
                tell.send_replace(true);
                signalled(&mut terminate, &mut interrupt).await;
                std::process::exit(KILLED);
            });
        }
        Self(told)
    }

    /// Whether the process was asked to end.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the process is asked to end, or at once if it was.
    pub fn asked(&self) -> impl Future<Output = ()> + use<> {
        let mut told = self.0.clone();
        async move {
            if told.wait_for(|asked| *asked).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// What `work` gives, unless the process is interrupted before: then it ends in order, and leaves no temporary file.
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
