//! Being asked to end: SIGTERM, as schedulers send it, and Ctrl-C mean the same.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::output::complain;

/// The exit code of a process that was asked twice: that of one that SIGINT killed.
const KILLED: i32 = 130;

/// Completes when the process is asked to end, from now on. Asked once more, it ends at once.
pub fn stop() -> impl Future<Output = ()> {
    let (tell, told) = oneshot::channel();
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    // Without a handler the process is simply ended by the signal.
    if let (Ok(mut terminate), Ok(mut interrupt)) = signals {
        tokio::spawn(async move {
            let name = asked(&mut terminate, &mut interrupt).await;
            complain(&format!("{name}: committing what is finished; once more ends at once"));
            // Nobody listens when the work is over.
            let _ = tell.send(());
            asked(&mut terminate, &mut interrupt).await;
            std::process::exit(KILLED);
        });
    }
    async move {
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What the process was asked by.
async fn asked(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "interrupted",
    }
}
