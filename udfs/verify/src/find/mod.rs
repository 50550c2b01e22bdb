//! Finds the answer in a response.

pub(crate) mod alone;
pub(crate) mod asked;
pub(crate) mod boxes;
pub(crate) mod choices;
pub(crate) mod clauses;
pub(crate) mod extract;
pub(crate) mod markdown;
pub(crate) mod stated;
