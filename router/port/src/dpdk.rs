//! DPDK's devices as ports; `router/dpdk` drives them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bora_buffer::{Packet, Pool, SharedFrames};
use bora_contract::Reason;
use bora_dpdk::{Config, Counters, Device};

use crate::closing::Closing;
use crate::port::{OpenError, Port, Setup};
use crate::port_queue::PortQueue;
use crate::queue::Queue;
use crate::tally::{QueueStats, ReadStats, StatsReader, Tally};
use bora_linux::interface::Interface;

/// Longest packet where no interface of Linux says, octets without Ethernet header.
const MTU: u16 = 1500;

/// The MTU of the interface that stands for a port, where there is one.
pub(crate) fn mtu_of(name: &str) -> io::Result<u16> {
    let interface = Interface::named(name)?;
    let mtu = interface.map(|interface| interface.mtu.min(u16::MAX.into()) as u16);
    Ok(mtu.unwrap_or(MTU))
}

/// Opens a device as a port.
pub(crate) fn open(
    config: &Config<'_>,
    setup: &Setup<'_>,
) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
    let (device, queues) = Device::open(config, setup.region, setup.frames)?;
    let has_link = Arc::new(AtomicBool::new(device.link().is_some()));
    // the device counts for all its queues; the first one tells
    let mut counters = Some(device.counters());
    let queues = queues.into_iter().map(|queue| {
        Queue::other(DpdkQueue {
            queue,
            has_link: has_link.clone(),
            tally: Arc::default(),
            counters: counters.take(),
        })
    });
    let queues = queues.collect();
    Ok((Box::new(DpdkPort { device, has_link }), queues))
}

/// The control side.
#[derive(Debug)]
struct DpdkPort {
    device: Device,
    has_link: Arc<AtomicBool>,
}

impl Port for DpdkPort {
    fn is_up(&self) -> bool {
        let is_up = self.device.link().is_some();
        self.has_link.store(is_up, Relaxed);
        is_up
    }

    fn state(&self) -> Option<String> {
        let driver = self.device.driver();
        Some(match self.device.link() {
            None => format!("{driver}, no link"),
            Some(None) => format!("{driver}, link"),
            Some(Some(speed)) => format!("{driver}, link, {speed} Mbit/s"),
        })
    }

    fn set_mac(&self, mac: [u8; 6]) {
        if let Err(error) = self.device.set_mac(mac) {
            log::warn!("{error}");
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let stats = self.device.counters().read();
        vec![
            ("received", stats.received),
            ("sent", stats.sent),
            ("missed", stats.missed),
            ("rx_errors", stats.rx_errors),
            ("no_mbuf", stats.no_mbuf),
            ("tx_errors", stats.tx_errors),
        ]
    }

    /// The device itself stops when its queues are closed.
    fn close(self: Box<Self>) {
        self.device.stop_receiving();
    }
}

/// A queue that counts.
#[derive(Debug)]
struct DpdkQueue {
    queue: bora_dpdk::Queue,
    has_link: Arc<AtomicBool>,
    tally: Arc<Tally>,
    counters: Option<Counters>,
}

impl DpdkQueue {
    fn count_lost(&mut self) {
        let lost = self.queue.take_lost();
        for (reason, count) in [
            (Reason::RxTooLong, lost.too_long),
            (Reason::RxMalformed, lost.malformed),
        ] {
            if count > 0 {
                self.tally.lost(reason, count);
            }
        }
    }
}

impl PortQueue for DpdkQueue {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let count = self.queue.receive(out, max);
        self.count_lost();
        count
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.queue.waiting().min(enough)
    }

    fn refill(&mut self, pool: &mut Pool) {
        self.queue.refill(pool);
    }

    /// Without a link, packets are dropped and counted, as in Linux: some drivers would keep them for ever,
    /// others take them without a word.
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        if !self.has_link.load(Relaxed) {
            let count = self.queue.discard(packets);
            self.tally.refused(Reason::TxLinkDown, count as u64);
            return count;
        }
        let count = self.queue.transmit(packets);
        self.tally.sent(count as u64);
        count
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        self.queue.reclaim(pool);
    }

    /// Not to tell the device, which was told, but to hear what it has sent.
    fn kick(&mut self) {
        self.queue.clean();
    }

    fn is_cut_off(&self) -> bool {
        !self.has_link.load(Relaxed)
    }

    fn in_flight(&self) -> u32 {
        self.queue.in_flight()
    }

    fn frames(&self) -> u32 {
        self.queue.frames()
    }

    /// Its frames go home when the last queue of the device is closed.
    fn close(self: Box<Self>, _: &SharedFrames) -> Option<Closing> {
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        let tally = self.tally.clone();
        Ok(match self.counters.clone() {
            Some(counters) => StatsReader::new(Reader { tally, counters }),
            None => StatsReader::new(tally),
        })
    }
}

/// What a queue has counted, and what the device has lost.
#[derive(Debug)]
struct Reader {
    tally: Arc<Tally>,
    counters: Counters,
}

impl ReadStats for Reader {
    /// What a device says that it could not send is not counted here: some drivers mean packets that they
    /// did not take, which stay with us.
    fn read(&self) -> QueueStats {
        let mut stats = self.tally.read();
        let device = self.counters.read();
        for (reason, count) in [
            (Reason::RxRingFull, device.missed),
            (Reason::RxMalformed, device.rx_errors),
            (Reason::NoFrame, device.no_mbuf),
        ] {
            stats.received += count;
            stats.dropped[reason] += count;
        }
        stats
    }
}
