//! What a device and its queues share, and the device's end.

use std::collections::BTreeSet;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use bora_buffer::{Frame, SharedFrames};
use bora_linux::lock;

use crate::c;
use crate::eal::check;
use crate::error::{Error, Why};
use crate::memory::Memory;

/// The numbers of devices that have a port.
pub(crate) static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A device's counters since it was opened, packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Lost because the receive ring was full.
    pub missed: u64,
    /// Received with an error, and dropped by the device.
    pub rx_errors: u64,
    /// Times that there was no mbuf to receive into.
    pub no_mbuf: u64,
    /// Not sent, as the driver counts: some count every attempt.
    pub tx_errors: u64,
}

/// What a device and its queues share. Dropping it stops the device.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) port: u16,
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) is_virtual: bool,
    pub(crate) memory: Memory,
    /// Queues of shim.c. They are freed once the device has no mbuf any more.
    pub(crate) queues: Mutex<Vec<Raw>>,
    /// One caller at a time for what is not in the way of packets.
    pub(crate) control: Mutex<()>,
    pub(crate) before: Stats,
    pub(crate) is_closing: AtomicBool,
    /// Frames of queues that are gone, which the device may still use, and where they go after that.
    pub(crate) left: Mutex<Vec<Frame>>,
    pub(crate) home: SharedFrames,
}

/// A queue of shim.c.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw(pub(crate) NonNull<c::Queue>);

// SAFETY: a queue is bound to no thread. Its one user at a time is a `Queue`, and after that `Inner`'s drop.
unsafe impl Send for Raw {}

impl Inner {
    pub(crate) fn refused(&self, step: impl fmt::Display, why: Why) -> Error {
        Error::Refused {
            device: self.name.clone(),
            driver: self.driver.clone(),
            step: step.to_string(),
            why,
        }
    }

    pub(crate) fn set_mac(&self, mac: [u8; 6]) -> Result<(), Error> {
        if self.is_virtual {
            return Ok(());
        }
        let _turn = lock(&self.control);
        // SAFETY: six octets; the port is ours.
        check(unsafe { c::bora_dpdk_set_mac(self.port, &raw const mac) })
            .map_err(|why| self.refused("the Ethernet address", why))
    }

    pub(crate) fn stats(&self) -> Stats {
        let _turn = lock(&self.control);
        let mut stats = c::Stats::default();
        // SAFETY: a place for the answer; the port is ours. An error leaves zeros.
        unsafe { c::bora_dpdk_stats(self.port, &raw mut stats) };
        Stats {
            received: stats.received,
            sent: stats.sent,
            missed: stats.missed,
            rx_errors: stats.rx_errors,
            no_mbuf: stats.no_mbuf,
            tx_errors: stats.tx_errors,
        }
    }

    /// Takes frames of a queue that goes.
    pub(crate) fn leave(&self, frames: impl Iterator<Item = Frame>) {
        lock(&self.left).extend(frames);
    }
}

impl Stats {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            missed: self.missed.saturating_sub(before.missed),
            rx_errors: self.rx_errors.saturating_sub(before.rx_errors),
            no_mbuf: self.no_mbuf.saturating_sub(before.no_mbuf),
            tx_errors: self.tx_errors.saturating_sub(before.tx_errors),
        }
    }
}

impl Drop for Inner {
    /// No queue is left, so nobody calls the device.
    fn drop(&mut self) {
        // SAFETY: the port is ours.
        unsafe { c::bora_dpdk_stop(self.port) };
        self.memory.unmap();
        // SAFETY: the port is ours.
        if let Err(why) = check(unsafe { c::bora_dpdk_close(self.port) }) {
            log::error!("DPDK's device {} does not stop: {why}", self.name);
            // it may still write to its frames: they are lost, and their memory stays
            std::mem::forget(self.memory.region.clone());
            return;
        }
        for Raw(queue) in lock(&self.queues).drain(..) {
            // SAFETY: made by bora_dpdk_queue_new, freed once, and the device has none of its mbufs.
            unsafe { c::bora_dpdk_queue_free(queue.as_ptr()) };
        }
        let home = self.home.clone();
        lock(&self.left)
            .drain(..)
            .for_each(|frame| home.give(frame));
        lock(&TAKEN).remove(&self.port);
    }
}
