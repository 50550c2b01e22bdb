//! Whether the process is asked to end. A command loads its models on the thread that would otherwise see the signal, so
//! what waits for another program there looks here.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Asks what waits to end, or takes this back.
pub fn set(is_asked: bool) {
    ASKED.store(is_asked, Ordering::SeqCst);
}

/// Whether the process is asked to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
