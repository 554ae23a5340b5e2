//! The other end of the wire: sends numbered packets and checks what arrives.
//!
//! Frames are written by [`generate`] and judged by [`analyse`], over any queue of `bora_port`;
//! [`live`] does both in the kernel.
#![deny(unsafe_code)]

pub mod analyse;
mod arrived;
pub mod check;
pub mod clock;
pub mod findings;
pub mod flow;
pub mod frame;
pub mod generate;
pub mod link;
pub mod live;
pub mod ports;
pub mod rate;
pub mod report;
pub mod result;
pub mod schedule;
pub mod signature;
#[cfg(test)]
mod test_traffic;
pub mod traffic;
pub mod trial;
mod window;
