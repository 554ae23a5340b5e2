//! Making the socket and asking it for what it lost.

use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use bora_contract::Reason;

use crate::tally::{QueueStats, ReadStats, Tally};
use bora_linux::interface::index_of;

/// Octets that may wait in a socket, its bookkeeping included.
const BUFFER: c_int = 16 << 20;

/// Why there is no socket on an interface.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No such interface.
    #[error("interface {0} does not exist here")]
    NoInterface(String),
    /// Needs CAP_NET_RAW.
    #[error("no permission for packet sockets: run as root")]
    Permission,
    /// The kernel refused.
    #[error("packet socket on {interface}: {what}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// What was to be done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A socket that receives all packets of an interface, but not those Linux sends; of several on
/// one interface each gets some of the flows.
pub(super) fn open(interface: &str, fanout: Option<u16>) -> Result<OwnedFd, OpenError> {
    let failed = |what| {
        move || OpenError::System {
            interface: interface.into(),
            what,
            source: io::Error::last_os_error(),
        }
    };
    let ifindex = index_of(interface).map_err(|source| OpenError::System {
        interface: interface.into(),
        what: "find it",
        source,
    })?;
    let ifindex = ifindex.ok_or_else(|| OpenError::NoInterface(interface.into()))?;
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers. Protocol 0 receives nothing before it is bound.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(match failed("socket")() {
            OpenError::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                OpenError::Permission
            }
            error => error,
        });
    }
    // SAFETY: fresh, and owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };

    let packet = libc::SOL_PACKET;
    set(&fd, packet, libc::PACKET_IGNORE_OUTGOING, 1).ok_or_else(failed("ignore outgoing"))?;
    set(&fd, packet, libc::PACKET_AUXDATA, 1).ok_or_else(failed("VLAN tags"))?;
    set(&fd, packet, libc::PACKET_QDISC_BYPASS, 1).ok_or_else(failed("qdisc bypass"))?;
    // as large as it may be: with CAP_NET_ADMIN beyond the limit, otherwise up to it
    if set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER).is_none() {
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER).ok_or_else(failed("buffer"))?;
    }
    bind(&fd, ifindex as c_int).ok_or_else(failed("bind"))?;
    if let Some(group) = fanout {
        let value = c_int::from(group) | (libc::PACKET_FANOUT_HASH as c_int) << 16;
        set(&fd, packet, libc::PACKET_FANOUT, value).ok_or_else(failed("fan out"))?;
    }
    Ok(fd)
}

fn set(fd: &OwnedFd, level: c_int, option: c_int, value: c_int) -> Option<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the value is an int that lives through the call, and its length is said.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    (result == 0).then_some(())
}

fn bind(fd: &OwnedFd, ifindex: c_int) -> Option<()> {
    // SAFETY: plain integers, for which all zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: a whole sockaddr_ll that lives through the call, and its length.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    (result == 0).then_some(())
}

/// What the socket lost since the last call, packets; the kernel starts anew each time.
fn newly_dropped(fd: &OwnedFd) -> u64 {
    /// struct tpacket_stats
    #[repr(C)]
    #[derive(Default)]
    struct Stats {
        packets: u32,
        drops: u32,
    }
    let mut stats = Stats::default();
    let mut length = size_of::<Stats>() as libc::socklen_t;
    // SAFETY: `stats` has room for as much as is said, and any integers are valid in it.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    if result == 0 { stats.drops.into() } else { 0 }
}

/// The kernel's counter and the queue's own.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) fd: OwnedFd,
    /// Shared with the queue and all its readers.
    pub(super) tally: Arc<Tally>,
}

impl ReadStats for Reader {
    fn read(&self) -> QueueStats {
        let full = newly_dropped(&self.fd);
        self.tally.lost(Reason::RxRingFull, full);
        self.tally.read()
    }
}
