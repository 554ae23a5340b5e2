//! Memory shared with the peer, which may change it at any time: no reference to it is ever made.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Why a region of the peer cannot be mapped.
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
    /// The peer could cut it off under our hands, which would end this process with SIGBUS; see
    /// [`super::Config::unsealed_regions`].
    #[error("region without F_SEAL_SHRINK: its memory could be taken away at any time")]
    Unsealed,
    /// The kernel refused.
    #[error("cannot map a region: {0}")]
    System(#[from] io::Error),
}

/// A mapped memfd.
#[derive(Debug)]
pub(super) struct SharedMemory {
    address: NonNull<u8>,
    length: usize,
    fd: OwnedFd,
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
        Self::map(fd, length)
    }

    /// Maps `size` octets of the peer's memory, which it cannot shrink unless `unsealed` memory is
    /// good enough.
    pub(super) fn of_peer(fd: OwnedFd, size: u64, unsealed: bool) -> Result<Self, MapError> {
        let real = u64::try_from(fstat(&fd).map_err(io::Error::from)?.st_size).unwrap_or(0);
        if size > real {
            return Err(MapError::Short { told: size, real });
        }
        if size == 0 {
            return Err(MapError::Empty);
        }
        // not every peer seals its memory; where it still can be done, we do it
        let _ = fcntl_add_seals(&fd, SealFlags::SHRINK);
        match fcntl_get_seals(&fd) {
            Ok(seals) if seals.contains(SealFlags::SHRINK) => {}
            _ if unsealed => {}
            _ => return Err(MapError::Unsealed),
        }
        // the size may have changed between the first look and the seal
        let real = u64::try_from(fstat(&fd).map_err(io::Error::from)?.st_size).unwrap_or(0);
        if size > real {
            return Err(MapError::Short { told: size, real });
        }
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory);
        Ok(Self::map(fd, length.map_err(io::Error::from)?)?)
    }

    fn map(fd: OwnedFd, length: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice cannot overlap anything.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
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
            fd,
        })
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

    /// Copies out to `octets`; false if that is not inside.
    #[inline]
    pub(super) fn read(&self, offset: u32, octets: &mut [u8]) -> bool {
        let Some(source) = self.at(offset, octets.len()) else {
            return false;
        };
        // SAFETY: the source is inside the mapping by `at`, and `octets`, a Rust reference, is not in
        // this mapping. If the peer writes meanwhile, octets differ, no more.
        unsafe { source.copy_to_nonoverlapping(NonNull::from(&mut *octets).cast(), octets.len()) };
        true
    }

    /// Copies `octets` in; false if that is not inside.
    #[inline]
    pub(super) fn write(&self, offset: u32, octets: &[u8]) -> bool {
        let Some(target) = self.at(offset, octets.len()) else {
            return false;
        };
        // SAFETY: the target is inside the mapping by `at`, and `octets`, a Rust reference, is not in
        // this mapping. No Rust reference to the target exists.
        unsafe { target.copy_from_nonoverlapping(NonNull::from(octets).cast(), octets.len()) };
        true
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once, here; whoever keeps an address
        // of it keeps an `Arc` of it too.
        unsafe {
            let _ = munmap(self.address.as_ptr().cast(), self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_outside_are_refused() {
        let memory = SharedMemory::new(8192).unwrap();
        assert!(memory.write(8190, &[1, 2]));
        assert!(!memory.write(8191, &[1, 2]));
        let mut octets = [0; 2];
        assert!(memory.read(8190, &mut octets) && octets == [1, 2]);
        assert!(!memory.read(8193, &mut []) && !memory.read(u32::MAX, &mut octets));
    }

    #[test]
    fn memory_that_may_shrink_or_is_short_is_refused() {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 4096).unwrap();
        let copy = fd.try_clone().unwrap();
        assert!(matches!(
            SharedMemory::of_peer(copy, 4096, false),
            Err(MapError::Unsealed)
        ));
        assert!(matches!(
            SharedMemory::of_peer(fd, 4097, false),
            Err(MapError::Short {
                told: 4097,
                real: 4096
            })
        ));
        let flags = MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("test", flags).unwrap();
        ftruncate(&fd, 4096).unwrap();
        let keep = fd.try_clone().unwrap();
        let memory = SharedMemory::of_peer(fd, 4096, false).unwrap();
        assert!(ftruncate(&keep, 0).is_err());
        assert!(memory.write(0, &[1]));
    }
}
