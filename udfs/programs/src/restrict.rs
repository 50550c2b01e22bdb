//! Takes away the rights of this process.

use std::fmt::Display;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::error::SandboxError;
use crate::syscalls;

/// The latest version that is tested. Older kernels enforce the part that they know.
const LANDLOCK: ABI = ABI::V7;
const OPEN_FILES: u64 = 64;

/// Restricts this process and what it executes. Nothing can lift these restrictions. There is no folder to write to.
/// The limits are bytes of memory, bytes of the largest file, and processor seconds.
pub(crate) fn restrict(readable: &[PathBuf], limits: [u64; 3]) -> Result<(), SandboxError> {
    let status = landlock(readable).map_err(failed("Landlock"))?;
    if status == RulesetStatus::NotEnforced {
        return Err(SandboxError::NoLandlock);
    }
    // Root without its capabilities is bound by limits and permissions.
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(failed("capabilities"))?;
    // If asap is killed, so are its programs, unless a thread of the program has executed Python again: the kernel gives
    // threads no such signal. The limits still bind it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("the signal at the parent's end"))?;
    let filters = syscalls::filters().map_err(failed("seccomp"))?;
    limit(limits).map_err(failed("limits"))?;
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter)).map_err(failed("seccomp"))
}

fn failed<E: Display>(what: &'static str) -> impl Fn(E) -> SandboxError {
    move |problem| SandboxError::Restrict { what, problem: problem.to_string() }
}

fn landlock(readable: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let reading = AccessFs::from_read(LANDLOCK);
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .add_rules(path_beneath_rules(readable, reading))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::WriteFile))?
        .restrict_self()?;
    Ok(status.ruleset)
}

fn limit([memory_bytes, file_bytes, seconds]: [u64; 3]) -> rustix::io::Result<()> {
    let limits = [
        (Resource::Core, 0),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Fsize, file_bytes),
        (Resource::Cpu, seconds),
        (Resource::As, memory_bytes),
    ];
    limits.into_iter().try_for_each(|(resource, most)| {
        // A limit that is lower already cannot be raised.
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
    })
}
