//! Graceful shutdown. SIGTERM, which schedulers send, and Ctrl-C mean the same.

use asap_udfs::interrupt;
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
        let (ask, asked) = watch::channel(false);
        // Without a handler, the signal just ends the process.
        if let Ok(mut signals) = Signals::new() {
            tokio::spawn(async move {
                let name = signals.next().await;
                complain(&format!("{name}: {doing}; a second signal ends the process immediately"));
                ask.send_replace(true);
                interrupt::set(true);
                signals.next().await;
                std::process::exit(KILLED);
            });
        }
        Self(asked)
    }

    /// Stops when `asked` becomes true, for a caller that has its own signals.
    pub fn by(asked: watch::Receiver<bool>) -> Self {
        Self(asked)
    }

    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the process is asked to stop, or immediately if it already was.
    pub fn asked(&self) -> impl Future<Output = ()> + use<> {
        let mut asked = self.0.clone();
        async move {
            if asked.wait_for(|asked| *asked).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Runs `work`, unless a signal interrupts it: then it is dropped, so that no temporary file remains.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let (mut first, mut second) = (Signals::new()?, Signals::new()?);
    // Work that loads a model blocks this task.
    let listening = tokio::spawn(async move {
        first.next().await;
        interrupt::set(true);
    });
    let done = tokio::select! {
        done = work => done,
        name = second.next() => Err(Failure::TryLater(name.to_string())),
    };
    listening.abort();
    interrupt::set(false);
    done
}

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal. Returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "interrupted",
        }
    }
}
