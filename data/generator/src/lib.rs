//! Generates a corpus of traces in which every step is labelled. The same seed gives the same corpus on any machine.
//!
//! A problem is a sequence of derivations that leads to an answer. A trace makes them in order. Between them it checks
//! earlier results, follows dead ends and gives them up, and thinks aloud. Labels depend on which step uses the results
//! of which other step. The words of all labels are drawn from the same pools.
//!
//! Another family, [`totals`], has short sums that a small model learns from scratch.

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
mod totals;
mod trace;
mod voice;
mod work;

pub use cues::{Cue, LEAST_SUPPORT, Labelled, MOST_PRECISION, cues};
pub use functions::Function;
pub use judge::{Judged, answer_place, judge};
pub use problems::Family;
pub use rows::{Generation, Openers, SampleRow, rows};
pub use shapes::{SampleError, generate, generate_sums};
pub use totals::{Total, totals};
pub use trace::{Label, Step};
