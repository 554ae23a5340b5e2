//! AF_XDP sockets on all queues of an interface, as fast as its driver can.

use std::os::fd::AsFd;

use anyhow::{Context as _, ensure};
use bora_linux::interface::Interface;
use bora_port::Queue;
use bora_port::af_xdp::{Mode, Opened as Sockets, QueueSet, open_queues, ring_size};
use bora_xdp::query;

use super::redirect::Redirect;
use super::side::{Side, memory_for};
use bora_xdp::MAX_QUEUES;

pub(super) struct Opened {
    pub(super) side: Side,
    pub(super) redirect: Redirect,
    pub(super) mode: &'static str,
}

/// Opens an interface of the calling thread's namespace.
pub(super) fn open(name: &str, device: &Interface) -> anyhow::Result<Opened> {
    check_queues(name, device.queues)?;
    let redirect = Redirect::attach(name, device.index)?;
    let found = query(device.index).with_context(|| format!("what {name} can do with XDP"))?;
    let generic = found.driver_program == 0;
    let queues = device.queues;
    // a ring's worth more than a socket has, for the pool
    let (region, frames) = memory_for(device.mtu, &device.driver, queues * ring_size(queues) * 4)?;
    let set = QueueSet {
        interface: name,
        ifindex: device.index,
        driver: &device.driver,
        mtu: device.mtu,
        queues,
        zero_copy: !generic && (found.zero_copy || !found.tells),
    };
    let opened = open_queues(&set, (&region, &frames), |_| None);
    check_all(name, &opened)?;
    let mode = match (opened.mode(), generic) {
        (Mode::Copy, true) => "copy, generic XDP",
        (mode, _) => mode.name(),
    };
    for socket in &opened.sockets {
        redirect.set_socket(socket.queue(), socket.as_fd())?;
    }
    let queues = opened.sockets.into_iter().map(Queue::AfXdp).collect();
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

/// Frames of a queue that refuses a socket would be lost.
fn check_all(name: &str, opened: &Sockets) -> anyhow::Result<()> {
    let lacks = opened
        .refusals
        .iter()
        .find(|refusal| refusal.step.starts_with("copy"));
    ensure!(
        !opened.sockets.is_empty() && lacks.is_none(),
        "no AF_XDP socket on every queue of {name}: {}",
        opened
            .refusals
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    );
    Ok(())
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
