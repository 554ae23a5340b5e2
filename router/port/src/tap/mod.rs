//! TAP interfaces (Documentation/networking/tuntap.rst): Linux on one side, this process on the
//! other. What Linux sends out of the interface is received here, and what is transmitted here
//! Linux receives on the interface.

mod device;
mod queue;

pub use device::{Device, TapError};
pub use queue::{Queue, Writer};
