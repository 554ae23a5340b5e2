//! How packets come and go by the ports of a bridge.

use std::collections::BTreeMap;
use std::time::Duration;

use bora_contract::MAX_INTERFACES;
use bora_fib::PortId;
use bora_forward::Tags;

/// The number of no device, which is above all others: what comes in untagged by a port of a bridge, in a VLAN that Bora does not
/// forward by, is its.
pub(super) const NO_DEVICE: PortId = PortId(MAX_INTERFACES as u16 - 1);

/// The places of stations, by number of the device and Ethernet address: number of the port, and tags of frames there.
pub(crate) type Stations = BTreeMap<(u16, [u8; 6]), (u16, [u8; 8])>;

/// How the packets of a bridge, or of a VLAN device on it, come and go by its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bridged {
    /// The bridge's interface index.
    pub(super) bridge: u32,
    /// The VLAN in the bridge; 0 if it knows none.
    pub(super) vlan: u16,
    pub(super) ways: Vec<Way>,
    /// How often Linux has to see each station.
    pub(super) ageing: Duration,
}

/// A port of the bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) id: PortId,
    pub(super) ifindex: u32,
    /// The tags that packets come in with.
    pub(super) tagged: Option<Tags>,
    /// Whether they also come in without any.
    pub(super) untagged: bool,
    /// The tags that they leave with.
    pub(super) leaves: Tags,
}

impl Bridged {
    /// By which interfaces and tags packets come in with a tag.
    pub(super) fn tagged(&self) -> impl Iterator<Item = (u32, [u8; 8])> {
        let ways = self.ways.iter();
        ways.filter_map(|way| Some((way.ifindex, way.tagged?.octets())))
    }

    /// How often Linux has to see each station, in milliseconds; at least 1.
    pub(super) fn ageing_ms(&self) -> u32 {
        (self.ageing.as_millis() as u32).max(1)
    }
}
