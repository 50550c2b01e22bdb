//! Environment variables that are not meant for asap.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::runs::place::{File, Place, Running};

const A: File = ("a.parquet", 1..=7, "step");

/// Names set by continuous integration. In lower case they are settings of an S3 client.
const FOREIGN: [(&str, &str); 14] = [
    ("TOKEN", "of-another-service"),
    ("ENDPOINT", "http://127.0.0.1:9"),
    ("ENDPOINT_URL", "http://127.0.0.1:9"),
    ("REGION", "moon-1"),
    ("BUCKET", "another"),
    ("ACCESS_KEY_ID", "another"),
    ("SECRET_ACCESS_KEY", "another"),
    ("PROXY_URL", "http://127.0.0.1:9"),
    ("TIMEOUT", "1ms"),
    ("CONNECT_TIMEOUT", "1ms"),
    ("SKIP_SIGNATURE", "true"),
    ("CONDITIONAL_PUT", "disabled"),
    ("VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
    ("METADATA_ENDPOINT", "http://127.0.0.1:9"),
];

#[test]
fn variables_of_others_do_not_reach_the_store() {
    let place = Place::s3();
    place.put(A);
    let mut command = place.run_command(&[]);
    command.envs(FOREIGN);
    Running::start(command).finish().ok();
    place.holds(&[A]);
}

#[test]
fn a_variable_that_is_no_text_is_no_panic() {
    let place = Place::s3();
    place.put(A);
    let mut command = place.run_command(&[]);
    command.env("LATIN", OsStr::from_bytes(b"M\xfcnchen")).env(OsStr::from_bytes(b"N\xe4me"), "x");
    Running::start(command).finish().ok();
    place.holds(&[A]);
    let mut query = place.command(&["sql", "-q", "--from", "s3://lake/in", "-c", "SELECT count(*) FROM corpus"]);
    query.env("LATIN", OsStr::from_bytes(b"M\xfcnchen"));
    Running::start(query).finish().ok();
}

#[test]
fn a_variable_for_the_store_that_is_no_text_is_named() {
    let place = Place::s3();
    place.put(A);
    let mut command = place.run_command(&[]);
    command.env("AWS_REGION", OsStr::from_bytes(b"M\xfcnchen"));
    let refused = Running::start(command).finish();
    assert!([1, 2].contains(&refused.code), "{}: {}", refused.code, refused.stderr);
    assert!(refused.stderr.contains("AWS_REGION"), "{}", refused.stderr);
}
