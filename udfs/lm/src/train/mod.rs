//! Training: gradients written by hand layer by layer, AdamW, and the schedule of its learning rate.

mod attention;
mod batch;
mod bpe;
mod fit;
mod folder;
mod gradients;
mod layer;
mod loss;
mod measure;
mod optimizer;
pub mod random;
mod schedule;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Example, gradient};
pub use bpe::{END, SEPARATOR, START, train_tokenizer};
pub use fit::{FitConfig, Step, fit};
pub use folder::{Precision, write_configs, write_weights};
pub use measure::{Measured, measure};
pub use optimizer::{AdamW, AdamWConfig, Gradient};
pub use schedule::Schedule;
