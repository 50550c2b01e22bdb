//! Exact and precise numbers, within limits of work.

pub(crate) mod ball;
pub(crate) mod expression;
pub(crate) mod number;
pub(crate) mod rational;
pub(crate) mod work;
