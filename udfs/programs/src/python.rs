//! The Python that runs programs, and what they may read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::SandboxError;

/// A Python of this machine.
pub(crate) struct Python {
    pub(crate) executable: PathBuf,
    /// The folders and files that it needs to start and to import: real paths that exist.
    pub(crate) readable: Vec<PathBuf>,
}

/// What a Python prints of itself.
#[derive(Deserialize)]
struct Printed {
    version: [u32; 3],
    executable: PathBuf,
    paths: BTreeSet<PathBuf>,
}

/// Never a whole prefix, which may be a project or `/usr`: the standard library, the packages, shared libraries next to
/// them, and single files. Folders that files `.pth` add are no part of an installation.
const QUERY: &str = "import json, os, site, sys, sysconfig
paths = [sysconfig.get_path('stdlib'), *site.getsitepackages(), sys.executable, os.path.join(sys.prefix, 'pyvenv.cfg')]
paths += [os.path.join(prefix, lib) for prefix in (sys.base_prefix, sys.base_exec_prefix) for lib in ('lib', 'lib64')]
print(json.dumps({'version': sys.version_info[:3], 'executable': sys.executable, 'paths': paths}))";
const OLDEST: [u32; 3] = [3, 9, 0];
/// What any Python needs of the system: shared libraries, time zones, and devices.
const OF_SYSTEM: &str = "/lib /lib64 /usr/lib /usr/lib64 /etc/ld.so.cache /etc/localtime /usr/share/zoneinfo \
    /dev/urandom /dev/zero /dev/null";
/// Stores of packages, each with its libraries in folders of the store. They are needed by a Python that lies in them.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

impl Python {
    /// Runs a Python outside of the sandbox to ask it for its paths: none of its code is from elsewhere.
    ///
    /// # Errors
    /// If it does not run or is too old.
    pub(crate) fn find(python: &str) -> Result<Self, SandboxError> {
        let failed = |problem: String| SandboxError::NoPython { python: python.to_string(), problem };
        let output =
            Command::new(python).args(["-I", "-c", QUERY]).output().map_err(|error| failed(error.to_string()))?;
        let complaint = || String::from_utf8_lossy(&output.stderr).trim().to_string();
        let found: Printed = serde_json::from_slice(&output.stdout)
            .map_err(|_| failed(format!("it ended with {}: {}", output.status, complaint())))?;
        if found.version < OLDEST {
            let [major, minor, patch] = found.version;
            let found = format!("{major}.{minor}.{patch}");
            return Err(SandboxError::OldPython { python: python.to_string(), found });
        }
        let paths = found.paths.into_iter().chain(OF_SYSTEM.split(' ').map(PathBuf::from));
        let mut readable: BTreeSet<PathBuf> = paths.filter_map(|path| fs::canonicalize(path).ok()).collect();
        let stores =
            STORES.iter().map(PathBuf::from).filter(|store| readable.iter().any(|path| path.starts_with(store)));
        readable.extend(stores.collect::<Vec<_>>());
        Ok(Self { executable: found.executable, readable: readable.into_iter().collect() })
    }
}

/// The path without links, also if its end does not exist yet.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut missing: Vec<&OsStr> = Vec::new();
    for folder in path.ancestors() {
        // The folder of a relative path of one name is the working folder.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if let Ok(folder) = fs::canonicalize(folder) {
            return folder.components().map(|part| part.as_os_str()).chain(missing.into_iter().rev()).collect();
        }
        missing.extend(folder.file_name());
    }
    path.to_path_buf()
}
