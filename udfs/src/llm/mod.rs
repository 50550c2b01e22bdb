//! Where direct thoughts and coarse prunings come from.

pub mod extractive;
