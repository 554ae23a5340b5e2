//! Whether the kernel has let go of a closed socket.

use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::system::{Binding, bind, new_socket, register, set_option};

/// Octets of the memory of the socket that tries: one chunk.
const CHUNK: u32 = 4096;
/// Slots of its rings.
const SLOTS: u32 = 64;

/// Whether a queue has no socket any more. The kernel takes a socket off its queue a moment after
/// `close` returns (xp_release_deferred() in net/xdp/xsk_buff_pool.c), and refuses a second one until
/// the driver has given the buffers of the first one back. The first one also lives until the packets
/// that it sent are on the wire, whose octets some drivers read from its frames.
pub(super) fn is_free(place: Binding) -> bool {
    match try_bind(place) {
        Ok(Ok(())) => true,
        // the interface or its queue is gone
        Ok(Err(error)) => matches!(
            error.raw_os_error(),
            Some(libc::ENODEV | libc::EINVAL | libc::ENETDOWN)
        ),
        Err(_) => false, // not known
    }
}

/// Tries to bind another socket there, in copy mode, which changes nothing at the card. The outer
/// result is that of making the socket, the inner one that of binding it.
fn try_bind(place: Binding) -> io::Result<io::Result<()>> {
    let memory = Memory::new()?;
    let fd = new_socket()?;
    register(&fd, memory.0 as u64, CHUNK.into(), CHUNK)?;
    for ring in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
    ] {
        set_option(&fd, ring, &SLOTS)?;
    }
    let copies = Binding {
        zero_copy: false,
        ..place
    };
    Ok(bind(&fd, copies, None))
}

/// A page for a socket that receives nothing.
struct Memory(*mut std::ffi::c_void);

impl Memory {
    fn new() -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let page = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                CHUNK as usize,
                access,
                MapFlags::PRIVATE,
            )
        };
        Ok(Self(page?))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nobody here has a reference to it; the kernel
        // keeps the page itself as long as it needs it.
        let unmapped = unsafe { munmap(self.0, CHUNK as usize) };
        if let Err(error) = unmapped {
            log::debug!("a page stays mapped: {error}");
        }
    }
}
