//! What tests of runs share: servers of objects, a proxy that misbehaves in front of it, and the check of a table.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod objects;
pub mod proxy;
pub mod s3;
pub mod table;
