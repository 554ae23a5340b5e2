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

/// A row: settings, and what stages read of many packets at once.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) ingress: Ingress,
    /// What it takes as addressed to it.
    pub(crate) ours: Ours,
    /// The output that packets of IPv4, and of IPv6, must not leave by without Linux, because Linux would send a redirect or
    /// prefers another route; or no output.
    pub(crate) way_back: [u32; 2],
    /// Whether sources of its packets are looked up.
    pub(crate) checks_sources: bool,
}

impl Input {
    fn new(ingress: Ingress) -> Self {
        let redirects = ingress.send_redirects4.then_some(ingress.port);
        Self {
            ours: Ours::new(&ingress),
            way_back: [
                redirects.map_or(u32::MAX, |port| port.0.into()),
                ingress.below.0.into(),
            ],
            checks_sources: ingress.rp_filter != RpFilter::Off || !ingress.has_xdp(),
            ingress,
        }
    }

    #[inline(always)]
    pub(crate) fn way_back(&self, family: Family) -> u32 {
        self.way_back[family as usize]
    }

    /// Whether its packets may leave by a port without a closer look.
    #[inline(always)]
    pub(crate) fn may_leave(&self, family: Family, port: PortId) -> bool {
        (self.way_back(family) != u32::from(port.0)) & !self.ingress.partial_checksum
    }
}

/// What an input takes as addressed to it, in one word: its Ethernet address as octets 0 to 7 of a frame have it, and a bit
/// for each IP version that it does not forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ours(pub(crate) u64);

impl Ours {
    /// Octets of the address.
    pub(crate) const MAC: u64 = (1 << 48) - 1;
    /// Nothing of IPv4 is forwarded.
    pub(crate) const NOT_IPV4: u64 = 1 << 48;
    /// Nothing of IPv6 is forwarded.
    pub(crate) const NOT_IPV6: u64 = 1 << 49;

    fn new(ingress: &Ingress) -> Self {
        let [a, b, c, d, e, f] = ingress.mac.0;
        let gate = ingress.gate();
        let bit = |forwards: bool, bit| if forwards { 0 } else { bit };
        Self(
            u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
                | bit(ingress.forward4 && gate.up && !gate.kernel4, Self::NOT_IPV4)
                | bit(ingress.forward6 && gate.up && !gate.kernel6, Self::NOT_IPV6),
        )
    }
}

/// All inputs by number. A number without an input takes nothing.
#[derive(Clone, Debug)]
pub struct Inputs {
    rows: Vec<Input>,
    /// Stands for numbers beyond the last one.
    closed: Input,
}

impl Inputs {
    /// The ports, and the devices on them ([`crate::Devices`]).
    pub fn new<'a>(
        ports: impl IntoIterator<Item = &'a Ingress>,
        devices: impl IntoIterator<Item = &'a Ingress>,
    ) -> Self {
        let closed = Input::new(Ingress {
            gate: Some(Gate::default()),
            ..Ingress::new(PortId(u16::MAX), MacAddr::ZERO)
        });
        let mut table = Self {
            rows: Vec::new(),
            closed,
        };
        for ingress in ports.into_iter().chain(devices) {
            let number = usize::from(ingress.port.0);
            if table.rows.len() <= number {
                table.rows.resize(number + 1, table.closed.clone());
            }
            table.rows[number] = Input::new(ingress.clone());
        }
        table
    }

    /// The settings of an input.
    #[inline]
    pub fn get(&self, number: PortId) -> &Ingress {
        &self.row(number).ingress
    }

    #[inline(always)]
    pub(crate) fn row(&self, number: PortId) -> &Input {
        let row = self.rows.get(usize::from(number.0));
        row.unwrap_or(&self.closed)
    }
}
