//! A port as its opener sees it: its options, and its control side. Packets go by its [`Queue`]s.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use bora_buffer::{Region, SharedFrames};

use crate::Queue;
use crate::offload::Offload;

/// Why a port cannot be opened.
pub type OpenError = Box<dyn std::error::Error + Send + Sync>;

/// What a port of one kind is, as a configuration file says, and how it is opened. It shows as what
/// is behind the port, for people: `memif client at /run/vpp/memif.sock, id 0`.
pub trait Options: Debug + Display {
    /// The name of a port that is given none.
    fn default_name(&self) -> String;

    /// What the types do not say: ranges, and what options say about each other. `name` is the
    /// port's.
    ///
    /// # Errors
    /// The first option that is wrong, and what is wrong with it.
    fn check(&self, name: &str) -> Result<(), (&'static str, String)> {
        let _ = name;
        Ok(())
    }

    /// Packets that its rings hold in both directions, all queues together.
    fn ring_slots(&self) -> u32 {
        512
    }

    /// Octets of a packet that its frames must have room for, whatever the MTU.
    fn room(&self) -> u32 {
        0
    }

    /// Its Ethernet address, where it has one before it is opened.
    ///
    /// # Errors
    /// It cannot be asked for.
    fn mac(&self) -> Result<Option<[u8; 6]>, OpenError> {
        Ok(None)
    }

    /// Whether packets may come with checksums left to the receiver.
    fn leaves_checksums(&self) -> bool {
        false
    }

    /// Opens it and returns its queues.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError>;
}

/// What a port is given when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Its name; a peer may see it.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Where its packets are.
    pub region: &'a Arc<Region>,
    /// The free frames there.
    pub frames: &'a SharedFrames,
}

/// The control side of an open port.
pub trait Port: Debug + Send {
    /// Whether packets can pass, as far as that shows.
    fn is_up(&self) -> bool;

    /// Its state in words, where there is more to say than that.
    fn state(&self) -> Option<String> {
        None
    }

    /// Takes note that its Ethernet address is another.
    fn set_mac(&self, mac: [u8; 6]) {
        let _ = mac;
    }

    /// What it counts by itself, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// How it is told what to forward by itself, if it can.
    fn offload(&self) -> Option<&dyn Offload> {
        None
    }

    /// Takes the link down, so that nothing comes in any more. Its queues are closed afterwards.
    fn close(self: Box<Self>) {}
}
