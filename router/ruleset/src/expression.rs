//! What rules consist of.

/// Octets of all registers.
pub(crate) const REGISTERS: usize = 64;

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// This base chain lets it pass.
    Accept,
    /// It is dropped.
    Drop,
    /// It goes to a program.
    Queue,
    /// The rule goes on.
    Continue,
    /// The rule does not match.
    Break,
    /// Back to the chain that jumped here.
    Return,
    /// To a chain and back.
    Jump(String),
    /// To a chain, without a way back.
    Goto(String),
    /// Not known.
    Other(i32),
}

/// Where a read of packet data begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadBase {
    /// The Ethernet header.
    Link,
    /// The IP header.
    Network,
    /// The TCP or UDP header.
    Transport,
    /// What is behind it, or not known.
    Inner,
}

/// How values are compared, as octets from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// An operation on bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bitwise {
    /// `(value & mask) ^ xor`
    Mask {
        /// Bits that stay.
        mask: Vec<u8>,
        /// Bits that change.
        xor: Vec<u8>,
    },
    /// A shift, or an operation on two registers.
    Other,
}

/// What a map gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A verdict.
    Verdict,
    /// A value, from this octet of the registers on.
    Register(usize),
}

/// An expression of a rule. `from` and `to` are the first octet of a value in the registers, which have 64.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "fields are those of include/uapi/linux/netfilter/nf_tables.h"
)]
pub enum Expression {
    /// Reads packet data.
    Payload {
        base: PayloadBase,
        offset: u32,
        len: usize,
        to: usize,
    },
    /// Changes packet data.
    PayloadWrite,
    /// Reads what Linux knows of a packet (NFT_META_*).
    Meta { key: u32, to: usize },
    /// Changes it.
    MetaSet { key: u32, from: usize },
    /// Reads from the packet's connection (NFT_CT_*).
    Ct { key: u32, to: usize },
    /// Changes it.
    CtSet { key: u32, from: usize },
    /// Goes on if the comparison holds.
    Compare {
        from: usize,
        how: Comparison,
        with: Vec<u8>,
    },
    /// Goes on if a value is in a range, or is not.
    Range {
        from: usize,
        low: Vec<u8>,
        high: Vec<u8>,
        inverted: bool,
    },
    /// Changes bits.
    Bitwise {
        from: usize,
        to: usize,
        len: usize,
        operation: Bitwise,
    },
    /// Converts numbers of `size` octets between the orders of network and host.
    ByteOrder {
        from: usize,
        to: usize,
        len: usize,
        size: usize,
    },
    /// Loads a constant.
    Immediate { to: usize, value: Vec<u8> },
    /// Says what becomes of the packet.
    Verdict(Verdict),
    /// Looks a value up in a set, or in a map that gives something.
    Lookup {
        set: String,
        from: usize,
        to: Option<Destination>,
        inverted: bool,
    },
    /// Changes a set.
    DynamicSet { set: String },
    /// Applies a named object (NFT_OBJECT_*); of a map of objects, 0.
    Object { kind: u32 },
    /// Looks up a route or the type of an address (NFT_FIB_RESULT_*, NFTA_FIB_F_*).
    Fib { result: u32, flags: u32, to: usize },
    /// Reads an option or extension header.
    HeaderOption { ipv6: bool, to: usize, len: usize },
    /// Changes an option.
    OptionWrite,
    /// A hash of a value.
    Hash { from: usize, len: usize, to: usize },
    /// Reads what varies from packet to packet: `numgen`, `rt`, `socket`, `osf`, `tunnel`, `xfrm`, `symhash`.
    Varying { name: &'static str, to: usize },
    /// Holds or not, from packet to packet: `limit`, `quota`, `connlimit`.
    Limit { name: &'static str },
    /// Counts: `counter`, `last`.
    Counter,
    /// Writes a log.
    Log,
    /// Sends an answer, and drops the packet.
    Reject,
    /// Gives the packet to a program.
    Queue,
    /// Address translation: `nat`, `masq`, `redir`.
    Nat { name: &'static str },
    /// Keeps conntrack off.
    Notrack,
    /// Adds the connection to a flowtable.
    FlowOffload { flowtable: String },
    /// Takes the packet elsewhere, or a copy: `tproxy`, `synproxy`, `dup`, `fwd`.
    Divert { name: &'static str },
    /// A match of iptables.
    Match {
        name: String,
        revision: u32,
        info: Vec<u8>,
    },
    /// A target of iptables.
    Target {
        name: String,
        revision: u32,
        info: Vec<u8>,
    },
    /// Anything else.
    Unknown(String),
}
