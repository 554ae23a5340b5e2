//! Sockets that are closed, whose frames the kernel may still use.

use std::io;
use std::time::{Duration, Instant};

use bora_buffer::{FrameSet, SharedFrames};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::system::{Binding, bind, new_socket, register, set_option};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(5);
/// What the memory of a socket that asks is made of: one chunk.
const CHUNK: u32 = 4096;
/// Slots of its rings.
const SLOTS: u32 = 64;

/// The frames of a closed socket. A card may go on writing to them, or sending from them, until the
/// kernel has taken the socket off its queue, which it does a moment after `close` returns
/// (xp_release_deferred() in net/xdp/xsk_buff_pool.c). To drop this is to lose the frames.
#[derive(Debug)]
#[must_use = "its frames come home only through it"]
pub struct Closing {
    frames: FrameSet,
    /// Where the socket was bound, if it was.
    place: Option<Binding>,
    asked: Option<Instant>,
    unsent: u32,
}

impl Closing {
    pub(super) fn new(frames: FrameSet, place: Option<Binding>, unsent: u32) -> Self {
        Self {
            frames,
            place,
            asked: None,
            unsent,
        }
    }

    /// Packets that the kernel had not taken from the transmit ring.
    pub fn unsent(&self) -> u32 {
        self.unsent
    }

    /// Frames that are not home yet.
    pub fn len(&self) -> u32 {
        self.frames.len()
    }

    /// Whether all frames are home.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Gives the frames to `home` if the kernel is through with them; whether they are there. To be
    /// called again until they are, on a thread in the interface's network namespace.
    pub fn finish(&mut self, home: &SharedFrames) -> bool {
        if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return false;
        }
        self.asked = Some(Instant::now());
        if self.place.is_some_and(|place| !is_free(place)) {
            return false;
        }
        self.frames.drain().for_each(|frame| home.give(frame));
        true
    }
}

/// Whether no socket is on a queue any more. The kernel refuses a second one as long as the first
/// one's buffers are with the driver; and the first one lives as long as packets it sent are on
/// their way, whose octets some drivers read from its frames.
fn is_free(place: Binding) -> bool {
    match try_bind(place) {
        Ok(Ok(())) => true,
        // the interface or its queue is no more
        Ok(Err(error)) => matches!(
            error.raw_os_error(),
            Some(libc::ENODEV | libc::EINVAL | libc::ENETDOWN)
        ),
        Err(_) => false, // could not even ask
    }
}

/// Binds a socket of its own there, with copies: that changes nothing at the card. The outer result
/// is of everything before.
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
        let _ = unsafe { munmap(self.0, CHUNK as usize) };
    }
}
