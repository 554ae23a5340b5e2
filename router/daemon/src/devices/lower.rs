//! What a device is on: a port, or another device.

use bora_contract::PortSettings;
use bora_fib::PortId;
use bora_forward::{Ports, Tags, XmitHash};

use super::Device;
use super::bridged::Bridged;
use super::wrapping::Tunnel;
use crate::ports::Port;

/// A port, or a device with its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lower {
    /// The number of the port or device below; `None` of a bond, which is on several ports.
    pub(crate) id: Option<PortId>,
    pub(crate) name: String,
    pub(crate) ifindex: u32,
    /// Octets of a packet.
    pub(super) mtu: u32,
    /// The ports that packets come in by.
    pub(crate) ports: Vec<LowerPort>,
    /// Those that they may leave by, in Linux's order.
    pub(crate) usable: Vec<PortId>,
    /// What chooses among these.
    pub(crate) hash: XmitHash,
    /// What devices on it have in common with it.
    pub(super) settings: PortSettings,
    /// `bypass_qdisc` of its ports.
    pub(super) bypass_qdisc: bool,
    /// Whether packets can leave by it.
    pub(super) is_output: bool,
    /// The tunnel, if the device is one; it is on no ports.
    pub(crate) tunnel: Option<Tunnel>,
    /// The bridge, if the device is one or on one.
    pub(crate) bridged: Option<Bridged>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LowerPort {
    pub(crate) id: PortId,
    pub(crate) ifindex: u32,
}

impl Lower {
    pub(super) fn port(port: &Port) -> Self {
        let this = LowerPort {
            id: port.id,
            ifindex: port.ifindex,
        };
        Self {
            id: Some(port.id),
            name: port.name.clone(),
            ifindex: port.ifindex,
            mtu: port.link.mtu,
            ports: vec![this],
            usable: vec![port.id],
            hash: XmitHash::default(),
            settings: PortSettings {
                path: port.path,
                ..port.settings.clone()
            },
            bypass_qdisc: port.bypass_qdisc,
            is_output: port.is_output(),
            tunnel: None,
            bridged: None,
        }
    }

    /// As what is below another device.
    pub(super) fn device(device: &Device) -> Self {
        Self {
            id: Some(device.id),
            name: device.name.clone(),
            ifindex: device.ifindex,
            mtu: device.mtu,
            settings: device.settings.clone(),
            ..device.lower.clone()
        }
    }

    pub(super) fn has(&self, port: PortId) -> bool {
        self.ports.iter().any(|one| one.id == port)
    }

    pub(super) fn of_workers(&self) -> Ports {
        Ports {
            all: self.ports.iter().map(|port| port.id).collect(),
            usable: self.usable.clone(),
            hash: self.hash,
        }
    }
}

/// What a link is.
pub(super) enum Found {
    /// Not on a port.
    Nothing,
    LeftAlone(String),
    On(Box<Lower>, Tags),
}
