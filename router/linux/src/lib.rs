//! What Linux is asked by system calls: network namespaces, interfaces, what drivers offer, and what to do about errors.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

mod advice;
pub mod attribute;
pub mod features;
pub mod interface;
pub mod iptables;
mod lock;
pub mod netns;
mod refusal;

pub use advice::{advice, in_user_namespace, no_rights};
pub use lock::lock;
pub use refusal::Refusal;
