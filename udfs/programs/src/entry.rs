use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What the child gets on its command line.
pub(crate) struct Entry {
    pub(crate) memory_bytes: u64,
    /// The size of the largest file.
    pub(crate) file_bytes: u64,
    /// Processor seconds. The parent ends the child earlier; this limit holds if the parent is gone.
    pub(crate) seconds: u64,
    /// The only folder that the program may write to.
    pub(crate) folder: PathBuf,
    pub(crate) python: PathBuf,
    /// The folders of this Python, which the program may read.
    pub(crate) readable: Vec<PathBuf>,
}

impl Entry {
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let numbers = [self.memory_bytes, self.file_bytes, self.seconds].map(|number| number.to_string().into());
        let paths = [&self.folder, &self.python].into_iter().chain(&self.readable);
        numbers.into_iter().chain(paths.map(|path| path.clone().into_os_string())).collect()
    }

    pub(crate) fn of(arguments: &[OsString]) -> Option<Self> {
        let number = |text: &OsStr| text.to_str()?.parse().ok();
        let [memory, file, seconds, folder, python, readable @ ..] = arguments else { return None };
        Some(Self {
            memory_bytes: number(memory)?,
            file_bytes: number(file)?,
            seconds: number(seconds)?,
            folder: folder.into(),
            python: python.into(),
            readable: readable.iter().map(PathBuf::from).collect(),
        })
    }
}
