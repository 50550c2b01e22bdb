//! What an endpoint accepts of a request, learnt from its refusals.

pub mod form;
pub(crate) mod refusal;
