//! Asynchronous calls in all places of SQL, counted: a changed number here changes the cost for users.

mod counting;
mod operator;
mod refusals;
mod shapes;
