//! Helpers of the run tests: object servers, a proxy that injects faults, and the check of a table.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod objects;
pub(crate) mod proxy;
pub(crate) mod s3;
pub(crate) mod table;
