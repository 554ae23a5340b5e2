//! The system calls of an AF_XDP socket.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Where and how a socket is bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) ifindex: u32,
    pub(super) queue: u32,
    /// Without, the kernel copies.
    pub(super) zero_copy: bool,
}

pub(super) fn new_socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor; ownership is taken right below.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Registers `length` octets at `address`, in chunks of `chunk` octets, as the socket's memory
/// (UMEM). The kernel touches a chunk only between its descriptor's way in and its way back, or the
/// end of the socket.
pub(super) fn register(fd: &OwnedFd, address: u64, length: u64, chunk: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid xdp_umem_reg.
    let mut umem: libc::xdp_umem_reg = unsafe { mem::zeroed() };
    (umem.addr, umem.len, umem.chunk_size) = (address, length, chunk);
    set_option(fd, libc::XDP_UMEM_REG, &umem)
}

/// Binds a socket; one that shares the memory of another one also takes mode and wake-up flag over.
pub(super) fn bind(
    fd: &OwnedFd,
    binding: Binding,
    share: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mode = if binding.zero_copy {
        libc::XDP_ZEROCOPY
    } else {
        libc::XDP_COPY
    };
    let flags = if share.is_some() {
        libc::XDP_SHARED_UMEM
    } else {
        mode | libc::XDP_USE_NEED_WAKEUP
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: binding.ifindex,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: share.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    // SAFETY: the address is a sockaddr_xdp of the length given.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_xdp>() as u32,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Has the driver look at the fill ring.
#[cold]
pub(super) fn wake_reception(fd: &OwnedFd) {
    // SAFETY: a receive without a buffer on our own socket.
    unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
}

/// Has the kernel look at the transmit ring; an errno if there is something to say.
pub(super) fn wake_transmission(fd: &OwnedFd) -> Result<(), i32> {
    // SAFETY: a send without a buffer on our own socket.
    let result = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            ptr::null(),
            0,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO))
    } else {
        Ok(())
    }
}

pub(super) fn set_option<T>(fd: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let raw: RawFd = fd.as_raw_fd();
    // SAFETY: pointer and length describe `value`, which the kernel only reads.
    let result = unsafe {
        let value: *const T = value;
        libc::setsockopt(
            raw,
            libc::SOL_XDP,
            option,
            value.cast(),
            size_of::<T>() as u32,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// What the kernel may fill.
///
/// # Safety
/// Octets of any value must be valid, zeros too.
pub(super) unsafe trait Plain {}
// SAFETY: integers.
unsafe impl Plain for libc::xdp_options {}
// SAFETY: integers.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers.
unsafe impl Plain for libc::xdp_statistics {}

pub(super) fn get_option<T: Plain>(fd: &OwnedFd, option: i32) -> io::Result<T> {
    // SAFETY: zeros are valid, as `Plain` says.
    let mut value: T = unsafe { mem::zeroed() };
    let mut length = size_of::<T>() as u32;
    // SAFETY: pointer and length describe `value`, which the kernel fills at most that far.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}
