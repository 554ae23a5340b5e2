//! A device: how it is opened, its control side, and its end.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bora_buffer::{Pool, Region, SharedFrames};
use bora_linux::lock;

use crate::c;
use crate::eal::{self, c_string, check};
use crate::error::{Error, Why};
use crate::memory::Memory;
use crate::queue::Queue;
use crate::shared::{Inner, Raw, Stats, TAKEN};

/// Octets of a frame around what the MTU counts: Ethernet header and a VLAN tag.
const AROUND_MTU: usize = 18;

/// What a device is to be.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// A PCI address, or the name and the arguments of a virtual device.
    pub device: &'a str,
    /// Arguments of DPDK's environment; `None` takes it as another port has started it.
    pub eal: Option<&'a str>,
    /// Queues in each direction; fewer if the device has fewer.
    pub queues: u16,
    /// Slots of a ring; the device may round it.
    pub slots: u16,
    /// Longest packet, octets without Ethernet header.
    pub mtu: u16,
    /// A card's Ethernet address. A virtual device keeps what it has, and takes every station's packets.
    pub mac: [u8; 6],
}

/// An open device; cards keep working until its queues are gone, too.
#[derive(Debug)]
pub struct Device(Arc<Inner>);

/// Starts DPDK if need be, finds the device, and asks it what it is.
fn probe(device: &str, eal: Option<&str>) -> Result<(u16, c::Info), Error> {
    eal::start(eal)?;
    let name = c_string(device.into())?;
    let (mut port, mut info) = (0, c::Info::default());
    // SAFETY: a string that ends with a zero, and a place for a number.
    let found = check(unsafe { c::bora_dpdk_probe(name.as_ptr(), &raw mut port) });
    // SAFETY: a place for the answer.
    let found = found.and_then(|()| check(unsafe { c::bora_dpdk_info(port, &raw mut info) }));
    match found {
        Ok(()) => Ok((port, info)),
        Err(why) => Err(Error::NoDevice {
            device: device.into(),
            why,
        }),
    }
}

fn text(octets: &[std::ffi::c_char]) -> String {
    let octets: Vec<u8> = octets.iter().map(|&octet| octet as u8).collect();
    let text = CStr::from_bytes_until_nul(&octets).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

impl Device {
    /// The Ethernet address of a card; `None` of a virtual device, whose address is the other end's or
    /// nobody's.
    ///
    /// # Errors
    /// DPDK does not start, or has no such device.
    pub fn mac_of_card(device: &str, eal: Option<&str>) -> Result<Option<[u8; 6]>, Error> {
        refuse_foreign_memory(device)?;
        let (_, info) = probe(device, eal)?;
        Ok((text(&info.bus) != "vdev").then_some(info.mac))
    }

    /// Opens a device and returns its queues, which have frames to receive into.
    ///
    /// # Errors
    /// See [`Error`]. Nothing is left of it then.
    pub fn open(
        config: &Config<'_>,
        region: &Arc<Region>,
        frames: &SharedFrames,
    ) -> Result<(Self, Vec<Queue>), Error> {
        refuse_foreign_memory(config.device)?;
        let (port, info) = probe(config.device, config.eal)?;
        if !lock(&TAKEN).insert(port) {
            return Err(Error::InUse(config.device.into()));
        }
        let is_virtual = text(&info.bus) == "vdev";
        let inner = Inner {
            port,
            name: config.device.into(),
            driver: text(&info.driver),
            is_virtual,
            memory: Memory::of_software(region.clone()),
            queues: Mutex::default(),
            control: Mutex::default(),
            before: Stats::default(),
            is_closing: AtomicBool::new(false),
            left: Mutex::default(),
            home: frames.clone(),
        };
        set_up(inner, config, &info)
    }

    /// Whether it has a link, and its speed in Mbit/s if that is known.
    pub fn link(&self) -> Option<Option<u64>> {
        let _turn = lock(&self.0.control);
        // SAFETY: asks for a number; the port is ours until `Inner` is dropped.
        let speed = u64::try_from(unsafe { c::bora_dpdk_link(self.0.port) }).ok()?;
        Some((speed > 0).then_some(speed))
    }

    /// The name of its driver.
    pub fn driver(&self) -> &str {
        &self.0.driver
    }

    /// Gives a card another Ethernet address.
    ///
    /// # Errors
    /// Its driver refuses.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), Error> {
        self.0.set_mac(mac)
    }

    /// Its counters, for any thread.
    pub fn counters(&self) -> Counters {
        Counters(self.0.clone())
    }

    /// Receives nothing any more.
    pub fn stop_receiving(&self) {
        self.0.is_closing.store(true, Relaxed);
    }
}

/// Reads a device's counters. The device stays open as long as there is one.
#[derive(Clone, Debug)]
pub struct Counters(Arc<Inner>);

impl Counters {
    /// The numbers now.
    pub fn read(&self) -> Stats {
        self.0.stats().since(&self.0.before)
    }
}

/// Refuses devices that pass buffers on by their place in DPDK's own memory.
fn refuse_foreign_memory(device: &str) -> Result<(), Error> {
    let what = if device.starts_with("net_memif") && device.contains("zero-copy=yes") {
        "`zero-copy=yes` needs packets in DPDK's memory, and Bora's are in its own; leave it out, or use \
         `kind = \"memif\"`, whose client copies nothing"
    } else if device.starts_with("virtio_user") || device.starts_with("net_virtio_user") {
        "its peer sees DPDK's memory only, and Bora's packets are in its own; let Bora be the other end: \
         `net_vhost0,iface=PATH`"
    } else if device.starts_with("net_ring") {
        "it passes on another port's buffers; use `kind = \"memif\"` between processes"
    } else {
        return Ok(());
    };
    let device = device.into();
    Err(Error::Unsupported { device, what })
}

/// Configures the device, makes its queues, fills them, and starts it.
fn set_up(
    mut inner: Inner,
    config: &Config<'_>,
    info: &c::Info,
) -> Result<(Device, Vec<Queue>), Error> {
    let region = inner.memory.region.clone();
    let longest = region.capacity() - AROUND_MTU;
    let mtu = config
        .mtu
        .clamp(info.min_mtu, info.max_mtu.max(info.min_mtu));
    if usize::from(mtu) > longest {
        let what = "its MTU is more than the packet buffers of this run hold; lower it";
        let device = inner.name.clone();
        return Err(Error::Unsupported { device, what });
    }
    if !inner.is_virtual {
        inner.memory = match Memory::of_card(region, inner.port) {
            Some(memory) => memory.map_err(|why| inner.refused("the packet memory", why))?,
            None => {
                let what = "without an IOMMU it needs packet memory in huge pages of 2 MiB: `sysctl \
                            vm.nr_hugepages=N` before `bora run`";
                let device = inner.name.clone();
                return Err(Error::Unsupported { device, what });
            }
        };
    }
    let queues = config.queues.min(info.max_queues).max(1);
    if queues < config.queues {
        let (wanted, name) = (config.queues, &inner.name);
        log::warn!("{name} has {queues} queues, not {wanted}");
    }
    let (mut rx_slots, mut tx_slots) = (config.slots, config.slots);
    // SAFETY: places for two numbers; the port is ours.
    let configured = check(unsafe {
        c::bora_dpdk_configure(
            inner.port,
            queues,
            mtu,
            &raw mut rx_slots,
            &raw mut tx_slots,
        )
    });
    configured.map_err(|why| inner.refused(format_args!("{queues} queues, MTU {mtu}"), why))?;
    inner.set_mac(config.mac)?;
    inner.before = inner.stats();
    let inner = Arc::new(inner);
    let made = (0..queues).map(|number| make_queue(&inner, number, (rx_slots, tx_slots)));
    let made = made
        .collect::<Result<Vec<Queue>, Error>>()
        .and_then(|made| {
            // SAFETY: the port is ours, and all its queues are set up.
            check(unsafe { c::bora_dpdk_enable(inner.port, inner.is_virtual.into()) })
                .map_err(|why| inner.refused("to start", why))?;
            Ok(made)
        });
    Ok((Device(inner), made?))
}

/// Makes a queue, fills it, and tells the device.
fn make_queue(
    inner: &Arc<Inner>,
    number: u16,
    (rx_slots, tx_slots): (u16, u16),
) -> Result<Queue, Error> {
    let mut error = 0;
    let memory = inner.memory.describe();
    // SAFETY: the memory is as described, and `inner` keeps it until the queue is freed.
    let raw = unsafe {
        c::bora_dpdk_queue_new(
            inner.port,
            number,
            rx_slots,
            tx_slots,
            &raw const memory,
            &raw mut error,
        )
    };
    let Some(raw) = NonNull::new(raw) else {
        let why = check(error).err().unwrap_or(Why {
            errno: 0,
            log: Vec::new(),
        });
        return Err(inner.refused("memory for its mbufs", why));
    };
    lock(&inner.queues).push(Raw(raw));
    // SAFETY: a new queue, which nobody else has.
    let mut queue = unsafe { Queue::new(Raw(raw), inner.clone()) };
    let wanted = queue.missing();
    queue.refill(&mut Pool::new(inner.home.clone(), 1));
    if queue.missing() > 0 {
        return Err(Error::NoFrames(wanted));
    }
    // SAFETY: a queue of this port, with mbufs.
    let done = check(unsafe { c::bora_dpdk_queue_setup(raw.as_ptr(), rx_slots, tx_slots) });
    match done {
        Ok(()) => Ok(queue),
        Err(why) => Err(inner.refused(format_args!("queue {number}"), why)),
    }
}
