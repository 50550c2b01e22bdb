//! The command line of asap.

use std::process::ExitCode;

/// Scoring allocates and frees large buffers all the time; the system's allocator gives them back to the kernel each time
/// and has them cleared again, which costs a fifth of a run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    asap::cli::main()
}
