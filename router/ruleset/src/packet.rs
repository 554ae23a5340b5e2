//! What is known of packets in transit.

use crate::bits::{Byte, Truth};
use crate::expression::PayloadBase;
use crate::model::{Base, Hook};

/// Which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// All that is routed from an interface to another.
    All,
    /// Packets of established flows of TCP (see [`crate::Established`]).
    Tcp,
    /// Packets of established flows of UDP.
    Udp,
}

/// What changes on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The packet's mark, as it is in memory.
    pub(crate) mark: [Byte; 4],
    /// The connection's mark.
    pub(crate) ct_mark: [Byte; 4],
}

impl State {
    /// At a port's ingress, where a tc filter may have set a mark.
    pub(crate) const START: Self = Self {
        mark: [Byte::CONSTANT; 4],
        ct_mark: [Byte::CONSTANT; 4],
    };
    /// Nothing is known.
    pub(crate) const ANYTHING: Self = Self {
        mark: [Byte::VARYING; 4],
        ct_mark: [Byte::VARYING; 4],
    };
}

/// A value that is read.
pub(crate) struct Value {
    pub(crate) bytes: Vec<Byte>,
    /// What it surely is not.
    pub(crate) hint: Option<Hint>,
    /// Whether it can be read at all.
    pub(crate) readable: Truth,
}

impl Value {
    fn new(bytes: Vec<Byte>) -> Self {
        Self {
            bytes,
            hint: None,
            readable: Truth::Surely,
        }
    }

    fn constant(len: usize) -> Self {
        Self::new(vec![Byte::CONSTANT; len])
    }

    fn known(bytes: &[u8]) -> Self {
        Self::new(bytes.iter().map(|&byte| Byte::known(byte)).collect())
    }

    pub(crate) fn varying(len: usize) -> Self {
        Self {
            readable: Truth::VARYING,
            ..Self::new(vec![Byte::VARYING; len])
        }
    }

    fn with(self, hint: Option<Hint>) -> Self {
        Self { hint, ..self }
    }

    fn if_readable(self, readable: Truth) -> Self {
        Self { readable, ..self }
    }
}

/// What a value is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The loopback interface's index.
    LoopbackIndex,
    /// The loopback interface's name.
    LoopbackName,
    /// The loopback interface's type.
    LoopbackType,
    /// The type of addresses of the router itself, or of multicast.
    Local,
}

impl Hint {
    /// Whether a value that begins so is excluded.
    pub(crate) fn excludes(self, data: &[u8]) -> bool {
        const ARPHRD_LOOPBACK: u16 = 772;
        const RTN_LOCAL: u32 = 2;
        const RTN_MULTICAST: u32 = 5;
        let is = |number: u32| data.starts_with(&number.to_ne_bytes());
        match self {
            Self::LoopbackIndex => is(1),
            Self::LoopbackName => data.starts_with(b"lo\0"),
            Self::LoopbackType => data.starts_with(&ARPHRD_LOOPBACK.to_ne_bytes()),
            Self::Local => is(RTN_LOCAL) || is(RTN_MULTICAST),
        }
    }
}

/// Where a packet is, and what is known of it there.
pub(crate) struct Packet {
    pub(crate) v6: bool,
    pub(crate) traffic: Traffic,
    pub(crate) hook: Hook,
    /// Conntrack has seen it.
    pub(crate) tracked: bool,
    /// Its destination is not one of the router's addresses.
    pub(crate) not_local: bool,
}

/// NF_IP_PRI_CONNTRACK
pub(crate) const CONNTRACK: i32 = -200;

impl Packet {
    /// In a base chain; `local_first` as in [`crate::Question`], `rewritten` if rules may change destinations.
    pub(crate) fn new(
        v6: bool,
        traffic: Traffic,
        (hook, base): (Hook, &Base),
        (local_first, rewritten): (bool, bool),
    ) -> Self {
        Self {
            v6,
            traffic,
            hook,
            tracked: traffic != Traffic::All
                && match hook {
                    Hook::Prerouting => base.priority > CONNTRACK,
                    _ => !hook.is_at_device(),
                },
            not_local: local_first
                && match hook {
                    Hook::Prerouting => !rewritten,
                    _ => !hook.is_at_device(),
                },
        }
    }

    pub(crate) fn is_flow(&self) -> bool {
        self.traffic != Traffic::All
    }

    /// The protocol of a flow.
    pub(crate) fn protocol(&self) -> Option<u8> {
        match self.traffic {
            Traffic::All => None,
            Traffic::Tcp => Some(6),
            Traffic::Udp => Some(17),
        }
    }

    /// NFT_META_*
    pub(crate) fn meta(&self, key: u32, state: &State) -> Value {
        let protocol: u16 = if self.v6 { 0x86dd } else { 0x0800 };
        let at_device = self.hook.is_at_device();
        match key {
            1 if !at_device => Value::known(&slot(&protocol.to_be_bytes())),
            15 if !at_device => Value::known(&slot(&[if self.v6 { 10 } else { 2 }])),
            16 => match self.protocol() {
                Some(protocol) if !at_device => Value::known(&slot(&[protocol])),
                _ => Value::constant(4).if_readable(Truth::CONSTANT),
            },
            19 if !at_device => Value::known(&[0; 4]), // pkttype: PACKET_HOST
            3 => Value::new(state.mark.to_vec()),
            4 => Value::constant(4).with(Some(Hint::LoopbackIndex)), // iif
            6 => Value::constant(16).with(Some(Hint::LoopbackName)), // iifname
            8 => Value::constant(4).with(Some(Hint::LoopbackType)),  // iiftype
            // protocol, oif, oifname, oiftype, nfproto, pkttype, iifgroup, oifgroup, iifkind, oifkind, sdif, sdifname
            1 | 5 | 9 | 15 | 19 | 21 | 22 | 33 => Value::constant(4).if_readable(Truth::CONSTANT),
            7 | 26 | 27 | 34 => Value::constant(16).if_readable(Truth::CONSTANT),
            _ => Value::varying(16),
        }
    }

    /// NFT_CT_*
    pub(crate) fn ct(&self, key: u32, state: &State) -> Value {
        const ESTABLISHED: u32 = 1 << 1;
        let readable = if self.tracked {
            Truth::Surely
        } else {
            Truth::CONSTANT
        };
        match key {
            0 if self.tracked => Value::known(&ESTABLISHED.to_ne_bytes()),
            0 if self.is_flow() => Value::constant(4),
            1 if self.is_flow() => Value::constant(4).if_readable(readable), // direction
            2 if self.tracked => Value::new(status()),
            3 if self.tracked => Value::new(state.ct_mark.to_vec()),
            7 if self.tracked => Value::known(&slot(&[if self.v6 { 10 } else { 2 }])), // l3proto
            10 if self.tracked => Value::known(&slot(&self.protocol().map_or([0], |it| [it]))),
            // helper, source, destination, ports, zone
            6 | 8 | 9 | 11 | 12 | 17 | 19..=22 if self.is_flow() => {
                Value::constant(16).if_readable(readable.and(Truth::CONSTANT))
            }
            _ => Value::varying(16),
        }
    }

    /// Packet data.
    pub(crate) fn payload(&self, base: PayloadBase, offset: u32, len: usize) -> Value {
        let end = offset as usize + len;
        let header = match base {
            PayloadBase::Network if self.v6 => 40,
            PayloadBase::Network => 20,
            PayloadBase::Transport if self.traffic == Traffic::Udp => 8,
            PayloadBase::Transport => 20,
            PayloadBase::Link | PayloadBase::Inner => {
                return Value::varying(len.next_multiple_of(4));
            }
        };
        if end > header {
            return Value::varying(len.next_multiple_of(4));
        }
        let octets = offset as usize..end;
        let mut bytes: Vec<Byte> = match base {
            PayloadBase::Network => octets.map(|at| self.network(at)).collect(),
            _ => octets.map(|at| self.transport(at)).collect(),
        };
        bytes.resize(len.next_multiple_of(4), Byte::known(0));
        let there = self.is_flow() && !self.hook.is_at_device();
        Value::new(bytes).if_readable(if there { Truth::Surely } else { Truth::VARYING })
    }

    /// An octet of the IP header.
    fn network(&self, at: usize) -> Byte {
        let flow = self.protocol().filter(|_| !self.hook.is_at_device());
        match (self.v6, at, flow) {
            (false, 0, Some(_)) => Byte::known(0x45),
            (false, 6, Some(_)) => Byte::partly(0xbf, 0), // no fragment, perhaps DF
            (false, 7, Some(_)) => Byte::known(0),
            (false, 9, Some(protocol)) | (true, 6, Some(protocol)) => Byte::known(protocol),
            (false, 9 | 12..=19, _) | (true, 6 | 8..=39, _) => Byte::CONSTANT,
            (true, 0, Some(_)) => Byte::partly(0xf0, 0x60),
            _ => Byte::VARYING,
        }
    }

    /// An octet of the TCP or UDP header.
    fn transport(&self, at: usize) -> Byte {
        match at {
            0..=3 if self.is_flow() => Byte::CONSTANT,
            13 if self.traffic == Traffic::Tcp => Byte::partly(0x07, 0), // SYN, FIN, RST
            _ => Byte::VARYING,
        }
    }

    /// `fib`
    pub(crate) fn fib(&self, result: u32, flags: u32) -> Value {
        const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
        const NFTA_FIB_F_DADDR: u32 = 2;
        let is_type = result == NFT_FIB_RESULT_ADDRTYPE;
        let of_destination = is_type && flags & NFTA_FIB_F_DADDR != 0;
        let hint = (of_destination && self.not_local).then_some(Hint::Local);
        Value::constant(if is_type { 4 } else { 16 }).with(hint)
    }

    /// An option of IPv4 or TCP, or an extension header of IPv6.
    pub(crate) fn option(&self, ipv6: bool, len: usize) -> Value {
        let value = Value::varying(len.next_multiple_of(4));
        if self.is_flow() && ipv6 && !self.hook.is_at_device() {
            // it breaks, or loads 0 where it only asks whether there is one
            let bytes = vec![Byte::known(0); value.bytes.len()];
            return Value { bytes, ..value };
        }
        value
    }
}

/// A short value fills the rest of its register with zeros.
fn slot(bytes: &[u8]) -> [u8; 4] {
    let mut slot = [0; 4];
    slot[..bytes.len()].copy_from_slice(bytes);
    slot
}

/// `ct status` of an established flow: seen in both directions and confirmed, not dying, no template; SNAT and DNAT are
/// constant, the rest may change.
fn status() -> Vec<Byte> {
    const KNOWN: u32 = 1 << 1 | 1 << 3 | 1 << 9 | 1 << 11 | 1 << 12;
    const SET: u32 = 1 << 1 | 1 << 3;
    const CONSTANT: u32 = 1 << 0 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8;
    let octets = |bits: u32| bits.to_ne_bytes();
    let (known, set, constant) = (octets(KNOWN), octets(SET), octets(CONSTANT));
    (0..4)
        .map(|at| Byte::mixed(known[at], set[at], !constant[at]))
        .collect()
}
