//! HERO cards (hero/README.md): NICs that forward by themselves what they have a route for.
//!
//! Today they are simulated, four on a bus, by the library of hero/model. The driver knows only
//! registers and memory (`device`); the thread in `simulation` is in the place of the bus and
//! of time.

mod counters;
mod device;
mod driver;
mod map;
mod model;
#[cfg(test)]
mod plain;
mod port;
mod queue;
mod registers;
mod ring;
mod rules;
mod simulation;
mod wire;

pub use counters::{CardStats, Load, StatsReader};
pub use driver::DriverError;
pub use model::{BAD_FCS, Model, ModelError, NO_PAD, Sent};
pub use port::{Config, LinkState, OpenError, Port};
pub use queue::Queue;
pub use registers::{CARDS, Counter};
pub use rules::Route;
pub use wire::{Wire, WireError, WireSpec};
