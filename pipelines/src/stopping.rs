//! How running slices end when a run is asked to stop.

use tokio::sync::watch;

/// Signals the operators of a run to finish early. A session extension.
#[derive(Debug)]
pub(crate) struct Stopping(watch::Sender<Phase>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    Draining,
    Cut,
}

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Running))
    }
}

impl Stopping {
    pub(crate) fn drain(&self) {
        self.0.send_replace(Phase::Draining);
    }

    pub(crate) fn cut(&self) {
        self.0.send_replace(Phase::Cut);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.borrow() >= Phase::Draining
    }

    pub(crate) async fn until_cut(&self) {
        // The sender is borrowed, so it cannot be dropped during the wait.
        drop(self.0.subscribe().wait_for(|phase| *phase == Phase::Cut).await);
    }
}
