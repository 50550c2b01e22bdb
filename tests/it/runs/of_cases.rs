//! The modules of this folder that cases use.

pub(crate) mod delta_table;
pub(crate) mod place;
