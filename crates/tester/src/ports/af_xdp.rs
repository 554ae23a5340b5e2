//! AF_XDP sockets on all queues of an interface, as fast as its driver can.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bora_buffer::Region;
use bora_port::Queue;
use bora_port::af_xdp::{RING_SIZE, Socket, SocketConfig, SocketError};
use bora_port::interface::Interface;
use bora_port::xdp::query;

use super::open::memory_for;
use super::redirect::{MAX_QUEUES, Redirect};
use super::side::Side;

/// Frames of one queue: its four rings full.
const FRAMES: u32 = 4 * RING_SIZE;
/// The kernel takes a closed socket off its queue a moment later.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Opened {
    pub(super) side: Side,
    pub(super) redirect: Redirect,
    pub(super) mode: &'static str,
}

/// Opens an interface of the calling thread's namespace.
pub(super) fn open(name: &str, device: &Interface) -> anyhow::Result<Opened> {
    check_queues(name, device.queues)?;
    let redirect = Redirect::attach(name, device.index)?;
    let found = query(device.index).unwrap_or_default();
    let generic = found.driver_program == 0;
    let queues = device.queues;
    let (region, frames) = memory_for(device.mtu, queues * FRAMES)?;
    let all = |zero_copy| sockets(name, device.index, queues, zero_copy, &region);
    let sockets = if found.zero_copy && !generic {
        // drivers may say that they can and still refuse, for instance for want of queues
        all(true).or_else(|_| all(false))?
    } else {
        all(false)?
    };
    ensure!(!sockets.is_empty(), "{name} has no receive queue");
    let mode = match (sockets.iter().all(Socket::zero_copy), generic) {
        (true, _) => "zero-copy",
        (false, false) => "copy",
        (false, true) => "copy, generic XDP",
    };
    for (queue, socket) in (0..).zip(&sockets) {
        redirect.set_socket(queue, socket.as_fd())?;
    }
    let queues = sockets.into_iter().map(Queue::AfXdp).collect();
    Ok(Opened {
        side: Side::new(queues, region, frames)?,
        redirect,
        mode,
    })
}

/// Frames of a queue without a socket would be lost.
fn check_queues(name: &str, queues: u32) -> anyhow::Result<()> {
    ensure!(
        queues <= MAX_QUEUES,
        "{name} has {queues} receive queues, and AF_XDP ports serve {MAX_QUEUES} at most; reduce \
         them: `ethtool -L {name} combined {MAX_QUEUES}` (or `rx {MAX_QUEUES}`)"
    );
    Ok(())
}

/// A socket for each queue; all share the memory of the first.
fn sockets(
    name: &str,
    ifindex: u32,
    queues: u32,
    zero_copy: bool,
    region: &Arc<Region>,
) -> Result<Vec<Socket>, SocketError> {
    let mut sockets: Vec<Socket> = Vec::new();
    for queue in 0..queues {
        let config = SocketConfig {
            interface: name.into(),
            ifindex,
            queue,
            zero_copy,
        };
        match patiently(&config, region, sockets.first()) {
            Ok(socket) => sockets.push(socket),
            // not all drivers tell how many are in use
            Err(SocketError::NoSuchQueue { .. }) if queue > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sockets)
}

fn patiently(
    config: &SocketConfig,
    region: &Arc<Region>,
    share: Option<&Socket>,
) -> Result<Socket, SocketError> {
    let start = Instant::now();
    loop {
        match Socket::open(config, region.clone(), share.map(AsFd::as_fd)) {
            Err(SocketError::Busy { .. }) if start.elapsed() < BUSY_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_queues_are_refused() {
        assert!(check_queues("e0", MAX_QUEUES).is_ok());
        let error = check_queues("e0", MAX_QUEUES + 1).unwrap_err().to_string();
        assert!(error.contains("ethtool -L e0"), "{error}");
    }
}
