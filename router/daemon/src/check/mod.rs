//! `bora check`: what can be found out before a start.

pub(crate) mod machine;
pub(crate) mod probe;
