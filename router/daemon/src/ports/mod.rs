//! Ports: interfaces of Linux, most with Bora's program on them, and others with their twins.

pub(crate) mod another;
pub(crate) mod features;
mod find;
pub(crate) mod link_loss;
pub(crate) mod lost_program;
mod path;
mod port;
mod settings;
mod summary;
pub(crate) mod table;
pub(crate) mod totals;
pub(crate) mod twin;

pub(crate) use find::{LongFrames, MAX_MTU, find, long_frames, too_long};
pub(crate) use port::{Port, SocketState, Way};
pub(crate) use settings::{is_shaped, with_sysctls};
pub(crate) use summary::{mode_name, path_name};
