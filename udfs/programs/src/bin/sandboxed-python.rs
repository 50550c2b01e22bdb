//! What the hidden command of asap does, for the tests of this crate.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let error = asap_programs::enter(&arguments);
    // Without stderr there is no one to tell.
    drop(writeln!(std::io::stderr(), "{error}"));
    ExitCode::FAILURE
}
