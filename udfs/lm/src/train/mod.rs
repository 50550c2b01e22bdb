//! Training: gradients written by hand layer by layer, AdamW, and the schedule of its learning rate.

mod activations;
mod attention;
mod backward;
mod batch;
mod bpe;
mod fit;
mod folder;
mod gradient;
mod gradients;
mod keep;
mod loss;
mod measure;
mod optimizer;
pub mod random;
mod schedule;
#[cfg(test)]
mod tests;

pub use activations::Activations;
pub use batch::{Batch, Example};
pub use bpe::{END, SEPARATOR, START, train_tokenizer};
pub use fit::{FitConfig, Step, fit};
pub use folder::{Precision, write_configs, write_weights};
pub use gradient::Gradient;
pub use keep::{Keep, state_bytes};
pub use measure::{Measured, measure};
pub use optimizer::{AdamW, AdamWConfig};
pub use schedule::Schedule;
