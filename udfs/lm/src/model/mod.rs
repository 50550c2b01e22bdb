//! A model on CPUs: the files of its folder, and the forward pass.
//!
//! | module | contains |
//! |---|---|
//! | [`config`], [`weights`] | the files of a model folder |
//! | [`decoder`], `pass`, `layer`, `rope` | the forward pass: a model, batches of chains, a layer, positions |
//! | `output` | the output layer at requested positions |

pub mod config;
pub mod decoder;
pub(crate) mod layer;
pub(crate) mod output;
pub(crate) mod pass;
pub(crate) mod rope;
pub mod weights;
