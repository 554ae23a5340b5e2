//! One AF_XDP socket: one queue of one interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bora_buffer::{Frame, FrameSet, Packet, Pool, Region, SharedFrames};
use bora_contract::{Counter, Reason};
use crossbeam_utils::CachePadded;

use super::release::is_free;
use super::ring::Ring;
use super::system::{
    Binding, bind, get_option, new_socket, register, set_option, wake_reception, wake_transmission,
};
use crate::closing::Closing;
use crate::port_queue::PortQueue;
use crate::tally::{QueueStats, ReadStats};

/// Most slots of each ring, a power of two.
pub const RING_SIZE: u32 = 2048;

/// Rings' worth of frames that a socket has to receive into and received, and of packets it has to
/// send: what its rings hold if the driver has taken none.
const RECEPTION: u32 = 2;
const TRANSMISSION: u32 = 1;

/// Frames that a socket with rings of this many slots has at most.
pub fn frames_for(ring: u32) -> u32 {
    (RECEPTION + TRANSMISSION) * ring
}

/// Packets that a call to send may take in copy mode (linux/if_xdp.h, since Linux 6.16).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// Why a socket could not be opened, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// RLIMIT_MEMLOCK is too small to register the region.
    #[error(
        "cannot lock {0} MiB of packet memory: raise the limit (`ulimit -l unlimited`, or \
         LimitMEMLOCK=infinity in the unit) or run as root"
    )]
    Memlock(usize),
    /// No CAP_NET_RAW or CAP_NET_ADMIN.
    #[error(
        "no permission to open AF_XDP sockets: run as root (needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF)"
    )]
    Permission,
    /// Another socket of AF_XDP has this queue.
    #[error("queue {queue} of {interface} is in use by another AF_XDP socket")]
    Busy {
        /// Interface name.
        interface: String,
        /// Receive queue.
        queue: u32,
    },
    /// The interface has fewer queues in use.
    #[error("{interface} has no queue {queue}")]
    NoSuchQueue {
        /// Interface name.
        interface: String,
        /// Receive queue.
        queue: u32,
    },
    /// Anything else, with the step that failed.
    #[error("AF_XDP on {interface}: {step} failed")]
    System {
        /// Interface name.
        interface: String,
        /// The failing step.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Where a socket sits and how it shares memory.
#[derive(Clone, Debug)]
pub struct SocketConfig {
    /// Interface name, for messages.
    pub interface: String,
    /// Interface index.
    pub ifindex: u32,
    /// Queue number.
    pub queue: u32,
    /// Slots of each ring, a power of two, [`RING_SIZE`] at most.
    pub ring: u32,
    /// Whether to ask for zero-copy; fails where the driver cannot.
    pub zero_copy: bool,
}

impl SocketConfig {
    /// The error of a step that the kernel refuses.
    fn failed(&self, step: &'static str) -> impl FnOnce(io::Error) -> SocketError {
        let interface = self.interface.clone();
        move |source| SocketError::System {
            interface,
            step,
            source,
        }
    }
}

/// Registers the region as the socket's memory (UMEM).
fn register_region(
    config: &SocketConfig,
    fd: &OwnedFd,
    region: &Region,
) -> Result<(), SocketError> {
    let (address, length) = region.raw_parts();
    let address = address.as_ptr() as u64;
    let registered = register(fd, address, length as u64, region.frame_size());
    registered.map_err(|source| match source.raw_os_error() {
        Some(libc::ENOBUFS) => SocketError::Memlock(length >> 20),
        Some(libc::EPERM) => SocketError::Permission,
        _ => config.failed("register memory")(source),
    })
}

fn set_ring_sizes(fd: &OwnedFd, slots: u32) -> io::Result<()> {
    for option in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        set_option(fd, option, &slots)?;
    }
    // packets that one call sends; kernels before 6.16 lack the option, and send a few dozen as all do without it
    if let Err(error) = set_option(fd, XDP_MAX_TX_SKB_BUDGET, &slots) {
        log::debug!("XDP_MAX_TX_SKB_BUDGET: {error}");
    }
    Ok(())
}

/// A bound socket with its rings.
#[derive(Debug)]
pub struct Socket {
    // Rings before the descriptor: they are unmapped before the socket closes.
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    fd: OwnedFd,
    region: Arc<Region>,
    /// Frames that the kernel has, in the rings or elsewhere.
    lent: FrameSet,
    place: Binding,
    is_bound: bool,
    ring: u32,
    zero_copy: bool,
    /// Packets given to the transmit ring and not yet back.
    in_flight: u32,
    /// Frames that are back, for the pool.
    sent: Vec<Frame>,
    /// Packets sent since the socket was opened.
    packets_sent: Arc<CachePadded<Counter>>,
    is_cut_off: bool,
}

impl Socket {
    /// Opens and binds a socket. The first socket of each mode registers the region as UMEM;
    /// later ones pass its descriptor in `share` (XDP_SHARED_UMEM). `frames` are the region's: a
    /// zero-copy driver needs some from the first moment on, to receive what is Linux's, too.
    ///
    /// # Errors
    /// See [`SocketError`]; nothing is left behind.
    pub fn open(
        config: &SocketConfig,
        region: Arc<Region>,
        frames: &SharedFrames,
        share: Option<BorrowedFd<'_>>,
    ) -> Result<Self, SocketError> {
        let mut socket = Self::prepare(config, region, share.is_none())?;
        let mut pool = Pool::new(frames.clone(), 0);
        socket.refill(&mut pool);
        if let Err(source) = bind(&socket.fd, socket.place, share) {
            socket.close().finish(frames);
            return Err(match source.raw_os_error() {
                Some(libc::EBUSY) => SocketError::Busy {
                    interface: config.interface.clone(),
                    queue: config.queue,
                },
                // an interface has at least queue 0
                Some(libc::EINVAL) if config.queue > 0 => SocketError::NoSuchQueue {
                    interface: config.interface.clone(),
                    queue: config.queue,
                },
                _ => config.failed("bind")(source),
            });
        }
        socket.is_bound = true;
        match get_option::<libc::xdp_options>(&socket.fd, libc::XDP_OPTIONS) {
            Ok(options) => socket.zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            Err(source) => {
                socket.close().finish(frames);
                return Err(config.failed("ask for its mode")(source));
            }
        }
        Ok(socket)
    }

    /// A socket with its rings, not bound yet.
    fn prepare(
        config: &SocketConfig,
        region: Arc<Region>,
        is_first: bool,
    ) -> Result<Self, SocketError> {
        let fd = new_socket().map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM) => SocketError::Permission,
            _ => config.failed("socket")(source),
        })?;
        if is_first {
            register_region(config, &fd, &region)?;
        }
        let ring = config.ring;
        set_ring_sizes(&fd, ring).map_err(config.failed("set ring size"))?;
        let offsets: libc::xdp_mmap_offsets =
            get_option(&fd, libc::XDP_MMAP_OFFSETS).map_err(config.failed("ring offsets"))?;
        let raw = fd.as_raw_fd();
        let rx = Ring::map(raw, libc::XDP_PGOFF_RX_RING, &offsets.rx, ring);
        let tx = Ring::map(raw, libc::XDP_PGOFF_TX_RING, &offsets.tx, ring);
        let page = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
        let fill = Ring::map(raw, page, &offsets.fr, ring);
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let completion = Ring::map(raw, page, &offsets.cr, ring);
        let rx = rx.map_err(config.failed("map rx ring"))?;
        let tx = tx.map_err(config.failed("map tx ring"))?;
        let fill = fill.map_err(config.failed("map fill ring"))?;
        let completion = completion.map_err(config.failed("map completion ring"))?;
        Ok(Self {
            rx,
            tx,
            fill,
            completion,
            fd,
            lent: FrameSet::new(&region),
            region,
            place: Binding {
                ifindex: config.ifindex,
                queue: config.queue,
                zero_copy: config.zero_copy,
            },
            is_bound: false,
            ring,
            zero_copy: false,
            in_flight: 0,
            sent: Vec::with_capacity((TRANSMISSION * ring) as usize),
            packets_sent: Arc::default(),
            is_cut_off: false,
        })
    }

    /// Whether the driver moves packets without copying.
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Closes the socket. All frames that the kernel has return through the [`Closing`].
    pub fn close(self) -> Closing {
        let Self {
            rx,
            tx,
            fill,
            completion,
            fd,
            mut lent,
            place,
            is_bound,
            sent,
            ..
        } = self;
        let unsent = tx.pending();
        sent.into_iter().for_each(|frame| lent.insert(frame));
        // each mapping keeps the socket open, too
        drop((rx, tx, fill, completion));
        drop(fd);
        Closing::new(lent, unsent, move || !is_bound || is_free(place))
    }

    /// Its queue of the interface.
    pub fn queue(&self) -> u32 {
        self.place.queue
    }

    /// The packet of a descriptor of the receive ring; `None` if the kernel does not have the frame.
    #[inline]
    fn received(&mut self, descriptor: libc::xdp_desc) -> Option<Packet> {
        let frame = self.lent.remove(self.region.frame_at(descriptor.addr))?;
        match frame.into_packet_at(&self.region, descriptor.addr, descriptor.len) {
            Ok(packet) => Some(packet),
            Err(frame) => {
                self.lent.insert(frame);
                None
            }
        }
    }

    /// Empties the completion ring; returns how many packets were sent.
    #[inline]
    fn collect(&mut self) -> u32 {
        if self.in_flight == 0 {
            return 0;
        }
        let count = self.completion.available(self.in_flight);
        for _ in 0..count {
            let addr = self.completion.read();
            let frame = self.lent.remove(self.region.frame_at(addr));
            self.sent.extend(frame);
        }
        if count > 0 {
            self.completion.release();
            self.in_flight -= count;
        }
        count
    }

    /// In copy mode the kernel sends in the call; what it answers says whether to call again
    /// (__xsk_generic_xmit() in net/xdp/xsk.c).
    fn send(&mut self) {
        // a call that does not end the matter has sent a packet, or dropped one
        for _ in 0..self.ring {
            let pending = self.tx.pending();
            let answer = wake_transmission(&self.fd);
            self.is_cut_off = matches!(answer, Err(libc::ENETDOWN | libc::ENXIO));
            let goes_on = match answer {
                // enough for one call, no room for completions, or the device is busy
                Err(libc::EAGAIN) => self.collect() > 0 || self.tx.pending() != pending,
                // the device has dropped one packet and may take the next
                Err(libc::EBUSY) => true,
                _ => false,
            };
            if !goes_on {
                return;
            }
        }
    }
}

impl PortQueue for Socket {
    fn frames(&self) -> u32 {
        self.lent.len() + self.sent.len() as u32
    }

    #[inline]
    fn waiting(&mut self, enough: usize) -> usize {
        self.rx.available(enough as u32) as usize
    }

    #[inline]
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let count = self.rx.available(max as u32);
        for _ in 0..count {
            let descriptor = self.rx.read();
            out.extend(self.received(descriptor));
        }
        if count > 0 {
            self.rx.release();
        }
        count as usize
    }

    /// Keeps the fill ring stocked with free frames, in batches.
    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        let batch = self.ring / 4;
        let free = self.fill.free(batch);
        if free >= batch {
            let to_receive = self.lent.len() - self.in_flight;
            let room = (RECEPTION * self.ring).saturating_sub(to_receive);
            for _ in 0..free.min(room) {
                let Some(frame) = pool.take() else { break };
                self.fill.write(frame.offset(&self.region));
                self.lent.insert(frame);
            }
            self.fill.submit();
        }
        // a driver that found the ring empty may wait to be told
        if self.fill.needs_wakeup() {
            wake_reception(&self.fd);
        }
    }

    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let free = self.tx.free(packets.len() as u32);
        let room = free.min(TRANSMISSION * self.ring - self.in_flight);
        let count = packets.len().min(room as usize);
        for packet in packets.drain(..count) {
            let (addr, len) = (u64::from(packet.offset()), packet.length() as u32);
            self.tx.write(libc::xdp_desc {
                addr,
                len,
                options: 0,
            });
            self.lent.insert(packet.into_frame(&self.region));
        }
        if count > 0 {
            // before the kernel can refuse one
            self.packets_sent.add(count as u64);
            self.tx.submit();
            self.in_flight += count as u32;
        }
        count
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut Pool) {
        self.collect();
        pool.give_many(self.sent.drain(..));
    }

    /// Makes the kernel look at the transmit ring, where it asks for that.
    #[inline]
    fn kick(&mut self) {
        if self.in_flight > 0 && self.tx.needs_wakeup() && self.tx.pending() > 0 {
            self.send();
        }
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether the interface is down or gone, as of the last try to send.
    fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn close(self: Box<Self>, _: &SharedFrames) -> Option<Closing> {
        Some((*self).close())
    }

    fn stats_reader(&self) -> io::Result<crate::StatsReader> {
        Ok(crate::StatsReader::new(StatsReader {
            fd: self.fd.try_clone()?,
            queue: self.place.queue,
            zero_copy: self.zero_copy,
            sent: self.packets_sent.clone(),
        }))
    }
}

/// Reads what the kernel dropped in front of a socket.
#[derive(Debug)]
pub struct StatsReader {
    fd: OwnedFd,
    queue: u32,
    zero_copy: bool,
    sent: Arc<CachePadded<Counter>>,
}

impl ReadStats for StatsReader {
    fn read(&self) -> QueueStats {
        // the kernel's counters first: the socket counts a packet as sent before the kernel refuses it
        let kernel = get_option::<libc::xdp_statistics>(&self.fd, libc::XDP_STATISTICS);
        let mut stats = QueueStats {
            sent: self.sent.get(),
            ..QueueStats::default()
        };
        match kernel {
            Ok(kernel) => {
                stats.lost_from_program = kernel.rx_ring_full + kernel.rx_dropped;
                stats.dropped[Reason::RxRingFull] = kernel.rx_ring_full;
                stats.dropped[Reason::NoFrame] = kernel.rx_dropped;
                stats.take_back(Reason::TxInvalid, kernel.tx_invalid_descs);
            }
            Err(error) => log::warn!(
                "queue {}: what the kernel has dropped is not counted: {error}",
                self.queue
            ),
        }
        stats
    }
}

impl StatsReader {
    /// The socket's queue of the interface.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the driver moves the socket's packets without copying.
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }
}

/// Other sockets may share the memory of the one it reads of.
impl AsFd for StatsReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
