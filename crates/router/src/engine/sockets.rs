//! AF_XDP sockets of ports, and the memory they share.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_buffer::{HEADROOM, Region};
use bora_forward::schedule::OutputConfig;
use bora_port::StatsReader;
use bora_port::af_xdp::{RING_SIZE, Socket, SocketConfig, SocketError};
use bora_port::xdp::{AttachMode, MAX_QUEUES};
use bora_worker::PUNT_RING;

use crate::config::PortConfig;
use crate::ports::Port;

/// Frames of one queue: twice what its rings hold.
pub(super) const FRAMES: u32 = RING_SIZE * 2;
/// Packets of one output and worker that memory is set aside for; what longer queues hold beyond it
/// comes out of the common reserve.
const MOST_HELD: u32 = 16_384;
/// Queues that ports added later may have, or workers: a region cannot grow.
const SPARE_QUEUES: u32 = 4;
/// The kernel takes a closed socket off its queue a moment later.
const BUSY_PATIENCE: Duration = Duration::from_millis(500);

/// The sockets of one new port.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(super) queues: Vec<Socket>,
    pub(super) readers: Vec<StatsReader>,
}

impl Sockets {
    pub(crate) fn zero_copy(&self) -> bool {
        self.queues.iter().all(Socket::zero_copy)
    }
}

/// Memory for all that is there, and for ports and workers to come.
pub(super) fn region_for(
    ports: &[Port],
    configs: &[PortConfig],
    workers: u32,
) -> anyhow::Result<Region> {
    let longest = ports.iter().map(|port| port.link.mtu).max().unwrap_or(1500) + 18;
    let frame_size = if longest <= 2048 - HEADROOM {
        2048
    } else {
        4096
    };
    let frames = SPARE_QUEUES * FRAMES + frames_for(ports, configs, workers);
    Ok(Region::new(frames, frame_size)?)
}

/// Frames for all queues, for what may wait for the slow path, and for what workers hold.
pub(super) fn frames_for(ports: &[Port], configs: &[PortConfig], workers: u32) -> u32 {
    let interfaces = ports.iter().filter(|port| port.twin().is_none());
    let queues: u32 = interfaces.map(wanted_queues).sum();
    let twins = ports.iter().filter_map(Port::twin);
    let others: u32 = twins.map(|twin| twin.ring_slots() * 2 + RING_SIZE).sum();
    // no queue may starve reception of frames
    let held: u32 = configs.iter().map(|config| held(&config.output)).sum();
    queues * FRAMES + 2 * PUNT_RING as u32 + workers.saturating_mul(held) + others
}

/// Packets that the queues of an output may hold.
fn held(output: &OutputConfig) -> u32 {
    let limits = output.classes.iter().map(|class| class.limits.packets);
    limits.fold(0, u32::saturating_add).min(MOST_HELD)
}

fn wanted_queues(port: &Port) -> u32 {
    port.link.rx_queues.min(MAX_QUEUES)
}

/// Sockets for all interfaces.
pub(super) fn open_all(ports: &[Port], region: &Arc<Region>) -> anyhow::Result<Vec<Vec<Socket>>> {
    let mut all: Vec<Vec<Socket>> = Vec::with_capacity(ports.len());
    for port in ports {
        if port.twin().is_some() {
            all.push(Vec::new());
            continue;
        }
        let share = |zero_copy| {
            let mut open = all.iter().flatten();
            open.find(|socket| socket.zero_copy() == zero_copy)
                .map(AsFd::as_fd)
        };
        let sockets = open_port(port, region, share)?;
        all.push(sockets);
    }
    Ok(all)
}

/// A socket for each queue of a port. Sockets of one mode share one UMEM: `share` finds another one
/// of the mode.
pub(super) fn open_port<'a>(
    port: &Port,
    region: &Arc<Region>,
    share: impl Fn(bool) -> Option<BorrowedFd<'a>>,
) -> anyhow::Result<Vec<Socket>> {
    let zero_copy = port.query.zero_copy && port.mode() == Some(AttachMode::Driver);
    let mut sockets: Vec<Socket> = Vec::new();
    for queue in 0..wanted_queues(port) {
        let config = SocketConfig {
            interface: port.name.clone(),
            ifindex: port.ifindex,
            queue,
            zero_copy,
        };
        let own = sockets.first().map(AsFd::as_fd);
        match open(&config, region, share(zero_copy).or(own)) {
            Ok(socket) => sockets.push(socket),
            // Linux tells how many queues there may be, not how many are in use
            Err(SocketError::NoSuchQueue { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(!sockets.is_empty(), "{} has no receive queue", port.name);
    Ok(sockets)
}

fn open(
    config: &SocketConfig,
    region: &Arc<Region>,
    share: Option<BorrowedFd<'_>>,
) -> Result<Socket, SocketError> {
    let start = Instant::now();
    loop {
        match Socket::open(config, region.clone(), share) {
            Err(SocketError::Busy { .. }) if start.elapsed() < BUSY_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Handles to the statistics of sockets.
pub(super) fn readers(sockets: &[Socket]) -> anyhow::Result<Vec<StatsReader>> {
    let reader = |socket: &Socket| Ok(StatsReader::AfXdp(socket.stats_reader()?));
    let readers: std::io::Result<_> = sockets.iter().map(reader).collect();
    readers.context("socket statistics")
}
