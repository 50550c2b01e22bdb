//! What tests of runs share: an S3 server on a folder, a proxy that misbehaves in front of it, and the check of a table.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod proxy;
pub mod s3;
pub mod table;
