mod documentation;
mod goldens;
mod physical_types;
mod preflight;
mod remembered;
mod scored;
pub(super) mod session;
