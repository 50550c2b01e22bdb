//! A corpus of generated traces whose every step is labelled, the same for the same seed on any machine.
//!
//! A problem is a line of derivations that leads to an answer. A trace makes them in order, and between them checks
//! what it has, follows wrong ways and gives them up, and thinks aloud. What sets the labels apart is which step uses
//! what from which other; the words are drawn from the same pools for all.

mod cues;
mod dice;
mod functions;
mod judge;
mod problems;
mod quantities;
mod real;
mod rows;
mod shapes;
mod sums;
#[cfg(test)]
mod testing;
mod trace;
mod voice;
mod work;

pub use cues::{Cue, LEAST_SUPPORT, Labelled, MOST_PRECISION, cues};
pub use functions::Function;
pub use judge::{Judged, answer_place, judge};
pub use problems::Family;
pub use rows::{Generation, Openers, SampleRow, rows};
pub use shapes::{SampleError, generate};
pub use trace::{Label, Step};
