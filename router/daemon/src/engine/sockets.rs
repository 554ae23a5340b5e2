//! AF_XDP sockets of ports, and the memory they share.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use anyhow::Context;
use bora_buffer::{Region, SharedFrames};
use bora_forward::schedule::OutputConfig;
use bora_linux::Refusal;
use bora_port::af_xdp::{
    self, Opened, QueueSet, RING_SIZE, Socket, frame_size_for, open_queues, ring_size,
};
use bora_port::{PortQueue, StatsReader};
use bora_worker::PuntRings;
use bora_xdp::{AttachMode, Path};

use crate::config::{File, PathChoice, PortSection};
use crate::ports::twin::Twin;
use crate::ports::{Port, SocketState};

/// Packets of one output and worker that memory is set aside for; what longer queues hold beyond it
/// comes out of the common reserve.
const MOST_HELD: u32 = 16_384;
/// Frames for ports added later, or workers: a region cannot grow.
const SPARE: u32 = 8 * RING_SIZE;

/// Sockets with the memory their packets are in, by port; other ports have none.
pub(crate) struct Opening {
    pub(super) region: Arc<Region>,
    pub(super) frames: SharedFrames,
    pub(super) sockets: Vec<Vec<Socket>>,
}

/// The sockets of one new port.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(super) queues: Vec<Socket>,
    pub(super) readers: Vec<StatsReader>,
}

/// Memory for all that is there, and for ports and workers to come.
fn region_for(ports: &[Port], configs: &[PortSection], workers: u32) -> anyhow::Result<Region> {
    let sizes = ports.iter().map(|port| {
        let room = port.twin().map_or(0, Twin::room);
        frame_size_for(port.link.mtu.max(room), &port.driver)
    });
    let frame_size = sizes.max().unwrap_or(frame_size_for(1500, ""));
    let frames = SPARE + frames_for(ports, configs, workers);
    Ok(Region::new(frames, frame_size)?)
}

/// Frames for all queues, for what may wait for the slow path, and for what workers hold.
pub(super) fn frames_for(ports: &[Port], configs: &[PortSection], workers: u32) -> u32 {
    let interfaces = ports.iter().filter(|port| port.has_program());
    let queues: u32 = interfaces
        .map(|port| frames_of_queues(port.wanted_queues()))
        .sum();
    let twins = ports.iter().filter_map(Port::twin);
    let others: u32 = twins.map(|twin| twin.ring_slots() * 2 + RING_SIZE).sum();
    // no queue may starve reception of frames
    let held: u32 = configs
        .iter()
        .map(|config| held(&config.queues.output()))
        .sum();
    queues + PuntRings::PLACES as u32 + workers.saturating_mul(held) + others
}

/// Frames that the sockets of an interface with this many queues may have.
pub(super) fn frames_of_queues(queues: u32) -> u32 {
    queues * af_xdp::frames_for(ring_size(queues))
}

/// Packets that the queues of an output may hold.
fn held(output: &OutputConfig) -> u32 {
    let limits = output.classes.iter().map(|class| class.limits.packets);
    limits.fold(0, u32::saturating_add).min(MOST_HELD)
}

/// Opens sockets on all interfaces if some port takes the engine's path, and settles which ports do.
/// `None` if none does in the end.
pub(crate) fn open_all(ports: &mut [Port], config: &File) -> anyhow::Result<Option<Opening>> {
    if ports.iter().all(|port| port.path != Path::Engine) {
        return Ok(None);
    }
    let workers = config.workers.cores.len().max(1) as u32;
    let region = match region_for(ports, &config.ports, workers) {
        Ok(region) => Arc::new(region),
        Err(error) if config.path == PathChoice::Auto && !config.needs_engine() => {
            log::warn!("no engine: {error:#}");
            for port in ports.iter_mut().filter(|port| port.path == Path::Engine) {
                port.refusals
                    .push(Refusal::new("engine", format!("{error:#}")));
                port.leave_engine(config)?;
            }
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let frames = SharedFrames::of_new_region(&region);
    let mut sockets: Vec<Vec<Socket>> = Vec::with_capacity(ports.len());
    for port in &mut *ports {
        if !port.has_program() {
            sockets.push(Vec::new());
            continue;
        }
        let share = |zero_copy| {
            let mut open = sockets.iter().flatten();
            open.find(|socket| socket.zero_copy() == zero_copy)
                .map(AsFd::as_fd)
        };
        let opened = open_port(port, (&region, &frames), share);
        port.settle(&opened, config)?;
        sockets.push(opened.sockets);
    }
    if ports.iter().any(|port| port.path == Path::Engine) {
        return Ok(Some(Opening {
            region,
            frames,
            sockets,
        }));
    }
    // express sends through the drivers
    for port in ports {
        port.sockets = SocketState::Unused;
    }
    Ok(None)
}

/// A socket for each queue of a port. Sockets of one mode share one UMEM: `share` finds another one
/// of the mode.
pub(super) fn open_port<'a>(
    port: &Port,
    memory: (&Arc<Region>, &SharedFrames),
    share: impl Fn(bool) -> Option<BorrowedFd<'a>>,
) -> Opened {
    let in_driver = port.mode() == Some(AttachMode::Driver);
    let set = QueueSet {
        interface: &port.name,
        ifindex: port.ifindex,
        driver: &port.driver,
        mtu: port.link.mtu,
        queues: port.wanted_queues(),
        zero_copy: in_driver && (port.query.zero_copy || !port.query.tells),
    };
    let mut opened = open_queues(&set, memory, share);
    if !port.query.tells && opened.sockets.iter().all(|socket| !socket.zero_copy()) {
        // only a guess, no refusal
        opened
            .refusals
            .retain(|refusal| refusal.step != "zero-copy");
    }
    opened
}

/// Handles to the statistics of sockets.
pub(super) fn readers(sockets: &[Socket]) -> anyhow::Result<Vec<StatsReader>> {
    let readers: std::io::Result<_> = sockets.iter().map(PortQueue::stats_reader).collect();
    readers.context("socket statistics")
}
