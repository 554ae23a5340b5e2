//! Messages of nftables made by hand.

use bora_ruleset::Ruleset;

pub(crate) const NEWTABLE: u16 = 10 << 8;
pub(crate) const NEWCHAIN: u16 = NEWTABLE | 3;
pub(crate) const NEWRULE: u16 = NEWTABLE | 6;
pub(crate) const NEWSET: u16 = NEWTABLE | 9;
pub(crate) const NEWSETELEM: u16 = NEWTABLE | 12;

pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = (4 + value.len() as u16).to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

pub(crate) fn nested(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | 0x8000, &parts.concat())
}

pub(crate) fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), b"\0"].concat())
}

pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// A message of family inet.
pub(crate) fn message(parts: &[Vec<u8>]) -> Vec<u8> {
    [vec![1, 0, 0, 0], parts.concat()].concat()
}

/// A base chain of table t; its policy is accept.
pub(crate) fn base(name: &str, hook: u32, priority: i32) -> (u16, Vec<u8>) {
    let hook = nested(4, &[number(1, hook), attribute(2, &priority.to_be_bytes())]);
    (
        NEWCHAIN,
        message(&[
            text(1, "t"),
            text(3, name),
            hook,
            number(5, 1),
            text(7, "filter"),
        ]),
    )
}

pub(crate) fn rule(chain: &str, expressions: &[Vec<u8>]) -> (u16, Vec<u8>) {
    let handle = attribute(3, &7u64.to_be_bytes());
    (
        NEWRULE,
        message(&[text(1, "t"), text(2, chain), handle, nested(4, expressions)]),
    )
}

pub(crate) fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, data)])
}

/// `accept` (1), `drop` (0), `return` (-5), or with a chain `jump` (-3) and `goto` (-4).
pub(crate) fn verdict(code: i32, chain: Option<&str>) -> Vec<u8> {
    let mut parts = vec![attribute(1, &code.to_be_bytes())];
    parts.extend(chain.map(|chain| text(2, chain)));
    expression(
        "immediate",
        &[number(1, 0), nested(2, &[nested(2, &parts)])],
    )
}

/// Reads a field of packet data into the first register and compares it.
pub(crate) fn payload(base: u32, offset: u32, value: &[u8]) -> [Vec<u8>; 2] {
    let len = value.len() as u32;
    let load = [
        number(1, 1),
        number(2, base),
        number(3, offset),
        number(4, len),
    ];
    [expression("payload", &load), compare(value)]
}

/// Compares the first register.
pub(crate) fn compare(value: &[u8]) -> Vec<u8> {
    expression(
        "cmp",
        &[
            number(1, 1),
            number(2, 0),
            nested(3, &[attribute(1, value)]),
        ],
    )
}

/// Loads by `meta`, `ct` or another expression whose attributes are a register and a key.
pub(crate) fn load(name: &str, key: u32) -> Vec<u8> {
    expression(name, &[number(1, 1), number(2, key)])
}

pub(crate) fn read(messages: &[(u16, Vec<u8>)]) -> Ruleset {
    let mut ruleset = Ruleset::default();
    for (kind, payload) in messages {
        ruleset.read(*kind, payload).unwrap();
    }
    ruleset
}
