//! A model on CPUs: the files of its folder, and the forward pass.

pub mod config;
pub mod decoder;
pub(crate) mod layer;
pub(crate) mod output;
pub(crate) mod pass;
pub(crate) mod rope;
pub mod weights;
