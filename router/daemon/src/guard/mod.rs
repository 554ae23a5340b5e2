//! What Linux must see itself, and why traffic is left to it.

pub(crate) mod flowtables;
pub(crate) mod followed_rules;
pub(crate) mod hooks;
pub(crate) mod minute;
pub(crate) mod own_flows;
pub(crate) mod rates;
mod trust;
