//! Claims on requests that a process is about to pay for, so that no other process pays for the same ones.
//!
//! A claim locks one byte of a file in the answer cache, at an offset derived from the request. The kernel
//! releases the lock when the process ends, for any reason. Only local folders have such a file.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

use asap_llm::request::RequestKey;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// The file whose bytes are locked. Listings of answers skip it.
const NAME: &str = ".claims";

#[derive(Debug, Clone)]
pub(crate) struct Claims(Arc<File>);

#[derive(Debug)]
pub(super) struct Claim {
    file: Arc<File>,
    byte: i64,
}

impl Claims {
    /// Opens the claims in a folder, and creates the folder if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let file = File::options().create(true).truncate(false).read(true).write(true).open(folder.join(NAME))?;
        Ok(Self(Arc::new(file)))
    }

    pub(crate) fn claim(&self, key: &RequestKey) -> Result<Option<Claim>> {
        let byte = key.iter().take(8).fold(0, |byte: i64, part| byte << 8 | i64::from(*part)) & i64::MAX;
        // A lock must end before the maximum offset.
        let byte = byte.min(i64::MAX - 1);
        match set(&self.0, byte, libc::F_WRLCK) {
            Ok(()) => Ok(Some(Claim { file: Arc::clone(&self.0), byte })),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::PermissionDenied) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // If this fails, the lock ends with the process.
        set(&self.file, self.byte, libc::F_UNLCK).unwrap_or_default();
    }
}

fn set(file: &File, byte: i64, kind: impl Into<i64>) -> Result<()> {
    let lock = libc::flock {
        // The constants are c_int on Linux and c_short elsewhere.
        l_type: kind.into() as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // Locks of the open file description, so that two folders in one process behave like two processes.
    #[cfg(target_os = "linux")]
    let argument = FcntlArg::F_OFD_SETLK(&lock);
    #[cfg(not(target_os = "linux"))]
    let argument = FcntlArg::F_SETLK(&lock);
    fcntl(file, argument)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::answers::claims::*;

    #[test]
    fn a_request_is_claimed_once_until_the_claim_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (Claims::open(folder.path()).unwrap(), Claims::open(folder.path()).unwrap());
        for key in [[0; 32], [7; 32], [255; 32]] {
            let claim = one.claim(&key).unwrap();
            assert!(claim.is_some());
            assert!(other.claim(&key).unwrap().is_none());
            assert!(other.claim(&[9; 32]).unwrap().is_some());
            drop(claim);
            assert!(other.claim(&key).unwrap().is_some());
        }
    }
}
