//! The four single-producer, single-consumer rings that a socket shares with the kernel
//! (Documentation/networking/af_xdp.rst).

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One mapped ring of descriptors `T`; we are its producer or its consumer.
#[derive(Debug)]
pub(super) struct Ring<T> {
    mapping: NonNull<u8>,
    mapped: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    descriptors: NonNull<T>,
    size: u32,
    /// Our own index: the next slot to write (producer) or to read (consumer).
    own: u32,
    /// The other side's index as last seen.
    other: u32,
}

// SAFETY: the ring is memory shared with the kernel; `&mut self` on every access makes the thread
// that holds it the only user on our side.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `fd` at `page_offset` with `size` (a power of two) slots.
    pub(super) fn map(
        fd: RawFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let mapped = offsets.desc as usize + size as usize * size_of::<T>();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd,
                page_offset,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(memory.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel gives offsets inside the mapping it sized, aligned for their types.
        unsafe {
            Ok(Self {
                mapping,
                mapped,
                producer: mapping.add(offsets.producer as usize).cast(),
                consumer: mapping.add(offsets.consumer as usize).cast(),
                flags: mapping.add(offsets.flags as usize).cast(),
                descriptors: mapping.add(offsets.desc as usize).cast(),
                size,
                own: 0,
                other: 0,
            })
        }
    }

    /// Slots that can be written, at least `wanted` if there are that many (producer side).
    #[inline]
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let mut free = self.size - self.own.wrapping_sub(self.other);
        if free < wanted {
            // SAFETY: points into our mapping, which lives as long as `self`.
            self.other = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
            free = self.size - self.own.wrapping_sub(self.other);
        }
        free
    }

    /// Writes the next slot; the caller has checked [`Ring::free`].
    #[inline]
    pub(super) fn write(&mut self, descriptor: T) {
        debug_assert!(self.own.wrapping_sub(self.other) < self.size);
        let slot = (self.own & (self.size - 1)) as usize;
        // SAFETY: `slot` is below `size`, and the kernel reads it only after `submit`.
        unsafe { self.descriptors.add(slot).write(descriptor) };
        self.own = self.own.wrapping_add(1);
    }

    /// Shows what was written to the kernel.
    #[inline]
    pub(super) fn submit(&mut self) {
        // SAFETY: points into our mapping, which lives as long as `self`.
        unsafe { self.producer.as_ref() }.store(self.own, Ordering::Release);
    }

    /// Written slots the kernel has not consumed yet (producer side).
    pub(super) fn pending(&self) -> u32 {
        // SAFETY: points into our mapping, which lives as long as `self`.
        self.own
            .wrapping_sub(unsafe { self.consumer.as_ref() }.load(Ordering::Acquire))
    }

    /// Slots that can be read, at most `wanted` (consumer side).
    #[inline]
    pub(super) fn available(&mut self, wanted: u32) -> u32 {
        let mut available = self.other.wrapping_sub(self.own);
        if available < wanted {
            // SAFETY: points into our mapping, which lives as long as `self`.
            self.other = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
            available = self.other.wrapping_sub(self.own);
        }
        available.min(wanted)
    }

    /// Reads the next slot; the caller has checked [`Ring::available`].
    #[inline]
    pub(super) fn read(&mut self) -> T {
        debug_assert!(self.own != self.other);
        let slot = (self.own & (self.size - 1)) as usize;
        self.own = self.own.wrapping_add(1);
        // SAFETY: `slot` is below `size`; the kernel wrote it before moving the producer index.
        unsafe { self.descriptors.add(slot).read() }
    }

    /// Gives read slots back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        // SAFETY: points into our mapping, which lives as long as `self`.
        unsafe { self.consumer.as_ref() }.store(self.own, Ordering::Release);
    }

    /// Whether the kernel asks for a system call before it looks at the ring again.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: points into our mapping, which lives as long as `self`.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once, here.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}
