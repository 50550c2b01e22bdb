//! What tests of runs share: servers of objects, a proxy that misbehaves in front of it, and the check of a table.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod objects;
pub(crate) mod proxy;
pub(crate) mod s3;
pub(crate) mod table;
