//! Training: manual backward passes per layer, AdamW, and the learning rate schedule.

mod activations;
mod backward;
mod batch;
mod bpe;
mod flops;
mod folder;
mod gradient;
mod keep;
mod loss;
mod measure;
mod optimizer;
pub mod random;
mod schedule;
mod stored;
#[cfg(test)]
mod tests;
mod trainer;

pub use crate::text::example::Example;
pub use activations::Activations;
pub use batch::Batch;
pub use bpe::{END, SEPARATOR, START, train_tokenizer};
pub use flops::peak_flops;
pub use folder::write_configs;
pub use gradient::Gradient;
pub use keep::{Keep, state_bytes};
pub use measure::{Measured, measure};
pub use optimizer::{AdamW, AdamWConfig};
pub use schedule::Schedule;
pub use stored::{Precision, write_weights};
pub use trainer::{Trainer, TrainerConfig, TrainingStep};
