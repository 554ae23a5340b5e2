//! Opening ports.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_buffer::{Region, SharedFrames};
use bora_port::af_xdp::frame_size_for;
use bora_port::interface::{Interface, Promiscuous};
use bora_port::memif::{self, LinkState, Role};
use bora_port::{Queue, af_packet};

use super::drops::Drops;
use super::info::PortInfo;
use super::netns::inside;
use super::redirect::Redirect;
use super::side::Side;
use super::spec::{Kind, PortSpec};
use super::{ETHERNET_AND_FCS, af_xdp, management};
use crate::live::{self, Receiver};

/// Frames of a memif or AF_PACKET port: more than its rings hold.
const FRAMES: u32 = 4096;
/// Slots of a memif ring as power of two.
const LOG2_MEMIF_RING: u8 = 10;
/// How long an interface may take to have a carrier, or a memif peer to come.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// What may be said of opening ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Takes interfaces, too, that carry the default route or an ssh session.
    pub force: bool,
}

/// An open port. What was changed for it is undone when it is dropped.
pub struct Port {
    /// What was asked for.
    pub spec: PortSpec,
    /// What it is.
    pub info: PortInfo,
    /// Frames of the test, and of ARP and neighbour discovery; of [`Kind::Xdp`] only the latter.
    pub(crate) side: Side,
    /// Of [`Kind::Xdp`]: the interface that a [`live::Sender`] sends to, and what judges.
    pub(crate) live: Option<(u32, Receiver)>,
    /// Of [`Kind::Xdp`] on a veth: what its ring had no room for.
    drops: Option<Drops>,
    memif: Option<memif::Port>,
    /// Only kept: both are undone with them.
    _redirect: Option<Redirect>,
    _promiscuous: Option<Promiscuous>,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.info)
    }
}

/// Opens all ports; `memory` are the queues of those of [`Kind::Memory`], by number.
///
/// # Errors
/// The message names the port and what to do.
pub fn open(specs: &[PortSpec], memory: Vec<Side>, options: Options) -> anyhow::Result<Vec<Port>> {
    let mut memory: Vec<Option<Side>> = memory.into_iter().map(Some).collect();
    let mut ports = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let port = open_one(spec, index, &mut memory, options);
        ports.push(port.with_context(|| format!("port {}", spec.name))?);
    }
    // a memif server may be waiting for a client that is a port, too
    for port in &mut ports {
        port.wait_for_peer()
            .with_context(|| format!("port {}", port.spec.name))?;
    }
    Ok(ports)
}

fn open_one(
    spec: &PortSpec,
    index: usize,
    memory: &mut [Option<Side>],
    options: Options,
) -> anyhow::Result<Port> {
    match &spec.kind {
        Kind::Memory(number) => {
            let side = memory.get_mut(*number).and_then(Option::take);
            let side =
                side.with_context(|| format!("no queues number {number} were handed over"))?;
            let info = PortInfo::without_interface(spec, index, "memory");
            Ok(Port::new(spec, info, side))
        }
        Kind::Memif { socket, server } => open_memif(spec, index, socket, *server),
        Kind::AfPacket(name) | Kind::Xdp(name) | Kind::AfXdp(name) => {
            let is_own = spec.netns.is_none();
            inside(spec.netns.as_deref(), || {
                if is_own && !options.force {
                    management::refuse(name)?;
                }
                let device = interface(name, spec.netns.as_deref())?;
                // the tester answers for addresses that Linux does not know, multicast groups included
                let promiscuous = Promiscuous::new(device.index)
                    .with_context(|| format!("{name} cannot take all frames; run as root"))?;
                let mut port = match &spec.kind {
                    Kind::AfXdp(_) => open_af_xdp(spec, name, device)?,
                    Kind::Xdp(_) => open_live(spec, name, device)?,
                    _ => open_af_packet(spec, name, device)?,
                };
                port._promiscuous = Some(promiscuous);
                Ok(port)
            })
        }
    }
}

/// The interface as soon as it has a carrier.
fn interface(name: &str, netns: Option<&str>) -> anyhow::Result<Interface> {
    let start = Instant::now();
    let place = netns.map_or_else(
        || "here".to_owned(),
        |netns| format!("in namespace {netns}"),
    );
    loop {
        let device = Interface::named(name)
            .with_context(|| format!("there is no interface {name} {place}; see `ip link`"))?;
        if device.is_up {
            return Ok(device);
        }
        ensure!(
            start.elapsed() < PATIENCE,
            "{name} is down or has no carrier; `ip link set {name} up`, and look at the cable and \
             the other end"
        );
        thread::sleep(LOOK);
    }
}

fn open_af_packet(spec: &PortSpec, name: &str, device: Interface) -> anyhow::Result<Port> {
    let (region, frames) = memory_for(device.mtu, "", FRAMES)?;
    let queues = af_packet::Queue::open(name, 1, &region)?;
    let queues = queues.into_iter().map(Queue::AfPacket).collect();
    let info = PortInfo {
        queues: 1,
        ..PortInfo::on_interface(spec, device, "packet sockets")
    };
    Ok(Port::new(spec, info, Side::new(queues, region, frames)?))
}

/// ARP and neighbour discovery go through a packet socket, where comes what the XDP program passes.
fn open_live(spec: &PortSpec, name: &str, device: Interface) -> anyhow::Result<Port> {
    let live = (device.index, Receiver::new(device.index)?);
    // attaching a program makes many devices lose their carrier for a while
    let mut port = open_af_packet(spec, name, interface(name, None)?)?;
    port.info.mode = "live XDP frames out, XDP program in";
    port.info.longest_frame = port.info.longest_frame.min(live::LONGEST.into());
    port.live = Some(live);
    // other drivers count what an XDP program has taken as dropped, too
    if port.info.driver == "veth" {
        port.drops = Some(Drops::new(name)?);
    }
    Ok(port)
}

fn open_af_xdp(spec: &PortSpec, name: &str, device: Interface) -> anyhow::Result<Port> {
    let opened = af_xdp::open(name, &device)?;
    // attaching a program makes many devices lose their carrier for a while
    let device = interface(name, None)?;
    let info = PortInfo {
        queues: opened.side.queues.len(),
        ..PortInfo::on_interface(spec, device, opened.mode)
    };
    let mut port = Port::new(spec, info, opened.side);
    port._redirect = Some(opened.redirect);
    Ok(port)
}

fn open_memif(spec: &PortSpec, index: usize, socket: &Path, server: bool) -> anyhow::Result<Port> {
    let config = memif::Config {
        role: if server { Role::Server } else { Role::Client },
        socket: socket.into(),
        id: 0,
        secret: String::new(),
        name: spec.name.clone(),
        queues: 1,
        log2_ring_size: LOG2_MEMIF_RING,
        memory: 1 << 40, // the router under test may bring what it likes
    };
    let (region, frames) = memory_for(1500, "", FRAMES)?;
    let (memif, queues) = memif::Port::open(config, region.clone())?;
    let queues = queues.into_iter().map(Queue::Memif).collect();
    let info = PortInfo::without_interface(spec, index, "shared memory");
    let mut port = Port::new(spec, info, Side::new(queues, region, frames)?);
    port.memif = Some(memif);
    Ok(port)
}

/// Memory for frames of interfaces with this MTU, and one VLAN tag.
pub(super) fn memory_for(
    mtu: u32,
    driver: &str,
    frames: u32,
) -> anyhow::Result<(Arc<Region>, SharedFrames)> {
    let region = Arc::new(Region::new(frames, frame_size_for(mtu, driver))?);
    let free = SharedFrames::of_new_region(&region);
    Ok((region, free))
}

impl Port {
    fn new(spec: &PortSpec, mut info: PortInfo, side: Side) -> Self {
        const FCS: usize = 4;
        const TAG: usize = 4;
        let capacity = side.region.capacity() + FCS - TAG;
        info.longest_frame = match info.longest_frame {
            0 => capacity,
            longest => longest.min(capacity).max(ETHERNET_AND_FCS),
        };
        Self {
            spec: spec.clone(),
            info,
            side,
            live: None,
            drops: None,
            memif: None,
            _redirect: None,
            _promiscuous: None,
        }
    }

    /// Frames that the port lost so far, either way.
    pub(crate) fn missed(&self) -> u64 {
        self.side.missed() + self.drops.as_ref().map_or(0, Drops::read)
    }

    fn wait_for_peer(&mut self) -> anyhow::Result<()> {
        let Some(memif) = &self.memif else {
            return Ok(());
        };
        let start = Instant::now();
        loop {
            self.side.settle();
            let is_up = |queue: &Queue| match queue {
                Queue::Memif(queue) => queue.is_up() == (true, true),
                _ => true,
            };
            let state = memif.link_state();
            if matches!(state, LinkState::Up { .. }) && self.side.queues.iter().all(is_up) {
                return Ok(());
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "memif {state}; start the other side first, and give it the other role"
            );
            thread::sleep(LOOK);
        }
    }
}
