//! Twins: TAP interfaces in Linux for ports that are no interfaces of Linux.

use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use bora_buffer::{Region, SharedFrames};
use bora_linux::interface::mac_of;
use bora_port::Queue;
use bora_port::offload::Offload;
use bora_port::port::{Port, Setup};
use bora_port::tap::{self, Device};

use crate::config::{StationAddress, TwinKind};
use crate::process::runtime_dir::RuntimeDir;

/// A port's twin in Linux, with the port itself.
pub(crate) struct Twin {
    /// The interface; addresses, ARP and routing daemons live on it.
    device: Device,
    kind: TwinKind,
    /// The control side of the port, once it is open.
    port: Option<Box<dyn Port>>,
    carrier: Option<bool>,
}

impl Twin {
    /// Makes the interface, or takes over that of an earlier Bora. It has no carrier yet.
    pub(crate) fn open(
        name: &str,
        mac: Option<StationAddress>,
        kind: &TwinKind,
    ) -> anyhow::Result<Self> {
        let device = Device::open(name, 1)?;
        let mac = match mac {
            Some(mac) => Some(mac.0),
            None => kind.options().mac().map_err(|error| anyhow!(error))?,
        };
        if let Some(mac) = mac {
            device.set_mac(mac)?;
        }
        let mut twin = Self {
            device,
            kind: kind.clone(),
            port: None,
            carrier: None,
        };
        twin.set_carrier(false);
        Ok(twin)
    }

    /// Packets its rings hold in both directions, all queues together.
    pub(crate) fn ring_slots(&self) -> u32 {
        self.kind.options().ring_slots()
    }

    /// Octets of a packet that frames must have room for.
    pub(crate) fn room(&self) -> u32 {
        self.kind.options().room()
    }

    /// Opens the port and returns its queues.
    pub(crate) fn open_queues(
        &mut self,
        region: &Arc<Region>,
        frames: &SharedFrames,
    ) -> anyhow::Result<Vec<Queue>> {
        let (name, options) = (self.device.name(), self.kind.options());
        let setup = Setup {
            name,
            mac: mac_of(name)?.with_context(|| format!("{name} is gone"))?,
            region,
            frames,
        };
        let opened = options.open(&setup).map_err(|error| anyhow!(error));
        let (port, queues) = opened.with_context(|| options.to_string())?;
        self.port = Some(port);
        Ok(queues)
    }

    /// The queue that receives what Linux sends by the port.
    pub(crate) fn queue(&self, region: &Arc<Region>) -> std::io::Result<Queue> {
        let fd = self
            .device
            .queues()
            .next()
            .ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Queue::Tap(tap::Queue::new(fd, region.clone())?))
    }

    /// Hands packets to Linux as received by the port.
    pub(crate) fn writer(&self) -> std::io::Result<tap::Writer> {
        let fd = self
            .device
            .queues()
            .next()
            .ok_or(std::io::ErrorKind::NotFound)?;
        tap::Writer::new(fd)
    }

    /// Gives the interface a carrier while the port is up; to be called again and again.
    pub(crate) fn follow(&mut self) {
        self.set_carrier(self.port.as_ref().is_some_and(|port| port.is_up()));
    }

    fn set_carrier(&mut self, up: bool) {
        if self.carrier == Some(up) {
            return;
        }
        self.carrier = Some(up);
        if let Err(error) = self.device.set_carrier(up) {
            log::warn!("{error}");
        }
    }

    /// Takes the link down, so that nothing is received any more.
    pub(crate) fn close(&mut self) {
        self.set_carrier(false);
        if let Some(port) = self.port.take() {
            port.close();
        }
    }

    /// Keeps the interface when this process ends or crashes: the addresses on it are the operator's.
    pub(crate) fn keep(&self, dir: &RuntimeDir) -> anyhow::Result<()> {
        if self.device.created() {
            dir.add_twin(self.device.name());
        }
        Ok(self.device.set_persistent(true)?)
    }

    /// Lets the interface vanish with this process, unless somebody else made it.
    pub(crate) fn remove(&self, dir: &RuntimeDir) {
        if let Err(error) = remove(&self.device, dir) {
            log::warn!("{} stays: {error:#}", self.device.name());
        }
    }

    /// Whether there was no interface of its name before.
    pub(crate) fn is_new(&self) -> bool {
        self.device.created()
    }

    /// The port's kind and state, for people.
    pub(crate) fn state(&self) -> String {
        let behind = self.kind.options();
        match self.port.as_ref().and_then(|port| port.state()) {
            Some(state) => format!("{behind}: {state}"),
            None => behind.to_string(),
        }
    }

    /// Whether packets may come with checksums left to the receiver. Linux completes those it sends
    /// by a TAP interface.
    pub(crate) fn leaves_checksums(&self) -> bool {
        self.kind.options().leaves_checksums()
    }

    /// Sets the port's Ethernet address.
    pub(crate) fn tell_mac(&self, mac: [u8; 6]) {
        if let Some(port) = &self.port {
            port.set_mac(mac);
        }
    }

    /// What the port counts by itself, by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let port = self.port.as_ref();
        port.map(|port| port.counters()).unwrap_or_default()
    }

    /// How the port is told what to forward by itself, if it can.
    pub(crate) fn offload(&self) -> Option<&dyn Offload> {
        self.port.as_ref().and_then(|port| port.offload())
    }

    /// The name of its kind, as a file says it.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind.name()
    }
}

/// Removes an interface if Bora made it. One that stays is removed by the next attempt.
fn remove(device: &Device, dir: &RuntimeDir) -> anyhow::Result<()> {
    let name = device.name();
    if dir.made_twin(name)? {
        device.set_persistent(false)?;
        dir.forget_twin(name)?;
    }
    Ok(())
}

/// Removes the interfaces that an earlier Bora left; returns how many.
///
/// # Errors
/// Some cannot be removed; the others are.
pub(crate) fn remove_leftovers(dir: &RuntimeDir) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut left = Vec::new();
    for name in dir.twins()? {
        match remove_leftover(&name, dir) {
            Ok(was_there) => count += usize::from(was_there),
            Err(error) => left.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(left.is_empty(), "interfaces stay: {}", left.join("; "));
    Ok(count)
}

fn remove_leftover(name: &str, dir: &RuntimeDir) -> anyhow::Result<bool> {
    let device = Device::open(name, 1)?;
    remove(&device, dir)?;
    Ok(!device.created())
}
