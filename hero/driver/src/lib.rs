//! Ports that are HERO cards (hero/README.md): NICs that forward by themselves the packets they
//! have a route for.
//!
//! Today they are simulated, four on a bus, by the library of hero/model. The driver knows only
//! registers and memory (`device`); the thread in `simulation` stands for the bus and the clock.

mod counters;
mod device;
mod driver;
mod link;
pub mod map;
mod model;
mod options;
#[cfg(test)]
mod plain;
mod port;
mod queue;
mod registers;
mod ring;
mod rules;
mod simulation;
mod wire;

pub use counters::CardStats;
pub use driver::DriverError;
pub use link::LinkState;
pub use model::{BAD_FCS, FAULTLESS, Host, Model, ModelError, NO_PAD, Sent};
pub use options::Options;
pub use port::{Config, OpenError, Port};
pub use registers::{CARDS, Counter, PEERS, aperture, card_of_peer};
pub use wire::{Wire, WireError, WireSpec};
