//! Memory shared with the peer, which may change it at any time: no reference to it is ever made.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use bora_buffer::Purpose;
use rustix::fs::{
    FileType, MemfdFlags, SealFlags, Stat, fcntl_add_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::sigbus::Guard;

/// File systems in memory (linux/magic.h): no access to them has to wait.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Why a region of the peer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// No memory in it.
    #[error("region of no octets")]
    Empty,
    /// The file is smaller than was said.
    #[error("region of {told} octets in a file of {real}")]
    Short {
        /// Octets as announced.
        told: u64,
        /// Octets of the file.
        real: u64,
    },
    /// An access to any other file could wait for ever.
    #[error("region in a file that is not in memory (memfd, tmpfs, hugetlbfs)")]
    NotMemory,
    /// A second mapping of our own packets would make them change under our hands.
    #[error("region in the memory of Bora's own packets")]
    Own,
    /// All regions together; see [`super::Config::memory`].
    #[error("region of {told} octets, where `memory=` leaves {room}")]
    TooMuch {
        /// Octets, whole pages.
        told: u64,
        /// Octets that may be mapped.
        room: u64,
    },
    /// The kernel has no pages for it.
    #[error("no memory for a region of {octets} octets: {source}")]
    NoPages {
        /// Octets of the region.
        octets: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// Holes could come and go there without being noticed.
    #[error("region in a file with holes beyond the region")]
    Sparse,
    /// The peer shrank the file, or punched holes into it.
    #[error("the peer took away memory of region {0}")]
    Taken(usize),
    /// The kernel refused.
    #[error("cannot map a region: {0}")]
    System(#[from] io::Error),
}

/// A mapped file in memory.
#[derive(Debug)]
pub(super) struct SharedMemory {
    address: NonNull<u8>,
    length: usize,
    /// Whole pages of the file.
    mapped: usize,
    fd: OwnedFd,
    /// What tells that memory of a peer was taken away.
    peer: Option<Watch>,
}

/// What tells that memory was taken away.
#[derive(Debug)]
struct Watch {
    guard: Guard,
    size: i64,
    blocks: i64,
}

// SAFETY: plain memory, accessed through raw pointers only, and `munmap` works from any thread.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; the methods below make no reference to its octets.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory of `length` zeros, which neither side can shrink.
    pub(super) fn new(length: usize) -> io::Result<Self> {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let fd = memfd_create("bora-memif", flags)?;
        ftruncate(&fd, length as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(fd, length, length)
    }

    /// Maps `size` octets of the peer's memory, of which at most `room` are to be mapped. All of it gets
    /// its pages here, so that workers wait for none.
    pub(super) fn of_peer(fd: OwnedFd, size: u64, room: u64) -> Result<Self, MapError> {
        let stat = check_file(&fd, size)?;
        // no file is so long that this overflows
        let told = size.next_multiple_of(stat.st_blksize as u64);
        let (Ok(length), Ok(mapped), true) = (size.try_into(), told.try_into(), told <= room)
        else {
            return Err(MapError::TooMuch { told, room });
        };
        let mut memory = Self::map(fd, length, mapped)?;
        let guard = Guard::new(memory.address.as_ptr() as usize, memory.mapped)?;
        memory.populate().map_err(|error| MapError::NoPages {
            octets: size,
            source: error,
        })?;
        let stat = fstat(&memory.fd).map_err(io::Error::from)?;
        if (stat.st_blocks as u64) * 512 < stat.st_size as u64 {
            return Err(MapError::Sparse);
        }
        memory.peer = Some(Watch {
            guard,
            size: stat.st_size,
            blocks: stat.st_blocks,
        });
        Ok(memory)
    }

    fn map(fd: OwnedFd, length: usize, mapped: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice cannot overlap anything.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )?
        };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            address,
            length,
            mapped,
            fd,
            peer: None,
        })
    }

    /// Gets a page for each octet, or an error.
    fn populate(&self) -> io::Result<()> {
        let address = self.address.as_ptr().cast();
        // SAFETY: inside the mapping; the advice changes no octet.
        unsafe { madvise(address, self.length, Advice::LinuxPopulateWrite)? };
        Ok(())
    }

    /// Whether all is there that was: false once the peer has taken some away.
    pub(super) fn is_whole(&self) -> bool {
        let Some(watch) = &self.peer else { return true };
        let unchanged = |stat: Stat| stat.st_size == watch.size && stat.st_blocks >= watch.blocks;
        !watch.guard.taken()
            && match fstat(&self.fd) {
                Ok(stat) => unchanged(stat),
                Err(_) => false, // a peer's memory that cannot be looked at is not trusted
            }
    }

    /// Octets of address space that it takes.
    pub(super) fn mapped(&self) -> u64 {
        self.mapped as u64
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Address of `length` octets at `offset`, if they are inside.
    #[inline]
    pub(super) fn at(&self, offset: u32, length: usize) -> Option<NonNull<u8>> {
        let offset = offset as usize;
        if self.length.checked_sub(offset)? < length {
            return None;
        }
        // SAFETY: `offset` is at most the mapping's length, by the check above.
        Some(unsafe { self.address.add(offset) })
    }

    /// Fetches the cache line at `offset`, if it is inside.
    #[inline]
    pub(super) fn prefetch(&self, offset: u32, purpose: Purpose) {
        if let Some(address) = self.at(offset, 1) {
            bora_buffer::prefetch(address.as_ptr(), purpose);
        }
    }

    /// Copies out to `octets`; false if that is not inside.
    #[inline]
    pub(super) fn read(&self, offset: u32, octets: &mut [u8]) -> bool {
        let Some(source) = self.at(offset, octets.len()) else {
            return false;
        };
        // SAFETY: the source is inside the mapping by `at`, and `octets`, a Rust reference, is neither in
        // this mapping nor in another one of the same file (`same_file`). If the peer writes
        // meanwhile, octets differ, no more.
        unsafe { copy(source, NonNull::from(&mut *octets).cast(), octets.len()) };
        true
    }

    /// Copies `octets` in; false if that is not inside.
    #[inline]
    pub(super) fn write(&self, offset: u32, octets: &[u8]) -> bool {
        let Some(target) = self.at(offset, octets.len()) else {
            return false;
        };
        // SAFETY: the target is inside the mapping by `at`, and `octets`, a Rust reference, is neither in
        // this mapping nor in another one of the same file (`same_file`). No Rust reference to the
        // target exists.
        unsafe { copy(NonNull::from(octets).cast(), target, octets.len()) };
        true
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.peer = None;
        // SAFETY: mapped in `map` with this length, unmapped once, here; whoever keeps an address
        // of it keeps an `Arc` of it too.
        let unmapped = unsafe { munmap(self.address.as_ptr().cast(), self.mapped) };
        if let Err(error) = unmapped {
            log::warn!("memif: {} octets stay mapped: {error}", self.mapped);
        }
    }
}

/// Copies `length` octets. The shortest packets, of which there are most under load, take two wide moves that may
/// overlap, instead of a call.
///
/// # Safety
/// `length` octets may be read at `source` and written at `target`, and they do not overlap.
#[inline]
unsafe fn copy(source: NonNull<u8>, target: NonNull<u8>, length: usize) {
    const HALF: usize = 32;
    if (HALF..=2 * HALF).contains(&length) {
        let last = length - HALF;
        // SAFETY: both halves are inside the `length` octets that the caller vouches for.
        unsafe {
            target.copy_from_nonoverlapping(source, HALF);
            target
                .add(last)
                .copy_from_nonoverlapping(source.add(last), HALF);
        }
    } else {
        // SAFETY: as the caller vouches.
        unsafe { target.copy_from_nonoverlapping(source, length) };
    }
}

/// Whether two descriptors are of one file, so that mappings of them are the same memory.
pub(super) fn same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Whether `size` octets of the file can be mapped without surprises.
fn check_file(fd: &OwnedFd, size: u64) -> Result<Stat, MapError> {
    let kind = fstatfs(fd).map_err(io::Error::from)?.f_type as u64;
    let before = fstat(fd).map_err(io::Error::from)?;
    // devices can be in a tmpfs, too
    let is_file = FileType::from_raw_mode(before.st_mode) == FileType::RegularFile;
    if !is_file || ![TMPFS_MAGIC, HUGETLBFS_MAGIC].contains(&kind) {
        return Err(MapError::NotMemory);
    }
    // what cannot shrink need not be survived
    #[expect(
        clippy::let_underscore_must_use,
        reason = "hugetlbfs files and memfds of VPP and DPDK cannot be sealed; SIGBUS is survived then"
    )]
    let _ = fcntl_add_seals(fd, SealFlags::SHRINK);
    let stat = fstat(fd).map_err(io::Error::from)?;
    let real = stat.st_size.max(0).cast_unsigned();
    if size == 0 {
        return Err(MapError::Empty);
    }
    if size > real {
        return Err(MapError::Short { told: size, real });
    }
    Ok(stat)
}

#[cfg(test)]
mod tests;
