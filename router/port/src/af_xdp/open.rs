//! Sockets on all queues of an interface, as well as its driver can.

use std::error::Error;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bora_buffer::{HEADROOM, Region, SharedFrames};

use bora_linux::Refusal;

use super::socket::{RING_SIZE, Socket, SocketConfig, SocketError};

/// Slots that all receive rings of an interface have together, unless it has very many queues.
const SLOTS: u32 = 16 * RING_SIZE;
const SMALLEST_RING: u32 = 256;
/// Ethernet header, two VLAN tags and FCS: what the kernel adds to the MTU when it asks whether a
/// frame holds it (ETH_PAD_LEN in net/xdp/xsk_buff_pool.c).
const ETHERNET: u32 = 26;
/// The kernel takes a closed socket off its queue a moment later.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// Slots of each ring of an interface with this many queues: fewer where there are many, so that
/// the memory behind them stays bounded.
pub fn ring_size(queues: u32) -> u32 {
    (SLOTS / queues.max(1).next_power_of_two()).clamp(SMALLEST_RING, RING_SIZE)
}

/// Drivers whose cards write zero-copy packets into whole KiB only: what is left of a frame is
/// rounded down (igb_setup_srrctl(), igc_configure_rx_ring(), ixgbe_configure_srrctl() of Linux 7.3),
/// and longer packets are lost.
const WHOLE_KIB: [&str; 3] = ["igb", "igc", "ixgbe"];

/// Octets of the frames that an interface with this MTU and driver needs.
pub fn frame_size_for(mtu: u32, driver: &str) -> u32 {
    if mtu + ETHERNET <= room(2048, driver) {
        2048
    } else {
        4096
    }
}

/// Octets of a frame that a zero-copy card of this driver writes a packet to.
fn room(frame_size: u32, driver: &str) -> u32 {
    let room = frame_size - HEADROOM;
    if WHOLE_KIB.contains(&driver) {
        room & !1023
    } else {
        room
    }
}

/// Why a zero-copy card would lose long packets, if it would.
fn too_small(set: &QueueSet<'_>, frame_size: u32) -> Option<Refusal> {
    let (room, needed) = (room(frame_size, set.driver), set.mtu + ETHERNET);
    let reason = format!(
        "the driver {} would use {room} octets of each {frame_size}-octet frame, and MTU {} needs \
         {needed}; start with this port or a lower MTU",
        set.driver, set.mtu
    );
    (needed > room).then(|| Refusal::new("zero-copy", reason))
}

/// Longest MTU whose packets, with an Ethernet header and a VLAN tag, fit frames of this many octets;
/// `zero_copy` names the driver of an interface with zero-copy.
pub fn longest_mtu(frame_size: u32, zero_copy: Option<&str>) -> u32 {
    let copied = frame_size - HEADROOM - 18;
    zero_copy.map_or(copied, |driver| {
        copied.min(room(frame_size, driver) - ETHERNET)
    })
}

/// Which queues to open.
#[derive(Clone, Copy, Debug)]
pub struct QueueSet<'a> {
    /// Interface name, for messages.
    pub interface: &'a str,
    /// Interface index.
    pub ifindex: u32,
    /// Its driver; empty if it does not tell.
    pub driver: &'a str,
    /// Its MTU, in octets.
    pub mtu: u32,
    /// Receive queues, from 0; there may be fewer.
    pub queues: u32,
    /// Whether zero-copy is worth a try.
    pub zero_copy: bool,
}

/// How packets get between the driver and the sockets of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    None,
    /// The kernel copies each packet.
    Copy,
    /// The card reads and writes the frames itself.
    ZeroCopy,
    /// Zero-copy on some queues, copies on the others.
    Mixed,
}

impl Mode {
    /// The mode of these sockets; `zero_copy` says of each whether it does zero-copy.
    pub fn of(zero_copy: impl IntoIterator<Item = bool>) -> Self {
        zero_copy.into_iter().fold(Self::None, |mode, zero_copy| {
            let this = if zero_copy {
                Self::ZeroCopy
            } else {
                Self::Copy
            };
            match mode {
                Self::None => this,
                mode if mode == this => mode,
                _ => Self::Mixed,
            }
        })
    }

    /// The words of `bora show ports`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "-",
            Self::Copy => "copy",
            Self::ZeroCopy => "zero-copy",
            Self::Mixed => "zero-copy and copy",
        }
    }
}

/// What [`open_queues`] opened.
#[derive(Debug, Default)]
pub struct Opened {
    /// Sockets by queue; a queue that was refused is not there.
    pub sockets: Vec<Socket>,
    /// What did not work, in the order of trying.
    pub refusals: Vec<Refusal>,
}

impl Opened {
    /// How the sockets work.
    pub fn mode(&self) -> Mode {
        Mode::of(self.sockets.iter().map(Socket::zero_copy))
    }
}

/// Opens a socket on each queue: zero-copy where it is wanted and the driver does it, otherwise with
/// copies. A queue that refuses both is left out.
///
/// `frames` are the free ones of `region`. Sockets of one mode share one UMEM over it: `share` finds
/// one of the mode that is open already, on any interface.
pub fn open_queues<'a>(
    set: &QueueSet<'_>,
    (region, frames): (&Arc<Region>, &SharedFrames),
    share: impl Fn(bool) -> Option<BorrowedFd<'a>>,
) -> Opened {
    let mut opened = Opened::default();
    let mut zero_copy = set.zero_copy;
    if let Some(refusal) = too_small(set, region.frame_size()).filter(|_| zero_copy) {
        zero_copy = false;
        opened.refusals.push(refusal);
    }
    let deadline = Instant::now() + BUSY_PATIENCE;
    for queue in 0..set.queues {
        let attempt = |zero_copy: bool, sockets: &[Socket]| {
            let config = SocketConfig {
                interface: set.interface.into(),
                ifindex: set.ifindex,
                queue,
                ring: ring_size(set.queues),
                zero_copy,
            };
            let mut own = sockets.iter().filter(|one| one.zero_copy() == zero_copy);
            let share = share(zero_copy).or(own.next().map(AsFd::as_fd));
            patiently(&config, (region, frames), share, deadline)
        };
        if !opened.add(queue, &mut zero_copy, attempt) {
            break;
        }
    }
    opened
}

impl Opened {
    /// Tries a queue: with zero-copy while that works, then with copies; whether to go on with the
    /// next one.
    fn add(
        &mut self,
        queue: u32,
        zero_copy: &mut bool,
        attempt: impl Fn(bool, &[Socket]) -> Result<Socket, SocketError>,
    ) -> bool {
        let mut refused = None;
        if *zero_copy {
            match attempt(true, &self.sockets) {
                Ok(socket) => {
                    self.sockets.push(socket);
                    return true;
                }
                Err(error) => refused = Some(refusal("zero-copy", queue, &error)),
            }
        }
        match attempt(false, &self.sockets) {
            // drivers do not all tell how many queues are in use
            Err(SocketError::NoSuchQueue { .. }) => false,
            Ok(socket) => {
                // the queues after one that refuses would only refuse, too
                *zero_copy = *zero_copy && refused.is_none();
                self.refusals.extend(refused);
                self.sockets.push(socket);
                true
            }
            Err(error) => {
                self.refusals.extend(refused);
                self.refusals.push(refusal("copy", queue, &error));
                !matches!(error, SocketError::Permission | SocketError::Memlock(_))
            }
        }
    }
}

fn patiently(
    config: &SocketConfig,
    (region, frames): (&Arc<Region>, &SharedFrames),
    share: Option<BorrowedFd<'_>>,
    deadline: Instant,
) -> Result<Socket, SocketError> {
    loop {
        match Socket::open(config, region.clone(), frames, share) {
            Err(SocketError::Busy { .. }) if Instant::now() < deadline => thread::sleep(LOOK),
            done => return done,
        }
    }
}

fn refusal(step: &str, queue: u32, error: &SocketError) -> Refusal {
    let step = match queue {
        0 => step.to_owned(),
        queue => format!("{step} on queue {queue}"),
    };
    let reason = match (error, error.source()) {
        (SocketError::System { step, source, .. }, _)
            if source.kind() == ErrorKind::Unsupported =>
        {
            format!("the driver has none ({step}: {source})")
        }
        (SocketError::System { step, source, .. }, _) => format!("{step}: {source}"),
        // another step shows that there is this queue
        (SocketError::NoSuchQueue { .. }, _) => "bind: the driver refuses this queue".into(),
        (error, Some(source)) => format!("{error}: {source}"),
        (error, None) => error.to_string(),
    };
    Refusal::new(step, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queues_have_short_rings() {
        let sizes = [1, 16, 17, 64, 70, 128].map(ring_size);
        assert_eq!(sizes, [2048, 2048, 1024, 512, 256, 256]);
    }

    #[test]
    fn frames_hold_what_the_kernel_asks_for() {
        assert_eq!(frame_size_for(1500, ""), 2048);
        assert_eq!(frame_size_for(1766, "ice"), 2048);
        assert_eq!(frame_size_for(1767, "ice"), 4096);
        assert_eq!(
            [2048, 4096].map(|size| longest_mtu(size, None)),
            [1774, 3822]
        );
        assert_eq!(longest_mtu(4096, Some("igb")), 3046);
    }

    #[test]
    fn cards_that_use_whole_kib_get_larger_frames() {
        assert_eq!([2048, 4096].map(|size| room(size, "igb")), [1024, 3072]);
        assert_eq!(frame_size_for(998, "igb"), 2048);
        assert_eq!(frame_size_for(999, "igb"), 4096);
        let set = |mtu| QueueSet {
            interface: "eth0",
            ifindex: 2,
            driver: "igb",
            mtu,
            queues: 1,
            zero_copy: true,
        };
        assert!(too_small(&set(1500), 4096).is_none());
        assert!(too_small(&set(3046), 4096).is_none());
        assert!(too_small(&set(3047), 4096).is_some());
        assert!(too_small(&set(1500), 2048).is_some());
    }

    #[test]
    fn modes_are_of_all_sockets() {
        let mode = |sockets: &[bool]| Mode::of(sockets.iter().copied());
        assert_eq!(mode(&[]), Mode::None);
        assert_eq!(mode(&[true, true]), Mode::ZeroCopy);
        assert_eq!(mode(&[false]), Mode::Copy);
        assert_eq!(mode(&[true, false, true]), Mode::Mixed);
    }
}
