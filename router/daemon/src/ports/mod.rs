//! Ports: interfaces of Linux, most with Bora's program on them, and others with their twins.

mod find;
mod path;
mod port;
mod settings;
mod summary;

pub(crate) use find::{MAX_MTU, find, too_long};
pub(crate) use port::{Port, SocketState, Way};
pub(crate) use settings::{is_shaped, with_sysctls};
pub(crate) use summary::{mode_name, path_name};
