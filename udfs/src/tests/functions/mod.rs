mod documentation;
mod goldens;
mod physical_types;
mod preflight;
mod ranks;
mod remembered;
mod scored;
pub(crate) mod session;
