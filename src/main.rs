//! The command line of asap.

use std::process::ExitCode;

fn main() -> ExitCode {
    asap::cli::main()
}
