//! Serves folders as repositories of the Hugging Face Hub, prints the address, and ends with its standard input.
//!
//! ```bash
//! cargo run --package asap-test-support --example hub -- datasets/org/traces=data/sample models/org/small=data/model
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example may panic and print")]

use std::fs;
use std::io::Read;

use asap_test_support::hub::{Hub, Repository};

fn repository(given: String) -> Repository {
    let (name, folder) = given.leak().split_once('=').unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = files.map(|file| {
        let name: &'static str = file.file_name().into_string().unwrap().leak();
        (name, fs::read(file.path()).unwrap())
    });
    Repository::new(name, files)
}

fn main() {
    let hub = Hub::start(std::env::args().skip(1).map(repository).collect());
    println!("{}", hub.endpoint);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
