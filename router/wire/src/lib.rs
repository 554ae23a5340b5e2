//! What a packet looks like: the headers Bora reads and writes.
//!
//! One protocol, one file, always in the same order: the offsets of the fields; a view over the
//! bytes (`Frame`, `Packet`) that reads and writes fields in place; a `Repr` that writes a header
//! from values; and tests on literal bytes. ARP and neighbour discovery, which are read whole or
//! not at all, have a `Repr` that parses too, and no view. [`udp::Frame`] writes all headers of a
//! UDP packet at once.
//!
//! - `new_checked` is the gate. It refuses, with a named [`Error`], every buffer whose header or
//!   length fields cannot be right, so that everything asked afterwards is inside the buffer.
//! - `new_unchecked` is for buffers about to be filled and for packets that were checked before.
//!   It is safe: a field outside the buffer reads as zero, and a write outside is lost. Nothing
//!   here panics, whatever the bytes.
//! - Offsets and lengths are in bytes and integers in host order, unless a name says otherwise.
//!
//! ```
//! use bora_wire::{ethernet, ipv4, EtherType};
//!
//! fn ttl(frame: &[u8]) -> Result<Option<u8>, bora_wire::Error> {
//!     let frame = ethernet::Frame::new_checked(frame)?;
//!     if frame.ethertype() != EtherType::IPV4 {
//!         return Ok(None);
//!     }
//!     let packet = ipv4::Packet::new_checked(frame.payload())?;
//!     packet.verify_checksum()?;
//!     Ok(Some(packet.ttl()))
//! }
//! assert!(ttl(&[0; 13]).is_err());
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod error;
mod field;

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ndisc;
pub mod udp;
pub mod vlan;

pub use error::Error;
pub use ethernet::{EtherType, MacAddr};
pub use ip::Protocol;
