//! What packets come in by: ports, VLAN devices, bonds, macvlans and tunnels, each a row of one table. Every packet has the number
//! of its row ([`crate::Meta::input`]), so that packets of several go through the stages together.

use bora_contract::{MAX_PORTS, PortSettings, RpFilter};
use bora_fib::PortId;
use bora_wire::MacAddr;

use crate::Family;

/// The checks of the XDP program that need the state of the port. For ports without an XDP program the
/// engine makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// The port is administratively up; otherwise everything is dropped.
    pub up: bool,
    /// Linux handles all IPv4.
    pub kernel4: bool,
    /// Linux handles all IPv6.
    pub kernel6: bool,
    /// Linux takes frames for other stations, too; otherwise they are dropped, as Linux would do.
    pub promiscuous: bool,
}

impl Gate {
    /// Lets everything pass, because the XDP program has made the checks.
    pub(crate) const OPEN: Self = Self {
        up: true,
        kernel4: false,
        kernel6: false,
        promiscuous: true,
    };
}

/// The settings of a port or device that packets come in by (control plane: writes; workers: read).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Its number.
    pub port: PortId,
    /// Number of what a macvlan is on; its own, of everything else. IPv6 packets that would leave there are Linux's.
    pub below: PortId,
    /// Its Ethernet address: other destinations are not ours to forward.
    pub mac: MacAddr,
    /// Whether Linux forwards IPv4 that comes in here.
    pub forward4: bool,
    /// Whether Linux forwards IPv6 that comes in here.
    pub forward6: bool,
    /// Source check of IPv4.
    pub rp_filter: RpFilter,
    /// Senders may leave L4 checksums to the receiver.
    pub partial_checksum: bool,
    /// Whether Linux would send IPv4 redirects here.
    pub send_redirects4: bool,
    /// What the engine has to check; `None` for a port with an XDP program.
    pub gate: Option<Gate>,
}

impl Ingress {
    /// A port behind an XDP program, for which Linux forwards both IP versions; everything else is off.
    pub fn new(port: PortId, mac: MacAddr) -> Self {
        Self {
            port,
            below: port,
            mac,
            forward4: true,
            forward6: true,
            rp_filter: RpFilter::Off,
            partial_checksum: false,
            send_redirects4: false,
            gate: None,
        }
    }

    /// Whether an XDP program stands in front of the port, and can keep packets away from it.
    pub fn has_xdp(&self) -> bool {
        self.gate.is_none()
    }

    /// What the engine has to check.
    pub(crate) fn gate(&self) -> Gate {
        self.gate.unwrap_or(Gate::OPEN)
    }
}

impl From<&PortSettings> for Ingress {
    fn from(settings: &PortSettings) -> Self {
        Self {
            port: PortId(settings.index),
            below: PortId(settings.below),
            mac: MacAddr(settings.mac),
            forward4: settings.forward4,
            forward6: settings.forward6,
            rp_filter: settings.rp_filter,
            partial_checksum: settings.partial_checksum,
            send_redirects4: settings.send_redirects4,
            gate: (!settings.gated).then_some(Gate {
                up: settings.enabled,
                kernel4: settings.kernel4,
                kernel6: settings.kernel6,
                promiscuous: settings.promiscuous,
            }),
        }
    }
}

/// Whether this is the number of a device: a VLAN device, whose packets have lost their tags, a bond, a macvlan or a tunnel.
#[inline]
pub(crate) fn is_device(number: PortId) -> bool {
    usize::from(number.0) >= MAX_PORTS
}

/// What stages read of many packets at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    /// What it takes as addressed to it.
    pub(crate) ours: Ours,
    /// The output that packets of IPv4, and of IPv6, must not leave by without Linux, because Linux would send a redirect or
    /// prefers another route; or no output.
    way_back: [u32; 2],
}

impl Input {
    fn new(ingress: &Ingress) -> Self {
        let redirects = ingress.send_redirects4.then_some(ingress.port);
        Self {
            ours: Ours::new(ingress),
            way_back: [
                redirects.map_or(u32::MAX, |port| port.0.into()),
                ingress.below.0.into(),
            ],
        }
    }

    #[inline(always)]
    pub(crate) fn way_back(&self, family: Family) -> u32 {
        self.way_back[family as usize]
    }

    /// Whether sources of its packets are looked up.
    #[inline(always)]
    pub(crate) fn checks_sources(&self) -> bool {
        self.ours.0 & Ours::CHECKS_SOURCES != 0
    }

    /// Senders may leave L4 checksums to the receiver.
    #[inline(always)]
    pub(crate) fn partial_checksum(&self) -> bool {
        self.ours.0 & Ours::PARTIAL_CHECKSUM != 0
    }

    /// Whether its packets may leave by a port without a closer look.
    #[inline(always)]
    pub(crate) fn may_leave(&self, family: Family, port: PortId) -> bool {
        (self.way_back(family) != u32::from(port.0)) & !self.partial_checksum()
    }
}

/// What an input takes as addressed to it, in one word: its Ethernet address as octets 0 to 7 of a frame have it, a bit for
/// each IP version that it does not forward, and what else is to be done with its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ours(pub(crate) u64);

impl Ours {
    /// Octets of the address.
    pub(crate) const MAC: u64 = (1 << 48) - 1;
    /// Nothing of IPv4 is forwarded.
    pub(crate) const NOT_IPV4: u64 = 1 << 48;
    /// Nothing of IPv6 is forwarded.
    pub(crate) const NOT_IPV6: u64 = 1 << 49;
    const CHECKS_SOURCES: u64 = 1 << 50;
    const PARTIAL_CHECKSUM: u64 = 1 << 51;

    fn new(ingress: &Ingress) -> Self {
        let [a, b, c, d, e, f] = ingress.mac.0;
        let gate = ingress.gate();
        let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
        let takes = |forwards: bool, kernel: bool| forwards && gate.up && !kernel;
        let checks_sources = ingress.rp_filter != RpFilter::Off || !ingress.has_xdp();
        Self(
            u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
                | bit(!takes(ingress.forward4, gate.kernel4), Self::NOT_IPV4)
                | bit(!takes(ingress.forward6, gate.kernel6), Self::NOT_IPV6)
                | bit(checks_sources, Self::CHECKS_SOURCES)
                | bit(ingress.partial_checksum, Self::PARTIAL_CHECKSUM),
        )
    }
}

/// All inputs by number. A number without an input takes nothing.
#[derive(Clone, Debug)]
pub struct Inputs {
    rows: Vec<Input>,
    /// The settings behind each row.
    settings: Vec<Ingress>,
    /// Whether one of them checks sources.
    check_sources: bool,
    /// Stands for numbers beyond the last one.
    closed: (Input, Ingress),
}

impl Inputs {
    /// The ports, and the devices on them ([`crate::Devices`]).
    pub fn new<'a>(
        ports: impl IntoIterator<Item = &'a Ingress>,
        devices: impl IntoIterator<Item = &'a Ingress>,
    ) -> Self {
        let closed = Ingress {
            gate: Some(Gate::default()),
            ..Ingress::new(PortId(u16::MAX), MacAddr::ZERO)
        };
        let mut settings = Vec::new();
        let mut check_sources = false;
        for ingress in ports.into_iter().chain(devices) {
            let number = usize::from(ingress.port.0);
            if settings.len() <= number {
                settings.resize(number + 1, closed.clone());
            }
            settings[number] = ingress.clone();
            check_sources |= Input::new(ingress).checks_sources();
        }
        Self {
            rows: settings.iter().map(Input::new).collect(),
            settings,
            check_sources,
            closed: (Input::new(&closed), closed),
        }
    }

    /// The settings of an input.
    #[inline]
    pub fn get(&self, number: PortId) -> &Ingress {
        let settings = self.settings.get(usize::from(number.0));
        settings.unwrap_or(&self.closed.1)
    }

    #[inline(always)]
    pub(crate) fn row(&self, number: PortId) -> &Input {
        let row = self.rows.get(usize::from(number.0));
        row.unwrap_or(&self.closed.0)
    }

    /// Whether sources of packets of this input, or else of any one, are looked up.
    pub(crate) fn check_sources(&self, of: Option<PortId>) -> bool {
        of.map_or(self.check_sources, |input| self.row(input).checks_sources())
    }
}
