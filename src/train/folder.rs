//! The folder of a new model: it appears under its name when it is whole.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder that is filled under another name beside the one that it will have, and removed if it is not kept.
#[derive(Debug)]
pub struct NewFolder {
    name: PathBuf,
    work: PathBuf,
    is_kept: bool,
}

impl NewFolder {
    /// Makes the folder `<name>.partial`; one that an interrupted run left is made anew.
    ///
    /// # Errors
    /// If something has the name already, or nothing can be made there.
    pub fn make(name: &Path) -> Result<Self, Failure> {
        if name.exists() {
            let name = name.display();
            return Err(Failure::Usage(format!("{name} exists; name a new folder for the model, or remove it")));
        }
        let mut partial = OsString::from(name.components().as_path());
        partial.push(".partial");
        let work = PathBuf::from(partial);
        let failed = |error: std::io::Error| Failure::Failed(format!("cannot write to {}: {error}", work.display()));
        if work.exists() {
            std::fs::remove_dir_all(&work).map_err(failed)?;
        }
        std::fs::create_dir_all(&work).map_err(failed)?;
        Ok(Self { name: name.to_path_buf(), work, is_kept: false })
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.work
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn keep(mut self) -> Result<(), Failure> {
        let name = self.name.display();
        std::fs::rename(&self.work, &self.name)
            .map_err(|error| Failure::Failed(format!("cannot rename {} to {name}: {error}", self.work.display())))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is made anew by the next run.
            let _ = std::fs::remove_dir_all(&self.work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appears_when_it_is_kept_and_leaves_nothing_when_it_is_not() {
        let parent = tempfile::TempDir::new().unwrap();
        let name = parent.path().join("model");
        let folder = NewFolder::make(&name).unwrap();
        std::fs::write(folder.path().join("file"), "half").unwrap();
        drop(folder);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);

        std::fs::create_dir(parent.path().join("model.partial")).unwrap();
        std::fs::write(parent.path().join("model.partial/old"), "old").unwrap();
        let folder = NewFolder::make(&name).unwrap();
        std::fs::write(folder.path().join("file"), "whole").unwrap();
        assert!(!name.exists());
        folder.keep().unwrap();
        assert_eq!(std::fs::read_dir(&name).unwrap().count(), 1);
        assert!(matches!(NewFolder::make(&name), Err(Failure::Usage(message)) if message.contains("exists")));
    }
}
