//! The XDP program that gives an interface to AF_XDP sockets.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_xdp::query;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};

use crate::skeleton::redirect::{RedirectSkel, RedirectSkelBuilder};

/// The kernel takes the program of a tester that has just ended off a moment later.
const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// Leaves the interface when dropped.
pub(super) struct Redirect {
    skeleton: RedirectSkel<'static>,
    _link: Link,
}

impl Redirect {
    /// Puts the program on an interface of the calling thread's namespace: in the driver if that
    /// can, otherwise in the network stack.
    pub(super) fn attach(interface: &str, ifindex: u32) -> anyhow::Result<Self> {
        // leaked: libbpf wants a place that stays; a few hundred octets for each port opened
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let load = "cannot load the XDP program for AF_XDP; run as root (CAP_BPF, CAP_NET_ADMIN)";
        let open = RedirectSkelBuilder::default().open(object).context(load)?;
        let skeleton = open.load().context(load)?;
        refuse_others(interface, ifindex)?;
        let link = skeleton
            .progs
            .to_sockets
            .attach_xdp(ifindex as i32)
            .with_context(|| format!("cannot attach an XDP program to {interface}"))?;
        Ok(Self {
            skeleton,
            _link: link,
        })
    }

    /// From now on packets of this queue go to the socket.
    pub(super) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> anyhow::Result<()> {
        let fd = socket.as_raw_fd().to_ne_bytes();
        let sockets = &self.skeleton.maps.sockets;
        sockets
            .update(&queue.to_ne_bytes(), &fd, MapFlags::ANY)
            .with_context(|| format!("cannot connect the AF_XDP socket of queue {queue}"))
    }
}

/// Refuses an interface that has an XDP program, unless that leaves soon.
fn refuse_others(interface: &str, ifindex: u32) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let found = query(ifindex).unwrap_or_default();
        let program = found.driver_program.max(found.generic_program);
        if program == 0 {
            return Ok(());
        }
        ensure!(
            start.elapsed() < LEAVE_PATIENCE,
            "{interface} already has an XDP program (id {program}); remove it first (`ip link set \
             dev {interface} xdp off`), or use packet sockets (`af_packet`)"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
