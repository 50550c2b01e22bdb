//! Environment variables that are not meant for asap.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::runs::place::{A, Place, Running};

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
    ("TIMEOUT", "no time"),
    ("CONNECT_TIMEOUT", "1ms"),
    ("SKIP_SIGNATURE", "true"),
    ("CONDITIONAL_PUT", "disabled"),
    ("VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
    ("METADATA_ENDPOINT", "http://127.0.0.1:9"),
];

/// A run, and a query over its input.
fn commands(place: &Place) -> [Command; 2] {
    let query = ["sql", "-q", "--from", "s3://lake/in", "-c", "SELECT count(*) FROM corpus"];
    [place.run_command(&[]), place.command(query)]
}

#[test]
fn variables_of_others_do_not_reach_the_store() {
    let place = Place::s3().with(&[A]);
    for mut command in commands(&place) {
        command.envs(FOREIGN);
        Running::start(command).finish().ok();
        place.holds(&[A]);
    }
}

#[test]
fn a_variable_that_is_no_text_is_no_panic() {
    let place = Place::s3().with(&[A]);
    for mut command in commands(&place) {
        command.env("LATIN", OsStr::from_bytes(b"M\xfcnchen")).env(OsStr::from_bytes(b"N\xe4me"), "x");
        Running::start(command).finish().ok();
        place.holds(&[A]);
    }
}

#[test]
fn a_variable_for_the_store_that_is_no_text_is_named() {
    let place = Place::s3().with(&[A]);
    for mut command in commands(&place) {
        command.env("AWS_SESSION_TOKEN", OsStr::from_bytes(b"geheim\xff"));
        let said = "error: the environment variable AWS_SESSION_TOKEN is not UTF-8";
        let refused = Running::start(command).finish().ends(2, &[said]);
        assert!(!refused.stderr.contains("geheim"), "{}", refused.stderr);
    }
}
