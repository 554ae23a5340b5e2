//! The table `bora` of nftables: a flowtable of Bora's own, and a chain that puts established flows into it. It is of family
//! `inet`, or of the one IP version that it is for: of the other, Linux would have to see all packets.
//!
//! It belongs to the socket that made it (NFT_TABLE_F_OWNER, Linux 5.12): it ends with Bora, however that ends, nobody else can
//! change it, and `nft flush ruleset` leaves it alone.

use std::io;

use bora_ruleset::Family;

use crate::message::{Frame, Malformed};
use crate::request::Body;
use crate::socket::{Netlink, Received, result};

/// Its name.
const NAME: &str = "bora";
/// The name of its flowtable.
const FLOWS: &str = "flows";
/// The name of its chain.
const CHAIN: &str = "forward";
/// The set of connections whose original direction is accepted.
const ACCEPTED: &str = "accepted";
/// The set of connections that are settled in both directions, where rules set marks.
const SETTLED: &str = "settled";
/// How long a connection stays in those sets, ms: until its next packet.
const REMEMBERED_MS: u64 = 60_000;
/// Most connections in each; others have no flow until there is room.
const MOST_ACCEPTED: u32 = 1 << 16;

// include/uapi/linux/netfilter/nfnetlink.h
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
/// struct nfgenmsg of a batch for nftables: the subsystem, in network order.
const BATCH: [u8; 4] = [0, 0, 0, 10];
// include/uapi/linux/netfilter/nf_tables.h
const NFT_NEWTABLE: u16 = 10 << 8;
const NFT_NEWCHAIN: u16 = (10 << 8) | 3;
const NFT_NEWRULE: u16 = (10 << 8) | 6;
const NFT_NEWSET: u16 = (10 << 8) | 9;
const NFT_NEWFLOWTABLE: u16 = (10 << 8) | 22;
const NFT_TABLE_F_OWNER: u32 = 2;
const NF_INET_FORWARD: u32 = 2;
const NF_NETDEV_INGRESS: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NFT_REG_1: u32 = 1;
/// The first of three registers of 32 bits that are one key.
const NFT_REG32_00: u32 = 8;
const NFT_META_IIF: u32 = 4;
const NFT_META_OIF: u32 = 5;
const NFT_META_NFPROTO: u32 = 15;
const NFT_META_L4PROTO: u32 = 16;
const NFT_CT_STATE: u32 = 0;
const NFT_CT_DIRECTION: u32 = 1;
const NFT_CT_MARK: u32 = 3;
const NFT_CT_ID: u32 = 23;
const NFT_SET_TIMEOUT: u32 = 0x10;
const NFT_SET_EVAL: u32 = 0x20;
const NFT_DYNSET_OP_UPDATE: u32 = 1;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
/// NF_CT_STATE_BIT(IP_CT_ESTABLISHED).
const ESTABLISHED: u32 = 2;

/// What the table is to offer to flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOffload {
    /// The interfaces whose packets are looked up in the flowtable.
    pub devices: Vec<String>,
    /// Whether flows of IPv4 and of IPv6 are put into it.
    pub versions: [bool; 2],
    /// The edition of the rules ([`Firewall::edition`](super::Firewall)) if they accept some flows and others not: a flow
    /// counts after a packet of each direction was accepted, and for these rules only.
    pub edition: Option<u64>,
    /// Rules set marks, on which the route of a packet may depend: a flow counts after packets of both directions, and another one of the first,
    /// have left conntrack's mark as it was and passed the same two interfaces. Needs an edition.
    pub marks: bool,
}

impl FlowOffload {
    /// The family of the table.
    fn family(&self) -> Family {
        match self.versions {
            [true, false] => Family::Ip,
            [false, true] => Family::Ip6,
            _ => Family::Inet,
        }
    }

    /// The table, as in `nft list table`.
    pub fn title(&self) -> String {
        format!("{} {NAME}", self.family())
    }

    /// The start of each message: struct nfgenmsg.
    fn head(&self) -> Body {
        Body::new(&[self.family().number(), 0, 0, 0])
    }
}

/// The table, and the socket that owns it.
#[derive(Default)]
pub(super) struct OwnTable {
    socket: Option<Netlink>,
    made: Option<FlowOffload>,
}

impl OwnTable {
    /// Whether the table is there.
    pub(super) fn is_made(&self) -> bool {
        self.made.is_some()
    }

    /// Whether a table is this one: nobody else can have one of its name meanwhile.
    pub(super) fn is(&self, family: Family, table: &str) -> bool {
        let made = self.made.as_ref();
        made.is_some_and(|made| made.family() == family && table == NAME)
    }

    /// Makes, changes or removes the table; `true` if it is another than before.
    ///
    /// # Errors
    /// The kernel has no flowtables, an interface is gone, or another has a table of this name; there is no table then.
    pub(super) fn follow(&mut self, wanted: Option<&FlowOffload>) -> io::Result<bool> {
        if self.made.as_ref() == wanted {
            return Ok(false);
        }
        (self.socket, self.made) = (None, None); // the table goes with its socket
        let Some(wanted) = wanted else {
            return Ok(true);
        };
        let what = "the table bora of nftables";
        let mut socket =
            Netlink::open(libc::NETLINK_NETFILTER, &[], 1 << 16, what).map_err(io::Error::other)?;
        batch(&mut socket, &messages(wanted))?;
        (self.socket, self.made) = (Some(socket), Some(wanted.clone()));
        Ok(true)
    }
}

/// The messages that make the table.
fn messages(wanted: &FlowOffload) -> Vec<(u16, Body)> {
    // NFTA_TABLE_NAME, NFTA_TABLE_FLAGS
    let table = wanted.head().text(1, NAME).u32_be(2, NFT_TABLE_F_OWNER);
    let devices = wanted.devices.iter();
    // NFTA_DEVICE_NAME
    let devices = devices.fold(Body::new(&[]), |all, device| all.text(1, device));
    // NFTA_FLOWTABLE_HOOK_NUM, NFTA_FLOWTABLE_HOOK_PRIORITY, NFTA_FLOWTABLE_HOOK_DEVS
    let ingress = Body::new(&[]).u32_be(1, NF_NETDEV_INGRESS).u32_be(2, 0);
    let ingress = ingress.nested(3, devices);
    // NFTA_FLOWTABLE_TABLE, NFTA_FLOWTABLE_NAME, NFTA_FLOWTABLE_HOOK
    let flows = wanted
        .head()
        .text(1, NAME)
        .text(2, FLOWS)
        .nested(3, ingress);
    // behind all chains of others: NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY
    let last = i32::MAX.cast_unsigned();
    let forward = Body::new(&[]).u32_be(1, NF_INET_FORWARD).u32_be(2, last);
    // NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY, NFTA_CHAIN_TYPE
    let chain = wanted
        .head()
        .text(1, NAME)
        .text(3, CHAIN)
        .nested(4, forward);
    let chain = chain.u32_be(5, NF_ACCEPT).text(7, "filter");
    let mut all = vec![
        (NFT_NEWTABLE, table),
        (NFT_NEWFLOWTABLE, flows),
        (NFT_NEWCHAIN, chain),
    ];
    if wanted.edition.is_some() {
        all.push((NFT_NEWSET, set(wanted, ACCEPTED)));
    }
    if wanted.marks {
        all.push((NFT_NEWSET, set(wanted, SETTLED)));
    }
    let versions = [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6].into_iter();
    for (version, _) in versions
        .zip(wanted.versions)
        .filter(|(_, offered)| *offered)
    {
        for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            let packets = (version as u8, protocol as u8);
            let rests = match wanted.edition {
                None => vec![vec![add_flow()]],
                Some(_) => remembering(wanted.marks),
            };
            let rules = rests.into_iter().map(|rest| rule(wanted, packets, rest));
            all.extend(rules.map(|rule| (NFT_NEWRULE, rule)));
        }
    }
    all
}

/// `set NAME { typeof ct id; flags dynamic,timeout; … }`, or with `typeof ct id . ct mark . meta iif`.
fn set(wanted: &FlowOffload, name: &str) -> Body {
    let octets = if wanted.marks { 12 } else { 4 };
    // NFTA_SET_TABLE, NFTA_SET_NAME, NFTA_SET_FLAGS, NFTA_SET_KEY_LEN
    let set = wanted.head().text(1, NAME).text(2, name);
    let set = set.u32_be(3, NFT_SET_TIMEOUT | NFT_SET_EVAL);
    let set = set.u32_be(5, octets);
    // NFTA_SET_DESC with NFTA_SET_DESC_SIZE, NFTA_SET_ID, NFTA_SET_TIMEOUT
    let set = set.nested(9, Body::new(&[]).u32_be(1, MOST_ACCEPTED));
    set.u32_be(10, set_id(name))
        .attribute(11, &REMEMBERED_MS.to_be_bytes())
}

/// The number of a set in the batch that makes it.
fn set_id(name: &str) -> u32 {
    if name == SETTLED { 2 } else { 1 }
}

/// An expression: its name, and what it is told.
type Expression = (&'static str, Body);

/// `meta nfproto VERSION meta l4proto PROTOCOL ct state established …`
fn rule(wanted: &FlowOffload, (version, protocol): (u8, u8), rest: Vec<Expression>) -> Body {
    let established = ESTABLISHED.to_ne_bytes();
    // NFTA_BITWISE_SREG, _DREG, _LEN, _MASK, _XOR
    let masked = Body::new(&[]).u32_be(1, NFT_REG_1).u32_be(2, NFT_REG_1);
    let masked = masked.u32_be(3, 4);
    let masked = masked
        .nested(4, data(&established))
        .nested(5, data(&[0; 4]));
    let mut expressions = vec![
        ("meta", load(NFT_META_NFPROTO)),
        ("cmp", compare(NFT_CMP_EQ, &[version])),
        ("meta", load(NFT_META_L4PROTO)),
        ("cmp", compare(NFT_CMP_EQ, &[protocol])),
        ("ct", load(NFT_CT_STATE)),
        ("bitwise", masked),
        ("cmp", compare(NFT_CMP_NEQ, &[0; 4])),
    ];
    expressions.extend(rest);
    let mut list = Body::new(&[]);
    for (name, body) in expressions {
        // NFTA_LIST_ELEM with NFTA_EXPR_NAME, NFTA_EXPR_DATA
        list = list.nested(1, Body::new(&[]).text(1, name).nested(2, body));
    }
    // NFTA_RULE_TABLE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS
    let rule = wanted.head().text(1, NAME).text(2, CHAIN);
    rule.nested(4, list)
}

/// `flow add @flows`
fn add_flow() -> Expression {
    // NFTA_FLOW_TABLE_NAME
    ("flow_offload", Body::new(&[]).text(1, FLOWS))
}

/// What rules do that put a flow into the flowtable after packets of both directions were accepted.
fn remembering(marks: bool) -> Vec<Vec<Expression>> {
    let original = || connection(0, marks);
    let reply = || connection(1, marks);
    if !marks {
        // `ct direction original update @accepted { KEY }`, `ct direction reply KEY @accepted flow add @flows`
        return vec![
            [original(), vec![update(ACCEPTED)]].concat(),
            [reply(), vec![look_up(ACCEPTED), add_flow()]].concat(),
        ];
    }
    vec![
        [original(), vec![look_up(SETTLED), add_flow()]].concat(),
        [original(), vec![update(ACCEPTED)]].concat(),
        [reply(), vec![look_up(ACCEPTED), update(SETTLED)]].concat(),
    ]
}

/// `update @NAME { KEY }`
fn update(name: &str) -> Expression {
    // NFTA_DYNSET_SET_NAME, NFTA_DYNSET_SET_ID, NFTA_DYNSET_OP, NFTA_DYNSET_SREG_KEY
    let update = Body::new(&[]).text(1, name).u32_be(2, set_id(name));
    let update = update.u32_be(3, NFT_DYNSET_OP_UPDATE);
    ("dynset", update.u32_be(4, NFT_REG32_00))
}

/// `KEY @NAME`
fn look_up(name: &str) -> Expression {
    // NFTA_LOOKUP_SET, NFTA_LOOKUP_SREG, NFTA_LOOKUP_SET_ID
    let look_up = Body::new(&[]).text(1, name).u32_be(2, NFT_REG32_00);
    ("lookup", look_up.u32_be(4, set_id(name)))
}

/// Loads the connection of packets of a direction (IP_CT_DIR_*): KEY above. With marks also conntrack's mark and the interface where the
/// original direction comes in and the other one leaves.
fn connection(direction: u8, marks: bool) -> Vec<Expression> {
    let interface = [NFT_META_IIF, NFT_META_OIF][usize::from(direction)];
    let mut all = vec![
        ("ct", load(NFT_CT_DIRECTION)),
        ("cmp", compare(NFT_CMP_EQ, &[direction])),
        ("ct", load_to(NFT_REG32_00, NFT_CT_ID)),
    ];
    if marks {
        all.push(("ct", load_to(NFT_REG32_00 + 1, NFT_CT_MARK)));
        all.push(("meta", load_to(NFT_REG32_00 + 2, interface)));
    }
    all
}

/// Loads what is known of the packet or its connection: NFTA_META_DREG and NFTA_META_KEY, or NFTA_CT_DREG and NFTA_CT_KEY.
fn load(key: u32) -> Body {
    load_to(NFT_REG_1, key)
}

fn load_to(register: u32, key: u32) -> Body {
    Body::new(&[]).u32_be(1, register).u32_be(2, key)
}

/// Compares: NFTA_CMP_SREG, NFTA_CMP_OP, NFTA_CMP_DATA.
fn compare(operator: u32, value: &[u8]) -> Body {
    let body = Body::new(&[]).u32_be(1, NFT_REG_1).u32_be(2, operator);
    body.nested(3, data(value))
}

/// A constant: NFTA_DATA_VALUE.
fn data(value: &[u8]) -> Body {
    Body::new(&[]).attribute(1, value)
}

/// Sends the messages as one change, all or nothing, and waits for it. A change without messages waits for one that another
/// program makes.
pub(super) fn batch(socket: &mut Netlink, messages: &[(u16, Body)]) -> io::Result<()> {
    let create = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let mut batch = vec![(NFNL_MSG_BATCH_BEGIN, 0, &BATCH[..])];
    let messages = messages.iter();
    batch.extend(messages.map(|(kind, body)| (*kind, create, body.octets())));
    batch.push((NFNL_MSG_BATCH_END, 0, &BATCH[..]));
    socket.send_together(&batch)?;
    let mut refused = None;
    let mut each = |frame: Result<Frame<'_>, Malformed>| {
        let said = match frame {
            Ok(frame) if i32::from(frame.kind) == libc::NLMSG_ERROR => result(frame.payload),
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        refused = refused.take().or(said.err());
    };
    while socket.receive(&mut each).map_err(io::Error::other)? == Received::Datagram {}
    refused.map_or(Ok(()), Err)
}
