//! Asynchronous calls wherever they stand in SQL, counted: what changes a number here changes what people pay.

mod counting;
mod operator;
mod refusals;
mod shapes;
