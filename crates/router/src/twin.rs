//! Ports that are no interfaces of Linux: their way out, and the TAP interface that stands for them.

use std::sync::Arc;

use anyhow::Context;
use bora_buffer::Region;
use bora_kernel::message::Link;
use bora_port::af_packet::mac_of;
use bora_port::tap::{self, Device};
use bora_port::{Queue, af_packet, hero, memif, pcap};

use crate::place::Place;
use crate::spec::{TwinSpec, Wire};

/// A port's twin in Linux, and what is behind the port.
pub(crate) struct Twin {
    /// The interface; addresses, ARP and routing daemons live on it.
    device: Device,
    wire: Wire,
    opened: Option<Opened>,
    carrier: Option<bool>,
}

/// What is behind a port that has its queues.
enum Opened {
    Memif(memif::Port),
    Hero(hero::Port),
    Tap(Device),
    AfPacket(String),
    Pcap,
}

impl Twin {
    /// Makes the interface, or takes it over from a Bora that was here before; without a carrier.
    pub(crate) fn open(spec: &TwinSpec, wire: &Wire) -> anyhow::Result<Self> {
        let device = Device::open(&spec.name, 1)?;
        let mac = match (spec.mac, wire) {
            // what the network sends to the interface is for the twin
            (None, Wire::AfPacket(interface, _)) => mac_of(interface),
            (mac, _) => mac,
        };
        if let Some(mac) = mac {
            device.set_mac(mac)?;
        }
        let mut twin = Self {
            device,
            wire: wire.clone(),
            opened: None,
            carrier: None,
        };
        twin.set_carrier(false);
        Ok(twin)
    }

    /// Packets its rings hold in both directions, all queues together.
    pub(crate) fn ring_slots(&self) -> u32 {
        match &self.wire {
            Wire::Memif(config) => u32::from(config.queues) << (config.log2_ring_size + 1),
            Wire::Tap(_, queues) | Wire::AfPacket(_, queues) => u32::from(*queues) * 512,
            Wire::Pcap { .. } | Wire::Hero(_) => 512,
        }
    }

    /// Starts the way out and returns its queues.
    pub(crate) fn open_queues(&mut self, region: &Arc<Region>) -> anyhow::Result<Vec<Queue>> {
        let wire = &self.wire;
        let (opened, queues) = match wire {
            Wire::Memif(config) => {
                let (port, queues) = memif::Port::open(config.clone(), region.clone())
                    .with_context(|| wire.to_string())?;
                let queues = queues.into_iter().map(Queue::Memif).collect();
                (Opened::Memif(port), queues)
            }
            Wire::Tap(name, count) => {
                let device = Device::open(name, *count)?;
                let queues = device
                    .queues()
                    .map(|fd| Ok(Queue::Tap(tap::Queue::new(fd, region.clone())?)))
                    .collect::<std::io::Result<_>>()?;
                (Opened::Tap(device), queues)
            }
            Wire::AfPacket(interface, count) => {
                let queues = af_packet::Queue::open(interface, *count, region)?;
                let queues = queues.into_iter().map(Queue::AfPacket).collect();
                (Opened::AfPacket(interface.clone()), queues)
            }
            Wire::Hero(spec) => {
                let name = self.device.name();
                let config = hero::Config {
                    model: spec.model.clone(),
                    card: spec.card,
                    mac: mac_of(name).with_context(|| format!("{name} is gone"))?,
                    wire: hero::Wire::open(&spec.wire)
                        .with_context(|| format!("wire of {name}"))?,
                };
                let (port, queue) = hero::Port::open(config, region.clone())?;
                (Opened::Hero(port), vec![Queue::Hero(queue)])
            }
            Wire::Pcap {
                input,
                repeat,
                output,
            } => {
                let input = Some((input.as_path(), *repeat));
                let queue = pcap::Queue::open(input, output.as_deref(), region.clone())?;
                (Opened::Pcap, vec![Queue::Pcap(queue)])
            }
        };
        self.opened = Some(opened);
        Ok(queues)
    }

    /// Where Linux's packets for the port arrive.
    pub(crate) fn queue(&self, region: &Arc<Region>) -> std::io::Result<Queue> {
        let fd = self
            .device
            .queues()
            .next()
            .ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Queue::Tap(tap::Queue::new(fd, region.clone())?))
    }

    /// Where packets for Linux go in.
    pub(crate) fn writer(&self) -> std::io::Result<tap::Writer> {
        let fd = self
            .device
            .queues()
            .next()
            .ok_or(std::io::ErrorKind::NotFound)?;
        tap::Writer::new(fd)
    }

    /// Gives the interface the carrier that the way out has; to be called again and again.
    pub(crate) fn follow<'a>(&mut self, mut links: impl Iterator<Item = &'a Link>) {
        let up = match &self.opened {
            None => false,
            Some(Opened::Memif(port)) => matches!(port.link_state(), memif::LinkState::Up { .. }),
            Some(Opened::Hero(port)) => port.link_state() == hero::LinkState::Up,
            // whether somebody uses the other side does not show here
            Some(Opened::Tap(_) | Opened::Pcap) => true,
            Some(Opened::AfPacket(name)) => links
                .find(|link| link.name == *name)
                .is_some_and(|link| link.up && link.carrier),
        };
        self.set_carrier(up);
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

    /// Takes the link down, so that nothing comes in any more.
    pub(crate) fn close(&mut self) {
        self.set_carrier(false);
        if let Some(Opened::Tap(device)) = &self.opened
            && let Err(error) = device.set_carrier(false)
        {
            log::warn!("{error}");
        }
        if let Some(Opened::Memif(_) | Opened::Hero(_)) = self.opened {
            self.opened = None;
        }
    }

    /// Lets the interface stay when this process ends, however it does: the addresses on it are the
    /// operator's.
    pub(crate) fn keep(&self, place: &Place) -> anyhow::Result<()> {
        if self.device.created() {
            place.add_twin(self.device.name());
        }
        Ok(self.device.set_persistent(true)?)
    }

    /// Lets the interface go with this process, unless somebody else made it.
    pub(crate) fn remove(&self, place: &Place) {
        remove(&self.device, place);
    }

    /// What is behind the port, and how it is.
    pub(crate) fn state(&self) -> String {
        match &self.opened {
            Some(Opened::Memif(port)) => format!("{}: {}", self.wire, port.link_state()),
            Some(Opened::Hero(port)) => format!("{}: {}", self.wire, port.link_state()),
            _ => self.wire.to_string(),
        }
    }

    /// Whether packets may come with checksums left to the receiver. Linux completes those it sends
    /// by a TAP interface, and memif knows no such thing.
    pub(crate) fn leaves_checksums(&self) -> bool {
        matches!(self.wire, Wire::AfPacket(..))
    }

    /// The card behind the port, if it is one.
    pub(crate) fn card(&self) -> Option<&hero::Port> {
        match &self.opened {
            Some(Opened::Hero(port)) => Some(port),
            _ => None,
        }
    }

    /// Whether the card behind the port may forward by itself.
    pub(crate) fn may_offload(&self) -> bool {
        matches!(&self.wire, Wire::Hero(spec) if spec.offload)
    }

    /// `memif`, `tap`, `af_packet`, `hero` or `pcap`.
    pub(crate) fn kind(&self) -> &'static str {
        match self.wire {
            Wire::Memif(_) => "memif",
            Wire::Tap(..) => "tap",
            Wire::AfPacket(..) => "af_packet",
            Wire::Hero(_) => "hero",
            Wire::Pcap { .. } => "pcap",
        }
    }
}

fn remove(device: &Device, place: &Place) {
    if place.forget_twin(device.name())
        && let Err(error) = device.set_persistent(false)
    {
        log::warn!("{error}");
    }
}

/// Removes the interfaces that a Bora which is no longer there left; returns how many.
pub(crate) fn remove_leftovers(place: &Place) -> usize {
    let mut count = 0;
    for name in place.twins() {
        match Device::open(&name, 1) {
            Ok(device) => {
                count += usize::from(!device.created());
                remove(&device, place);
            }
            Err(error) => log::warn!("{error}"),
        }
    }
    count
}
