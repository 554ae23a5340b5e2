//! The memory area of all packets; AF_XDP registers it as UMEM.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::tag::Tag;

/// Octets before a packet that stay free for headers to grow into; XDP_PACKET_HEADROOM.
pub const HEADROOM: u32 = 256;

const HUGE_PAGE: usize = 2 << 20;

/// Why a region could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// AF_XDP accepts only 2048 and 4096 in aligned mode.
    #[error("frame size {0} is neither 2048 nor 4096 octets")]
    FrameSize(u32),
    /// Offsets of packets have 32 bits.
    #[error("{0} frames of {1} octets are more than 4 GiB; use fewer frames")]
    TooLarge(u32, u32),
    /// The kernel refused.
    #[error("no memory for {frames} frames of {size} octets: {source}")]
    Memory {
        /// Number of frames asked for.
        frames: u32,
        /// Octets of a frame.
        size: u32,
        /// The kernel's error.
        source: Errno,
    },
}

/// A memfd mapped once, cut into frames.
#[derive(Debug)]
pub struct Region {
    memory: NonNull<u8>,
    length: usize,
    frame_size: u32,
    frames: u32,
    huge_pages: bool,
    fd: OwnedFd,
    tag: Tag,
}

// SAFETY: the region is plain memory. All access to its contents goes through `Packet` values,
// which are unique per frame, so two threads never touch the same octets.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` alone gives access to no octet.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a region of `frames` frames of `frame_size` octets (2048 or 4096), in 2 MiB pages if
    /// the machine has enough of them free, otherwise in ordinary pages.
    pub fn new(frames: u32, frame_size: u32) -> Result<Self, RegionError> {
        if frame_size != 2048 && frame_size != 4096 {
            return Err(RegionError::FrameSize(frame_size));
        }
        let length = u64::from(frames) * u64::from(frame_size);
        if length > u64::from(u32::MAX) {
            return Err(RegionError::TooLarge(frames, frame_size));
        }
        let length = (length as usize).next_multiple_of(HUGE_PAGE);
        let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let (fd, memory, huge_pages) = match map(length, huge) {
            Ok((fd, memory)) => (fd, memory, true),
            Err(_) => {
                let (fd, memory) =
                    map(length, MemfdFlags::empty()).map_err(|source| RegionError::Memory {
                        frames,
                        size: frame_size,
                        source,
                    })?;
                (fd, memory, false)
            }
        };
        Ok(Self {
            memory,
            length,
            frame_size,
            frames,
            huge_pages,
            fd,
            tag: Tag::next(),
        })
    }

    /// Octets of a frame.
    pub fn frame_size(&self) -> u32 {
        self.frame_size
    }

    /// The tag of its frames.
    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// The logarithm of the frame size, because a division for each packet would be slow.
    #[inline]
    pub(crate) fn frame_shift(&self) -> u32 {
        self.frame_size.trailing_zeros()
    }

    /// The index of the frame that the octet at this offset is in.
    #[inline]
    pub fn frame_at(&self, offset: u64) -> u32 {
        (offset >> self.frame_shift()) as u32
    }

    /// Number of frames.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Longest packet a frame holds behind its headroom, in octets.
    pub fn capacity(&self) -> usize {
        (self.frame_size - HEADROOM) as usize
    }

    /// Whether 2 MiB pages back it.
    pub fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    /// Address and length of the whole area, to register it with a device.
    #[inline]
    pub fn raw_parts(&self) -> (NonNull<u8>, usize) {
        (self.memory, self.length)
    }

    /// The memfd behind it, for peers that map the same memory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length and never unmapped before; every borrow of its
        // octets carries the region's lifetime.
        unsafe {
            let _ = munmap(self.memory.as_ptr().cast::<c_void>(), self.length);
        }
    }
}

fn map(length: usize, flags: MemfdFlags) -> Result<(OwnedFd, NonNull<u8>), Errno> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("bora-region", flags)?;
    ftruncate(&fd, length as u64)?;
    // sealed, so that a memif peer can be sure that it does not shrink
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // SAFETY: a fresh mapping at an address of the kernel's choice cannot overlap anything.
    // POPULATE makes a shortage of huge pages an error here instead of a SIGBUS later.
    let memory = unsafe {
        mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::POPULATE,
            &fd,
            0,
        )?
    };
    NonNull::new(memory.cast::<u8>())
        .map(|memory| (fd, memory))
        .ok_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Pool, SharedFrames};

    #[test]
    fn packets_write_to_their_own_frame_only() {
        let region = Region::new(4, 2048).unwrap();
        // SAFETY: indices 1 and 2 are in range and used once.
        let (one, two) = unsafe { (Frame::from_index(&region, 1), Frame::from_index(&region, 2)) };
        let mut one = one.into_packet(&region, region.capacity()).unwrap();
        let two = two.into_packet(&region, 64).unwrap();
        region.octets_mut(&mut one).fill(0xff);
        assert!(region.octets(&two).iter().all(|&octet| octet == 0));
        assert_eq!(one.into_frame(&region).index(), 1);
    }

    #[test]
    fn a_packet_without_headroom_is_moved() {
        let region = Region::new(2, 2048).unwrap();
        let mut pool = Pool::new(SharedFrames::of_new_region(&region), 2);
        for headroom in [0, 3, 4, 100] {
            let frame = pool.take().unwrap();
            let start = frame.offset(&region) + headroom;
            let mut packet = frame.into_packet_at(&region, start, 60).unwrap();
            region.octets_mut(&mut packet).fill(7);
            assert!(packet.push(&region, 4));
            assert_eq!(region.octets(&packet)[4..], [7; 60]);
            assert!(packet.pull(4) && !packet.pull(61));
            assert_eq!(region.octets(&packet), [7; 60]);
            pool.give(packet.into_frame(&region));
        }
        let frame = pool.take().unwrap();
        let start = frame.offset(&region);
        let mut full = frame.into_packet_at(&region, start, 2048).unwrap();
        assert!(!full.push(&region, 4));
    }

    #[test]
    fn padding_is_zero_and_bounded() {
        let region = Region::new(1, 2048).unwrap();
        // SAFETY: the only frame, used once.
        let frame = unsafe { Frame::from_index(&region, 0) };
        let mut packet = frame.into_packet(&region, 60).unwrap();
        region.octets_mut(&mut packet).fill(0xaa);
        packet.truncate(42);
        assert!(packet.pad(&region, 60));
        assert_eq!(&region.octets(&packet)[42..], &[0; 18]);
        assert!(!packet.pad(&region, 4096));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a frame of another region")]
    fn packets_of_another_region_are_found() {
        let (region, other) = (Region::new(1, 2048).unwrap(), Region::new(1, 2048).unwrap());
        // SAFETY: the only frame, used once.
        let frame = unsafe { Frame::from_index(&region, 0) };
        let packet = frame.into_packet(&region, 60).unwrap();
        other.octets(&packet);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a frame of another region")]
    fn frames_of_another_region_are_found() {
        let (region, other) = (Region::new(1, 2048).unwrap(), Region::new(1, 2048).unwrap());
        // SAFETY: the only frame, used once.
        let frame = unsafe { Frame::from_index(&region, 0) };
        let packet = frame.into_packet(&region, 60).unwrap();
        packet.into_frame(&other);
    }

    #[test]
    fn bad_sizes_are_refused() {
        assert!(matches!(
            Region::new(8, 1000),
            Err(RegionError::FrameSize(1000))
        ));
        assert!(matches!(
            Region::new(u32::MAX, 4096),
            Err(RegionError::TooLarge(..))
        ));
        let region = Region::new(1, 2048).unwrap();
        // SAFETY: the only frame, used once.
        let frame = unsafe { Frame::from_index(&region, 0) };
        assert!(frame.into_packet(&region, 1793).is_err());
    }

    #[test]
    fn packets_start_in_many_sets_of_the_cache() {
        let region = Region::new(64, 2048).unwrap();
        let frames = SharedFrames::of_new_region(&region);
        let mut pool = Pool::new(frames, 64);
        let mut sets = std::collections::HashSet::new();
        let mut kept = Vec::new(); // else the pool would give the last one again
        for _ in 0..region.frames() {
            let frame = pool.take().unwrap();
            let (first, start) = (frame.offset(&region), frame.start(&region));
            let end = start + region.capacity() as u64;
            assert!(first < start && end <= first + 2048, "{first} {start}");
            sets.insert(start / 64 % 64);
            let packet = frame.into_packet(&region, 60).unwrap();
            assert_eq!(u64::from(packet.offset()), start);
            kept.push(packet.into_frame(&region));
        }
        assert_eq!(sets.len(), 8);
    }
}
