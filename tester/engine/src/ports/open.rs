//! Opening ports.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use bora_linux::interface::{Interface, Promiscuous};
use bora_port::Queue;
use bora_port::kinds::{AnyKind, af_packet};
use bora_port::port::Setup;

use super::drops::Drops;
use super::info::PortInfo;
use super::netns::inside;
use super::redirect::Redirect;
use super::side::{Side, memory_for};
use super::spec::{Kind, PortSpec};
use super::{ETHERNET_AND_FCS, af_xdp, management};
use crate::xdp::{self, Receiver};

/// Frames of a port without AF_XDP, besides what its rings hold.
const FRAMES: u32 = 4096;
/// Octets of a packet, where no interface says.
const MTU: u32 = 1500;
/// How long an interface may take to have a carrier, or a memif peer to come.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Options for opening ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Takes interfaces, too, that carry the default route of their network namespace or an ssh session.
    pub force: bool,
}

/// An open port. What was changed for it is undone when it is dropped.
pub struct Port {
    /// What was asked for.
    pub spec: PortSpec,
    /// What it is.
    pub info: PortInfo,
    /// Frames of the test, and of ARP and neighbour discovery; a port of [`Kind::Xdp`] has only the latter.
    pub(crate) side: Side,
    /// The index of the interface to send to, and the program that receives; only of [`Kind::Xdp`].
    pub(crate) live: Option<(u32, Receiver)>,
    /// Frames that its ring had no room for; only of [`Kind::Xdp`] on a veth.
    drops: Option<Drops>,
    /// The control side; only of [`Kind::Port`].
    control: Option<Box<dyn bora_port::port::Port>>,
    /// Kept, because dropping them undoes their changes.
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
        Kind::Xdp(name) => on_interface(spec, name, options, |it| open_live(spec, name, it)),
        Kind::AfXdp(name) => on_interface(spec, name, options, |it| open_af_xdp(spec, name, it)),
        Kind::Port(kind @ AnyKind::AfPacket(sockets)) => {
            on_interface(spec, &sockets.interface, options, |it| {
                open_kind(spec, kind, PortInfo::on_interface(spec, it, ""))
            })
        }
        Kind::Port(kind) => inside(spec.netns.as_deref(), || {
            open_kind(spec, kind, PortInfo::without_interface(spec, index, ""))
        }),
    }
}

/// Opens a port on an interface, which must be there and up.
fn on_interface(
    spec: &PortSpec,
    name: &str,
    options: Options,
    open: impl FnOnce(Interface) -> anyhow::Result<Port> + Send,
) -> anyhow::Result<Port> {
    inside(spec.netns.as_deref(), || {
        if !options.force {
            management::refuse(name, spec.netns.as_deref())?;
        }
        let device = interface(name, spec.netns.as_deref())?;
        // the tester answers for addresses that Linux does not know, multicast groups included
        let promiscuous = Promiscuous::new(device.index)
            .with_context(|| format!("{name} cannot take all frames; run as root"))?;
        let mut port = open(device)?;
        port._promiscuous = Some(promiscuous);
        Ok(port)
    })
}

/// The interface as soon as it has a carrier.
fn interface(name: &str, netns: Option<&str>) -> anyhow::Result<Interface> {
    let start = Instant::now();
    let place = netns.map_or_else(
        || "here".to_owned(),
        |netns| format!("in namespace {netns}"),
    );
    loop {
        let device = Interface::named(name)?
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

/// A port of a kind that the router has, too.
fn open_kind(spec: &PortSpec, kind: &AnyKind, info: PortInfo) -> anyhow::Result<Port> {
    let longest = u32::try_from(info.longest_frame.saturating_sub(ETHERNET_AND_FCS))?;
    let mtu = if longest == 0 { MTU } else { longest };
    let mtu = mtu.max(kind.options().room());
    let (region, frames) = memory_for(mtu, "", FRAMES + 2 * kind.options().ring_slots())?;
    let setup = Setup {
        name: &spec.name,
        mac: info.mac.0,
        region: &region,
        frames: &frames,
    };
    let opened = kind.options().open(&setup);
    let (control, queues) = opened.map_err(|error| anyhow!(error))?;
    let info = PortInfo {
        queues: queues.len(),
        mode: mode(kind),
        ..info
    };
    let mut port = Port::new(spec, info, Side::new(queues, region, frames)?);
    port.control = Some(control);
    Ok(port)
}

/// How packets pass.
fn mode(kind: &AnyKind) -> &'static str {
    match kind {
        AnyKind::Memif(_) => "shared memory",
        AnyKind::AfPacket(_) => "packet sockets",
        other => other.name(),
    }
}

/// ARP and neighbour discovery go through a packet socket, where comes what the XDP program passes.
fn open_live(spec: &PortSpec, name: &str, device: Interface) -> anyhow::Result<Port> {
    let live = (device.index, Receiver::new(device.index)?);
    // attaching a program makes many devices lose their carrier for a while
    let info = PortInfo::on_interface(spec, interface(name, None)?, "");
    let packets = AnyKind::AfPacket(af_packet::Options {
        interface: name.into(),
        queue_pairs: 1,
    });
    let mut port = open_kind(spec, &packets, info)?;
    port.info.mode = "live XDP frames out, XDP program in";
    port.info.longest_frame = port.info.longest_frame.min(xdp::LONGEST.into());
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
            control: None,
            _redirect: None,
            _promiscuous: None,
        }
    }

    /// Frames that the port lost so far, either way.
    ///
    /// # Errors
    /// Linux no longer tells, because the interface is gone.
    pub(crate) fn missed(&self) -> anyhow::Result<u64> {
        let dropped = match &self.drops {
            Some(drops) => drops.read()?,
            None => 0,
        };
        Ok(self.side.missed() + dropped)
    }

    fn wait_for_peer(&mut self) -> anyhow::Result<()> {
        let Some(control) = &self.control else {
            return Ok(());
        };
        let start = Instant::now();
        loop {
            self.side.settle();
            let ready = self.side.queues.iter().all(Queue::is_connected);
            if control.is_up() && ready {
                return Ok(());
            }
            let state = control.state().unwrap_or_else(|| "down".into());
            ensure!(
                start.elapsed() < PATIENCE,
                "{} {state}; start the other side first, and give it the other role",
                self.spec.kind
            );
            thread::sleep(LOOK);
        }
    }
}
