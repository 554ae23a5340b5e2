//! A ring of descriptors in shared memory.
//!
//! S2M rings carry packets from client to server: the client fills slots and moves `head`, the
//! server empties them and moves `tail`. M2S rings carry packets from server to client: the client
//! puts empty buffers in slots and moves `head`, the server fills them and moves `tail`. So in
//! both `head` is the client's and `tail` the server's.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

use bora_buffer::{Purpose, prefetch};
use rustix::io::{ReadWriteFlags, preadv2};

use super::fault::Fault;
use super::memory::SharedMemory;
use super::signal::Signal;

pub(super) const COOKIE: u32 = 0x3E3_1F20;
/// The next slot holds more of the same packet.
pub(super) const DESC_FLAG_NEXT: u16 = 1;
/// Most buffers of a packet: 64 KiB in buffers of 256 octets. Each costs a worker time, whatever is in it.
pub(super) const LONGEST_CHAIN: u16 = 256;
/// The side that takes packets polls; no need to write to the eventfd.
const RING_FLAG_MASK_INT: u16 = 1;
/// Octets from a ring's beginning to its first descriptor: two cache lines for the indices.
const HEADER: usize = 128;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;

/// One slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) flags: u16,
    pub(super) region: u16,
    pub(super) length: u32,
    pub(super) offset: u32,
    pub(super) metadata: u32,
}

/// A descriptor as it is in memory: two words, because a volatile copy of the struct would go through
/// the stack field by field.
type Words = [u64; 2];

impl Descriptor {
    #[inline]
    fn of([first, second]: Words) -> Self {
        let [flags_low, flags_high, region_low, region_high, a, b, c, d] = first.to_ne_bytes();
        let [e, f, g, h, i, j, k, l] = second.to_ne_bytes();
        Self {
            flags: u16::from_ne_bytes([flags_low, flags_high]),
            region: u16::from_ne_bytes([region_low, region_high]),
            length: u32::from_ne_bytes([a, b, c, d]),
            offset: u32::from_ne_bytes([e, f, g, h]),
            metadata: u32::from_ne_bytes([i, j, k, l]),
        }
    }

    #[inline]
    fn words(self) -> Words {
        let [flags_low, flags_high] = self.flags.to_ne_bytes();
        let [region_low, region_high] = self.region.to_ne_bytes();
        let [a, b, c, d] = self.length.to_ne_bytes();
        let [e, f, g, h] = self.offset.to_ne_bytes();
        let [i, j, k, l] = self.metadata.to_ne_bytes();
        [
            u64::from_ne_bytes([flags_low, flags_high, region_low, region_high, a, b, c, d]),
            u64::from_ne_bytes([e, f, g, h, i, j, k, l]),
        ]
    }
}

/// A mapped ring and the eventfd that announces packets in it.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    size: u16,
    interrupt: OwnedFd,
    signal: Arc<Signal>,
    /// Keeps `start` mapped.
    _memory: Arc<SharedMemory>,
}

// SAFETY: all access goes through atomics and volatile copies, and `_memory` keeps it mapped
// whichever thread that happens on.
unsafe impl Send for Ring {}

/// Octets of a ring with 2^`log2` slots.
pub(super) fn octets(log2: u8) -> usize {
    HEADER + (size_of::<Words>() << log2)
}

impl Ring {
    /// The ring of 2^`log2` slots (at most 14) at `offset`; `None` if it is not wholly inside the
    /// memory, or not aligned to 8 octets.
    pub(super) fn at(
        memory: &Arc<SharedMemory>,
        offset: u32,
        log2: u8,
        interrupt: OwnedFd,
        signal: &Arc<Signal>,
    ) -> Option<Self> {
        if log2 > 14 || !offset.is_multiple_of(8) {
            return None;
        }
        Some(Self {
            start: memory.at(offset, octets(log2))?,
            size: 1 << log2,
            interrupt,
            signal: signal.clone(),
            _memory: memory.clone(),
        })
    }

    /// Writes the cookie, for a ring in new memory.
    pub(super) fn init(&self) {
        // SAFETY: the header is inside the mapping and aligned, as checked in `at`.
        unsafe { self.start.cast::<u32>().write_volatile(COOKIE) }
    }

    /// Whether the other side wrote its cookie.
    pub(super) fn has_cookie(&self) -> bool {
        // SAFETY: the header is inside the mapping and aligned, as checked in `at`.
        unsafe { self.start.cast::<u32>().read_volatile() == COOKIE }
    }

    /// Slots.
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// Most buffers that a packet may have here.
    pub(super) fn longest_chain(&self) -> u16 {
        LONGEST_CHAIN.min(self.size)
    }

    fn field(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: the three offsets are even and inside the header, which is inside the mapping
        // and aligned as checked in `at`; `self` keeps it mapped.
        unsafe { AtomicU16::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The client's index; what it wrote before is visible.
    #[inline]
    pub(super) fn head(&self) -> u16 {
        self.field(HEAD).load(Ordering::Acquire)
    }

    /// Moves the client's index, with all written before.
    #[inline]
    pub(super) fn set_head(&self, head: u16) {
        self.field(HEAD).store(head, Ordering::Release);
    }

    /// The server's index; what it wrote before is visible.
    #[inline]
    pub(super) fn tail(&self) -> u16 {
        self.field(TAIL).load(Ordering::Acquire)
    }

    /// Moves the server's index, with all written before.
    #[inline]
    pub(super) fn set_tail(&self, tail: u16) {
        self.field(TAIL).store(tail, Ordering::Release);
    }

    /// Fetches the server's index into the cache.
    #[inline]
    pub(super) fn prefetch_tail(&self) {
        prefetch(self.field(TAIL).as_ptr().cast(), Purpose::Read);
    }

    /// Fetches the client's index into the cache.
    #[inline]
    pub(super) fn prefetch_head(&self) {
        prefetch(self.field(HEAD).as_ptr().cast(), Purpose::Read);
    }

    /// How far `theirs` is ahead of `ours`, which can be no more than `limit` slots.
    #[inline]
    pub(super) fn distance(&self, ours: u16, theirs: u16, limit: u16) -> Result<u16, Fault> {
        let distance = theirs.wrapping_sub(ours);
        if distance > limit {
            let size = limit;
            return Err(Fault::Index { ours, theirs, size });
        }
        Ok(distance)
    }

    #[inline]
    fn slot(&self, index: u16) -> NonNull<Words> {
        let slot = usize::from(index & (self.size - 1));
        // SAFETY: below `size`, and all slots are inside the mapping as checked in `at`.
        unsafe { self.start.add(HEADER).cast::<Words>().add(slot) }
    }

    /// A copy of a descriptor, to be read once: the peer may change it at any time.
    #[inline]
    pub(super) fn descriptor(&self, index: u16) -> Descriptor {
        let words = self.slot(index).cast::<u64>();
        // SAFETY: inside the mapping by `slot`, aligned as checked in `at`; any bits are valid.
        Descriptor::of(unsafe { [words.read_volatile(), words.add(1).read_volatile()] })
    }

    /// Writes a descriptor; the peer sees it once the index has moved.
    #[inline]
    pub(super) fn set_descriptor(&self, index: u16, descriptor: Descriptor) {
        let (words, [first, second]) = (self.slot(index).cast::<u64>(), descriptor.words());
        // SAFETY: inside the mapping by `slot`, aligned as checked in `at`.
        unsafe {
            words.write_volatile(first);
            words.add(1).write_volatile(second);
        }
    }

    /// Asks for no interrupts, because the side that takes packets polls.
    pub(super) fn mask_interrupt(&self) {
        self.field(FLAGS)
            .store(RING_FLAG_MASK_INT, Ordering::Relaxed);
    }

    /// Asks for interrupts from here on, for the side that takes packets. Look at the ring once more
    /// afterwards, a packet may have come before.
    pub(super) fn unmask_interrupt(&self) {
        self.field(FLAGS).store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Wakes the other side, which takes packets, if it sleeps.
    #[inline]
    pub(super) fn interrupt_unless_masked(&self) {
        // between the index before and the flags here, as the sleeper does it the other way round
        fence(Ordering::SeqCst);
        if self.field(FLAGS).load(Ordering::Relaxed) & RING_FLAG_MASK_INT == 0 {
            self.interrupt();
        }
    }

    /// Makes the eventfd readable.
    pub(super) fn interrupt(&self) {
        self.signal.ring(self.interrupt.as_fd());
    }

    /// Makes the eventfd not readable, without waiting whatever the peer made of it.
    pub(super) fn clear_interrupt(&self) {
        let mut count = [0; 8];
        let count = &mut [IoSliceMut::new(&mut count)];
        #[expect(
            clippy::let_underscore_must_use,
            reason = "empty is what is wanted, and one that a peer made unreadable wakes nobody here"
        )]
        let _ = preadv2(&self.interrupt, count, u64::MAX, ReadWriteFlags::NOWAIT);
    }

    /// The eventfd.
    pub(super) fn interrupt_fd(&self) -> BorrowedFd<'_> {
        self.interrupt.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    /// The layout of libmemif's memif_desc_t.
    #[test]
    fn a_descriptor_has_its_fields_in_order() {
        let descriptor = Descriptor {
            flags: 1,
            region: 2,
            length: 3,
            offset: 4,
            metadata: 5,
        };
        let octets: Vec<u8> = { descriptor.words() }
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let words = [3u32, 4, 5].iter().flat_map(|word| word.to_ne_bytes());
        let halves = [1u16, 2].iter().flat_map(|half| half.to_ne_bytes());
        assert_eq!(octets, halves.chain(words).collect::<Vec<_>>());
        assert_eq!(Descriptor::of(descriptor.words()), descriptor);
    }

    #[test]
    fn rings_are_inside_and_aligned() {
        let memory = Arc::new(SharedMemory::new(8192).unwrap());
        let signal = Arc::new(Signal::new().unwrap());
        let ring = |offset, log2| {
            let interrupt = eventfd(0, EventfdFlags::empty()).unwrap();
            Ring::at(&memory, offset, log2, interrupt, &signal)
        };
        let last = (8192 - octets(4)) as u32;
        assert!(ring(last, 4).is_some());
        assert!(ring(last + 8, 4).is_none() && ring(4, 4).is_none());
        assert!(ring(0, 9).is_none() && ring(0, 15).is_none() && ring(u32::MAX - 7, 0).is_none());
    }

    /// The peer has the eventfd, too: it may fill the counter, empty it, and clear O_NONBLOCK.
    #[test]
    fn a_peer_cannot_make_us_wait() {
        let memory = Arc::new(SharedMemory::new(4096).unwrap());
        let interrupt = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let peer = interrupt.try_clone().unwrap();
        let signal = Arc::new(Signal::new().unwrap());
        let ring = Ring::at(&memory, 0, 4, interrupt, &signal).unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            fcntl_setfl(&peer, OFlags::empty()).unwrap();
            ring.clear_interrupt(); // empty
            rustix::io::write(&peer, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            ring.interrupt(); // full
            ring.interrupt();
            ring.clear_interrupt();
            done.send(()).unwrap();
        });
        let patience = std::time::Duration::from_secs(5);
        wait.recv_timeout(patience).expect("a worker would hang");
    }

    #[test]
    fn an_index_that_runs_ahead_is_a_fault() {
        let memory = Arc::new(SharedMemory::new(4096).unwrap());
        let interrupt = eventfd(0, EventfdFlags::empty()).unwrap();
        let signal = Arc::new(Signal::new().unwrap());
        let ring = Ring::at(&memory, 0, 4, interrupt, &signal).unwrap();
        assert_eq!(ring.distance(0xfff8, 8, 16), Ok(16));
        assert!(ring.distance(0xfff8, 9, 16).is_err());
        assert!(ring.distance(1, 0, 16).is_err());
    }
}
