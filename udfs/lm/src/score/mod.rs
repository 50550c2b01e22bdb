//! Scores of chains by a backend.
//!
//! | module | contains |
//! |---|---|
//! | `scorer` | chains to requests, and results to scores per step |
//! | `row` | a chain as token ids, with the positions to score |
//! | `thread` | the thread of a model: packs rows of all callers into batches |
//! | `loaded` | the CPU as a backend; loads a model and starts its thread |
//! | `counted` | a backend that only counts the tokens it would read |

pub(crate) mod counted;
pub(crate) mod loaded;
pub(crate) mod row;
pub(crate) mod scorer;
pub(crate) mod thread;
