//! Matches and targets of iptables: legacy ones, and those that iptables-nft has not translated.

use crate::bits::{Byte, Truth, equals, forget};
use crate::packet::{Packet, State, Traffic};

/// What a match says.
pub(crate) struct Match {
    pub(crate) truth: Truth,
    /// It does more than match.
    pub(crate) has_effect: bool,
    pub(crate) conntrack: bool,
    pub(crate) reads_ct_mark: bool,
    pub(crate) fib: bool,
}

impl From<Truth> for Match {
    fn from(truth: Truth) -> Self {
        Self {
            truth,
            has_effect: false,
            conntrack: false,
            reads_ct_mark: false,
            fib: false,
        }
    }
}

/// What a target does.
pub(crate) enum Action {
    Nothing,
    Drop,
    /// An effect on what is tracked by conntrack, before it is.
    Conntrack,
    /// Address translation.
    Translate,
    /// Sets the packet's mark.
    Mark([Byte; 4]),
    /// Sets the packet's mark from the connection's.
    Restore([Byte; 4]),
    /// Sets the connection's mark.
    Save([Byte; 4]),
    /// Sets the packet's priority to a constant.
    Priority,
    /// Any effect that leaves the packet where it is.
    Other,
    /// Anything may happen.
    Unknown,
}

/// The data of a match or target.
struct Info<'a>(&'a [u8]);

impl Info<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn u8(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }
}

/// What a match says of packets.
pub(crate) fn matches(
    packet: &Packet,
    state: &State,
    (name, revision): (&str, u32),
    info: &[u8],
) -> Match {
    let info = Info(info);
    let conntrack = |truth: Option<Truth>| Match {
        conntrack: true,
        ..Match::from(truth.unwrap_or(Truth::VARYING))
    };
    let plain = |truth: Option<Truth>| Match::from(truth.unwrap_or(Truth::VARYING));
    let ports = |truth: Option<Truth>| Match {
        has_effect: !packet.is_flow(), // packets that are too short are dropped
        ..plain(truth)
    };
    match name {
        "comment" => Truth::Surely.into(),
        "conntrack" => conntrack(conntrack_info(packet, revision, &info)),
        "state" => conntrack(info.u32(0).map(|mask| state_is(packet, mask, 0))),
        "mark" => plain(mark_is(&state.mark, &info)),
        "connmark" => Match {
            reads_ct_mark: true,
            ..conntrack(match packet.tracked {
                true => mark_is(&state.ct_mark, &info),
                false => Some(Truth::CONSTANT),
            })
        },
        "tcp" => ports(tcp(packet, &info)),
        "udp" => ports(Some(ports_of(packet, Traffic::Udp))),
        "multiport" => ports(Some(Truth::CONSTANT)),
        // each needs a protocol or an extension header of its own, which flows do not have
        "frag" | "hbh" | "dst" | "rt" | "mh" | "srh" | "icmp" | "icmp6" | "sctp" | "dccp"
        | "esp" | "ah" | "ipcomp" => ports(Some(match packet.is_flow() {
            true => Truth::Never,
            false => Truth::VARYING,
        })),
        "addrtype" => Match {
            fib: true,
            ..plain(addrtype(packet, revision, &info))
        },
        "rpfilter" => Match {
            fib: true,
            ..Truth::CONSTANT.into()
        },
        "pkttype" => plain(pkttype(packet, &info)),
        "iprange" | "devgroup" => Truth::CONSTANT.into(),
        "helper" => conntrack(Some(Truth::CONSTANT)),
        "connbytes" | "connlabel" | "connlimit" | "cluster" | "socket" => conntrack(None),
        // nothing tells of changes of ipsets, by programs, targets or timeouts
        "set" => Truth::VARYING.into(),
        "mac" | "physdev" | "policy" | "limit" | "hashlimit" | "statistic" | "length" | "ttl"
        | "hl" | "tos" | "dscp" | "ecn" | "time" | "string" | "u32" | "bpf" | "tcpmss"
        | "realm" | "owner" | "cpu" | "eui64" | "ipv6header" => Truth::VARYING.into(),
        _ => Match {
            has_effect: true,
            ..conntrack(None)
        },
    }
}

/// XT_CONNTRACK_STATE_BIT(ctinfo) of `established`, here and in the match `state`.
const ESTABLISHED: u32 = 1 << 1;

/// Whether the connection's state is in a mask; `translated` are those of its bits that are not states but SNAT and DNAT.
fn state_is(packet: &Packet, mask: u32, translated: u32) -> Truth {
    if !packet.tracked {
        Truth::CONSTANT
    } else if mask & ESTABLISHED != 0 {
        Truth::Surely
    } else if mask & translated != 0 {
        Truth::CONSTANT
    } else {
        Truth::Never
    }
}

/// struct xt_conntrack_mtinfo1 to 3
fn conntrack_info(packet: &Packet, revision: u32, info: &Info<'_>) -> Option<Truth> {
    const STATE: u16 = 1 << 0;
    const EXPIRES: u16 = 1 << 7;
    const STATUS: u16 = 1 << 6;
    const ALIAS: u16 = 1 << 13;
    const TRANSLATED: u32 = 1 << 6 | 1 << 7; // XT_CONNTRACK_STATE_SNAT and DNAT
    let (flags, inverted) = (info.u16(146)?, info.u16(148)?);
    let mask = match revision {
        1 => u16::from(info.u8(150)?),
        2 | 3 => info.u16(150)?,
        _ => return None,
    };
    let mut truth = Truth::Surely;
    if flags & STATE != 0 {
        let state = state_is(packet, u32::from(mask), TRANSLATED);
        truth = truth.and(state.inverted_if(inverted & STATE != 0));
    }
    if flags & (EXPIRES | STATUS) != 0 {
        truth = truth.and(Truth::VARYING);
    }
    if flags & !(STATE | EXPIRES | STATUS | ALIAS) != 0 {
        truth = truth.and(Truth::CONSTANT); // addresses, ports, protocol, direction
    }
    Some(truth)
}

/// struct xt_mark_mtinfo1, struct xt_connmark_mtinfo1
fn mark_is(mark: &[Byte; 4], info: &Info<'_>) -> Option<Truth> {
    let (value, mask): ([u8; 4], [u8; 4]) = (info.array(0)?, info.array(4)?);
    let masked: [Byte; 4] = std::array::from_fn(|at| mark[at].masked(mask[at], 0));
    Some(equals(&masked, &value).inverted_if(info.u8(8)? != 0))
}

fn ports_of(packet: &Packet, traffic: Traffic) -> Truth {
    match packet.traffic {
        Traffic::All => Truth::VARYING,
        one if one == traffic => Truth::CONSTANT,
        _ => Truth::Never,
    }
}

/// struct xt_tcp
fn tcp(packet: &Packet, info: &Info<'_>) -> Option<Truth> {
    const INVERTED_FLAGS: u8 = 4;
    let (option, mask, flags, inverted) = (info.u8(8)?, info.u8(9)?, info.u8(10)?, info.u8(11)?);
    let any_port = (0..8).all(|at| info.u8(at) == Some([0, 0, 0xff, 0xff][at % 4]));
    let mut truth = ports_of(packet, Traffic::Tcp);
    if truth == Truth::CONSTANT && any_port && inverted & 3 == 0 {
        truth = Truth::Surely;
    }
    if packet.is_flow() {
        let seen = Byte::partly(0x07, 0).masked(mask, 0); // without SYN, FIN and RST
        truth = truth.and(equals(&[seen], &[flags]).inverted_if(inverted & INVERTED_FLAGS != 0));
    }
    if option != 0 {
        truth = truth.and(Truth::VARYING);
    }
    Some(truth)
}

/// struct xt_addrtype_info and xt_addrtype_info_v1
fn addrtype(packet: &Packet, revision: u32, info: &Info<'_>) -> Option<Truth> {
    const LOCAL: u16 = 1 << 2;
    const MULTICAST: u16 = 1 << 5;
    let (source, dest) = (info.u16(0)?, info.u16(2)?);
    let inverted = match revision {
        0 => info.u32(8)? != 0,
        1 => info.u32(4)? & 2 != 0, // XT_ADDRTYPE_INVERT_DEST
        _ => return None,
    };
    let mut truth = Truth::Surely;
    if source != 0 {
        truth = Truth::CONSTANT;
    }
    if dest != 0 {
        let never = packet.not_local && dest & !(LOCAL | MULTICAST) == 0;
        let found = if never { Truth::Never } else { Truth::CONSTANT };
        truth = truth.and(found.inverted_if(inverted));
    }
    Some(truth)
}

/// struct xt_pkttype_info
fn pkttype(packet: &Packet, info: &Info<'_>) -> Option<Truth> {
    const PACKET_HOST: u32 = 0;
    let holds = Truth::of(info.u32(0)? == PACKET_HOST).inverted_if(info.u32(4)? != 0);
    Some(if packet.hook.is_at_device() {
        Truth::CONSTANT
    } else {
        holds
    })
}

/// What a target does with packets.
pub(crate) fn target(
    packet: &Packet,
    state: &State,
    (name, revision): (&str, u32),
    info: &[u8],
) -> Action {
    let info = Info(info);
    match name {
        "REJECT" => Action::Drop,
        "MARK" if revision == 2 => mark(&state.mark, &info).map_or(Action::Unknown, Action::Mark),
        "CONNMARK" => connmark(packet, state, revision, &info).unwrap_or(Action::Unknown),
        "CLASSIFY" => Action::Priority,
        "CHECKSUM" => Action::Nothing, // it does what the card would do
        "MASQUERADE" | "SNAT" | "DNAT" | "REDIRECT" | "NETMAP" => Action::Translate,
        "CT" if packet.is_flow() && only_for_new(&info) => Action::Nothing,
        "CT" | "NOTRACK" => Action::Conntrack,
        "LOG" | "NFLOG" | "TRACE" | "AUDIT" | "TCPMSS" | "TCPOPTSTRIP" | "DSCP" | "TOS" | "TTL"
        | "HL" | "ECN" | "TEE" | "SET" | "IDLETIMER" | "RATEEST" | "LED" => Action::Other,
        _ => Action::Unknown,
    }
}

/// Whether struct xt_ct_target_info and _v1 neither keep packets from conntrack nor choose a zone: helpers, timeouts and events
/// are given to a connection at its first packet (init_conntrack() in net/netfilter/nf_conntrack_core.c).
fn only_for_new(info: &Info<'_>) -> bool {
    info.u16(0) == Some(0) && info.u16(2) == Some(0)
}

/// Whether a target surely leaves the packet's destination as it is.
pub(crate) fn keeps_destination(name: &str) -> bool {
    const KEEP: [&str; 22] = [
        "REJECT",
        "MARK",
        "CONNMARK",
        "CLASSIFY",
        "CHECKSUM",
        "CT",
        "NOTRACK",
        "LOG",
        "NFLOG",
        "TRACE",
        "AUDIT",
        "TCPMSS",
        "TCPOPTSTRIP",
        "DSCP",
        "TOS",
        "TTL",
        "HL",
        "ECN",
        "TEE",
        "SET",
        "IDLETIMER",
        "RATEEST",
    ];
    KEEP.contains(&name)
}

/// `(mark & !mask) ^ value`
fn changed(mark: &[Byte; 4], mask: u32, value: [Byte; 4]) -> [Byte; 4] {
    let mask = mask.to_ne_bytes();
    std::array::from_fn(|at| mark[at].masked(!mask[at], 0).xor(value[at]))
}

fn known(value: u32) -> [Byte; 4] {
    value.to_ne_bytes().map(Byte::known)
}

/// struct xt_mark_tginfo2
fn mark(mark: &[Byte; 4], info: &Info<'_>) -> Option<[Byte; 4]> {
    let (value, mask) = (info.u32(0)?, info.u32(4)?);
    Some(changed(mark, mask, known(value)))
}

/// struct xt_connmark_tginfo1 and 2
fn connmark(packet: &Packet, state: &State, revision: u32, info: &Info<'_>) -> Option<Action> {
    let (value, ct_mask, packet_mask) = (info.u32(0)?, info.u32(4)?, info.u32(8)?);
    let (shift, mode) = match revision {
        1 => (0, info.u8(12)?),
        2 => (info.u8(13)?, info.u8(14)?),
        _ => return None,
    };
    let shifted = |bytes: [Byte; 4]| if shift == 0 { bytes } else { forget(bytes) };
    let masked = |mark: &[Byte; 4], mask: u32| {
        let mask = mask.to_ne_bytes();
        std::array::from_fn(|at| mark[at].masked(mask[at], 0))
    };
    let ct_mark = if packet.tracked {
        state.ct_mark
    } else {
        [Byte::CONSTANT; 4]
    };
    Some(match mode {
        0 => Action::Save(shifted(changed(&ct_mark, ct_mask, known(value)))),
        1 => Action::Save(shifted(changed(
            &ct_mark,
            ct_mask,
            masked(&state.mark, packet_mask),
        ))),
        2 => Action::Restore(shifted(changed(
            &state.mark,
            packet_mask,
            masked(&ct_mark, ct_mask),
        ))),
        _ => return None,
    })
}
