//! A single-producer, single-consumer ring of packets.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bora_buffer::Packet;
use crossbeam_utils::CachePadded;

#[derive(Debug)]
struct Shared {
    /// Slots written since the beginning; the producer's.
    head: CachePadded<AtomicUsize>,
    /// Slots read since the beginning; the consumer's.
    tail: CachePadded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<Packet>>]>,
}

// SAFETY: slots in tail..head belong to the consumer, the others to the producer, of which there
// is one each (neither is `Clone`); the indices are handed over with release and acquire.
unsafe impl Sync for Shared {}

impl Shared {
    fn slot(&self, index: usize) -> *mut Packet {
        self.slots[index & (self.slots.len() - 1)].get().cast()
    }
}

/// The end that writes.
#[derive(Debug)]
pub(super) struct Producer {
    shared: Arc<Shared>,
    head: usize,
    /// The consumer's index as last seen.
    tail: usize,
}

/// The end that reads.
#[derive(Debug)]
pub(super) struct Consumer {
    shared: Arc<Shared>,
    tail: usize,
    /// The producer's index as last seen.
    head: usize,
}

/// A ring with room for `size` packets, rounded up to a power of two.
pub(super) fn ring(size: usize) -> (Producer, Consumer) {
    let slots = (0..size.max(1).next_power_of_two())
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let shared = Arc::new(Shared {
        head: CachePadded::default(),
        tail: CachePadded::default(),
        slots,
    });
    let producer = Producer {
        shared: shared.clone(),
        head: 0,
        tail: 0,
    };
    let consumer = Consumer {
        shared,
        tail: 0,
        head: 0,
    };
    (producer, consumer)
}

impl Producer {
    /// Moves packets from the front of `packets` while there is room; returns how many.
    #[inline]
    pub(super) fn push(&mut self, packets: &mut Vec<Packet>) -> usize {
        let size = self.shared.slots.len();
        if size - (self.head - self.tail) < packets.len() {
            self.tail = self.shared.tail.load(Ordering::Acquire);
        }
        let count = packets.len().min(size - (self.head - self.tail));
        for packet in packets.drain(..count) {
            // SAFETY: the slot is outside tail..head, hence ours until head moves past it.
            unsafe { self.shared.slot(self.head).write(packet) };
            self.head += 1;
        }
        self.shared.head.store(self.head, Ordering::Release);
        count
    }

    /// Packets that wait in the ring.
    pub(super) fn len(&self) -> usize {
        self.head - self.shared.tail.load(Ordering::Relaxed)
    }
}

impl Consumer {
    /// Whether the producer is gone.
    pub(super) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Packets that wait, up to `max`.
    #[inline]
    pub(super) fn available(&mut self, max: usize) -> usize {
        if self.head - self.tail < max {
            self.head = self.shared.head.load(Ordering::Acquire);
        }
        max.min(self.head - self.tail)
    }

    /// Moves up to `max` packets to `out`; returns how many.
    #[inline]
    pub(super) fn pop(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let count = self.available(max);
        for _ in 0..count {
            // SAFETY: the slot is inside tail..head: written, and ours until tail moves past it;
            // each is read once, so the packet is moved, not copied.
            out.push(unsafe { self.shared.slot(self.tail).read() });
            self.tail += 1;
        }
        if count > 0 {
            self.shared.tail.store(self.tail, Ordering::Release);
        }
        count
    }
}
