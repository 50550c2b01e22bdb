use std::process::ExitCode;

/// Scoring allocates and frees large buffers constantly. The system allocator returns each one to the kernel, which
/// clears it again: this costs a fifth of a run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    asap::cli::main()
}
