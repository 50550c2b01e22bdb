//! How the slices under way end when a run is asked to stop.

use tokio::sync::watch;

/// Tells the operators of a run to finish early. Part of the session.
#[derive(Debug)]
pub struct Stopping(watch::Sender<Phase>);

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
    /// Reads no further row; rows that were read are finished.
    pub fn drain(&self) {
        self.0.send_replace(Phase::Draining);
    }

    /// Waits for no further row; rows that are finished are written.
    pub fn cut(&self) {
        self.0.send_replace(Phase::Cut);
    }

    /// Whether no further row is to be read.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow() >= Phase::Draining
    }

    /// Completes when no further row is waited for.
    pub async fn until_cut(&self) {
        // The sender is borrowed, so it is not dropped meanwhile.
        drop(self.0.subscribe().wait_for(|phase| *phase == Phase::Cut).await);
    }
}
