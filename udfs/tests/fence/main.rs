//! Asynchronous calls wherever they stand in SQL, counted: what changes a number here changes what people pay.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod codecs;
mod counting;
mod operator;
mod refusals;
mod shapes;
