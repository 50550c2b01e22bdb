//! Scores of chains by a backend.

pub(crate) mod counted;
pub(crate) mod loaded;
pub(crate) mod row;
pub(crate) mod scorer;
pub(crate) mod thread;
