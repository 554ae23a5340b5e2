//! Policy routing and VRFs: which table of the FIB a packet is looked up in.
//!
//! The control side compiles Linux's rules into a list for each interface and IP version. An interface
//! without a list goes by the main table alone, as with Linux's own rules. Otherwise each packet goes
//! through the list, and the first table that has a route for it decides.

use bora_buffer::Packet;
use bora_contract::Reason;
use bora_fib::{FibReader, NextHop, NextHopId, PortId, TableId};

use crate::dissect::dissect;
use crate::{Batch, Context, Family};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;

/// What rules see of a packet. Addresses are numbers, IPv4 in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// TOS or traffic class.
    pub tos: u8,
    /// IP protocol.
    pub protocol: u8,
    /// Source and destination port; 0 in fragments and without ports.
    pub ports: [u16; 2],
}

impl Key {
    /// The key of the answer, for the source check.
    fn swapped(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            ports: [self.ports[1], self.ports[0]],
            ..self
        }
    }
}

/// Which packets a step is for: those that have all of this, or (`invert`) the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Bits that count of the source, and their value.
    pub src: (u128, u128),
    /// Bits that count of the destination, and their value.
    pub dst: (u128, u128),
    /// Bits that count of TOS or traffic class, and their value.
    pub tos: (u8, u8),
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// First and last source port.
    pub sport: (u16, u16),
    /// First and last destination port.
    pub dport: (u16, u16),
    /// It is for the packets that do not match.
    pub invert: bool,
}

impl Default for Selector {
    fn default() -> Self {
        Self {
            src: (0, 0),
            dst: (0, 0),
            tos: (0, 0),
            protocol: 0,
            sport: ANY_PORT,
            dport: ANY_PORT,
            invert: false,
        }
    }
}

/// Ports that need not be looked at.
const ANY_PORT: (u16, u16) = (0, u16::MAX);

impl Selector {
    /// Whether it is for every packet.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    fn looks_inside(&self) -> bool {
        self.protocol != 0 || self.sport != ANY_PORT || self.dport != ANY_PORT
    }

    #[inline]
    fn holds(&self, key: &Key) -> bool {
        let within = |port: u16, (first, last): (u16, u16)| (first..=last).contains(&port);
        let same = key.src & self.src.0 == self.src.1
            && key.dst & self.dst.0 == self.dst.1
            && key.tos & self.tos.0 == self.tos.1
            && (self.protocol == 0 || key.protocol == self.protocol)
            && within(key.ports[0], self.sport)
            && within(key.ports[1], self.dport);
        same != self.invert
    }
}

/// What a step does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Looks it up; goes on without a route. The main table holds Linux's local and main.
    Table {
        /// The table.
        table: TableId,
        /// Its route of length 0 does not count, if it leads anywhere (`suppress_prefixlength 0`).
        no_default: bool,
    },
    /// Gives it this next hop.
    Give(NextHopId),
    /// Goes on with this step, a later one.
    Goto(usize),
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its packets; `None`: all.
    pub selector: Option<Selector>,
    /// What becomes of them.
    pub action: Action,
}

/// Next hops that the list must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The router's own addresses.
    pub local: NextHopId,
    /// Linux decides.
    pub linux: NextHopId,
    /// The next table decides.
    pub throw: NextHopId,
}

/// The rules for one interface and IP version, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    steps: Vec<Step>,
    known: Known,
    looks_inside: bool,
}

impl List {
    /// A list; each [`Action::Goto`] must lead to a later step.
    pub fn new(steps: Vec<Step>, known: Known) -> Self {
        let inside = |step: &Step| {
            step.selector
                .is_some_and(|selector| selector.looks_inside())
        };
        Self {
            looks_inside: steps.iter().any(inside),
            steps,
            known,
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether some step looks at more than the IP header.
    pub fn looks_inside(&self) -> bool {
        self.looks_inside
    }

    /// The next hop of a packet for which the main table gives `main`.
    pub fn decide(&self, key: &Key, main: NextHopId, family: Family, fib: &FibReader) -> NextHopId {
        if main == self.known.local {
            return main; // Linux decides about what may be its own
        }
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            at += 1;
            if step.selector.is_some_and(|selector| !selector.holds(key)) {
                continue;
            }
            let found = match step.action {
                Action::Goto(later) => {
                    at = at.max(later);
                    None
                }
                Action::Give(next_hop) => Some(next_hop),
                Action::Table { table, no_default } => {
                    let plain = table == TableId::MAIN && !no_default;
                    let found = if plain {
                        Some(main).filter(|&main| main != NextHopId::NO_ROUTE)
                    } else {
                        find(fib, family, table, key.dst, no_default)
                    };
                    found.filter(|&found| found != self.known.throw)
                }
            };
            if let Some(found) = found {
                return found;
            }
        }
        NextHopId::NO_ROUTE
    }
}

#[inline]
fn find(
    fib: &FibReader,
    family: Family,
    table: TableId,
    dst: u128,
    no_default: bool,
) -> Option<NextHopId> {
    if !no_default {
        return match family {
            Family::V4 => fib.find4(table, dst as u32),
            Family::V6 => fib.find6(table, dst.to_be_bytes()),
        };
    }
    let (found, default) = match family {
        Family::V4 => fib.find4_longer(table, dst as u32),
        Family::V6 => fib.find6_longer(table, dst.to_be_bytes()),
    };
    found.or(default.filter(|&default| leads_nowhere(fib, default)))
}

/// Whether Linux counts a route of length 0 with `suppress_prefixlength`, too: it is an error, or nobody
/// knows but Linux.
fn leads_nowhere(fib: &FibReader, default: NextHopId) -> bool {
    match fib.next_hop(default) {
        NextHop::Blackhole => true,
        NextHop::Punt { reason, port: None } => matches!(
            reason,
            Reason::Unreachable | Reason::Prohibit | Reason::Unsupported
        ),
        _ => false,
    }
}

/// The lists of an interface; `None`: the main table alone decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// The list for IPv4.
    pub v4: Option<List>,
    /// The list for IPv6.
    pub v6: Option<List>,
    /// The list for IPv4 sources, for the source check.
    pub back4: Option<List>,
}

impl Lists {
    /// Whether the main table decides about everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The lists of all interfaces (control side: makes it; workers: read it).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// By number of the port or VLAN device.
    interfaces: Vec<Lists>,
}

impl Policies {
    /// Sets the lists of an interface.
    pub fn set(&mut self, interface: PortId, lists: Lists) {
        let number = usize::from(interface.0);
        if self.interfaces.len() <= number {
            self.interfaces.resize_with(number + 1, Lists::default);
        }
        self.interfaces[number] = lists;
    }

    /// The lists of an interface.
    #[inline]
    pub fn of(&self, interface: PortId) -> Option<&Lists> {
        self.interfaces.get(usize::from(interface.0))
    }

    #[inline]
    fn list(&self, interface: PortId, family: Family) -> Option<&List> {
        let lists = self.of(interface)?;
        match family {
            Family::V4 => lists.v4.as_ref(),
            Family::V6 => lists.v6.as_ref(),
        }
    }
}

/// Replaces the next hops that the main table gave for packets of interfaces with lists.
pub(crate) fn apply(batch: &mut Batch, context: &Context<'_>) {
    let policies = context.policies;
    let is_concerned = match batch.input {
        Some(input) => policies
            .of(input)
            .is_some_and(|lists| lists.v4.is_some() || lists.v6.is_some()),
        None => !policies.interfaces.is_empty(),
    };
    if !is_concerned {
        return;
    }
    let Batch {
        packets,
        meta,
        v4,
        v6,
        ..
    } = batch;
    for (place, found) in v4.results_mut() {
        if let Some(list) = policies.list(meta[place].input(), Family::V4) {
            *found = decide(list, &packets[place], *found, Family::V4, context);
        }
    }
    for (place, found) in v6.results_mut() {
        if let Some(list) = policies.list(meta[place].input(), Family::V6) {
            *found = decide(list, &packets[place], *found, Family::V6, context);
        }
    }
}

/// The next hop of a packet for which the main table gives `main`.
pub(crate) fn decide(
    list: &List,
    packet: &Packet,
    main: NextHopId,
    family: Family,
    context: &Context<'_>,
) -> NextHopId {
    match key_of(list, packet, family, context) {
        Some(key) => list.decide(&key, main, family, context.fib),
        None => list.known.linux,
    }
}

/// The next hop towards the source of an IPv4 packet.
pub(crate) fn way_back(
    list: &List,
    packet: &Packet,
    main: NextHopId,
    context: &Context<'_>,
) -> NextHopId {
    match key_of(list, packet, Family::V4, context) {
        Some(key) => list.decide(&key.swapped(), main, Family::V4, context.fib),
        None => list.known.linux,
    }
}

/// `None` if Linux looks at something in the packet that Bora does not know.
#[inline]
fn key_of(list: &List, packet: &Packet, family: Family, context: &Context<'_>) -> Option<Key> {
    let octets = context.region.octets(packet).get(ETHERNET..)?;
    let mut key = match family {
        Family::V4 => Key {
            src: u32::from_be_bytes(*octets.get(12..)?.first_chunk()?).into(),
            dst: u32::from_be_bytes(*octets.get(16..)?.first_chunk()?).into(),
            tos: octets[1],
            ..Key::default()
        },
        Family::V6 => Key {
            src: u128::from_be_bytes(*octets.get(8..)?.first_chunk()?),
            dst: u128::from_be_bytes(*octets.get(24..)?.first_chunk()?),
            tos: octets[0] << 4 | octets[1] >> 4,
            ..Key::default()
        },
    };
    if list.looks_inside {
        let length = match family {
            Family::V4 => u16::from_be_bytes([octets[2], octets[3]]).into(),
            Family::V6 => 40 + usize::from(u16::from_be_bytes([octets[4], octets[5]])),
        };
        let found = dissect(octets.get(..length)?, true)?;
        let [a, b, c, d] = found.ports;
        key.protocol = found.protocol;
        key.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    }
    Some(key)
}
