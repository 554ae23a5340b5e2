//! DPDK's devices: their queues over Bora's packet memory, without copies. All that is unsafe about DPDK is
//! here and in `shim.c`.

mod c;
mod device;
mod eal;
mod error;
mod memory;
mod queue;
mod shared;

pub use device::{Config, Counters, Device};
pub use eal::version;
pub use error::Error;
pub use queue::{Lost, Queue};
pub use shared::Stats;
