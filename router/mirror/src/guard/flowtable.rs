//! Flowtables of nftables: where the ruleset puts established flows (`flow add @ft`).

use bora_ruleset::Family;
use serde::Serialize;

use crate::attribute::{Attribute, Malformed, attributes, header};
use crate::message::Frame;

use super::own_table::OwnTable;

// include/uapi/linux/netfilter/nf_tables.h
pub(super) const NFT_GETFLOWTABLE: u16 = (10 << 8) | 23;
pub(super) const NFT_GETRULE: u16 = (10 << 8) | 7;
const NFT_NEWFLOWTABLE: u16 = (10 << 8) | 22;
const NFT_NEWRULE: u16 = (10 << 8) | 6;
const NFTA_FLOWTABLE_TABLE: u16 = 1;
const NFTA_FLOWTABLE_NAME: u16 = 2;
const NFTA_FLOWTABLE_HOOK: u16 = 3;
const NFTA_FLOWTABLE_FLAGS: u16 = 7;
const NFTA_FLOWTABLE_HOOK_DEVS: u16 = 3;
const NFTA_DEVICE_NAME: u16 = 1;
const NFTA_DEVICE_PREFIX: u16 = 2;
const NFT_FLOWTABLE_HW_OFFLOAD: u32 = 1;
const NFT_FLOWTABLE_COUNTER: u32 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_FLOW_TABLE_NAME: u16 = 1;

/// A flowtable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Flowtable {
    /// `inet`, `ip` or `ip6`.
    pub family: &'static str,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Interfaces; a name that ends in `*` stands for all that begin so.
    pub devices: Vec<String>,
    /// Linux counts the packets of its flows for conntrack.
    pub counter: bool,
    /// Its flows are to be forwarded by cards.
    pub offload: bool,
    /// Whether a rule puts flows into it.
    pub used: bool,
    /// Whether it is Bora's own ([`FlowOffload`](super::FlowOffload)).
    pub own: bool,
}

impl Flowtable {
    /// As in `nft list flowtables`.
    pub fn title(&self) -> String {
        format!("{} {} {}", self.family, self.table, self.name)
    }

    /// Whether both are the same one, whatever its devices are.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.family, &self.table, &self.name) == (other.family, &other.table, &other.name)
    }

    /// Whether an interface is among its devices.
    pub fn has(&self, interface: &str) -> bool {
        self.devices
            .iter()
            .any(|device| match device.strip_suffix('*') {
                Some(prefix) => interface.starts_with(prefix),
                None => device == interface,
            })
    }
}

/// Name of the family of a table that can have flowtables.
fn family(number: u8) -> Option<&'static str> {
    match number {
        1 => Some("inet"),
        2 => Some("ip"),
        10 => Some("ip6"),
        _ => None,
    }
}

/// Adds the flowtable that a message describes.
pub(super) fn flowtable(
    found: &mut Vec<Flowtable>,
    frame: &Frame<'_>,
    own: &OwnTable,
) -> Result<(), Malformed> {
    if frame.kind != NFT_NEWFLOWTABLE {
        return Ok(());
    }
    let number = header(frame.payload, 4, "nftables flowtable")?[0];
    let Some(family) = family(number) else {
        return Ok(());
    };
    let mut made = Flowtable {
        family,
        ..Flowtable::default()
    };
    for attribute in attributes(frame.payload, 4) {
        let attribute = attribute?;
        match attribute.kind {
            NFTA_FLOWTABLE_TABLE => made.table = attribute.text(),
            NFTA_FLOWTABLE_NAME => made.name = attribute.text(),
            NFTA_FLOWTABLE_HOOK => made.devices = devices(&attribute)?,
            NFTA_FLOWTABLE_FLAGS => {
                let flags = attribute.u32_be()?;
                made.offload = flags & NFT_FLOWTABLE_HW_OFFLOAD != 0;
                made.counter = flags & NFT_FLOWTABLE_COUNTER != 0;
            }
            _ => {}
        }
    }
    made.own = own.is(Family::new(number), &made.table);
    found.push(made);
    Ok(())
}

fn devices(hook: &Attribute<'_>) -> Result<Vec<String>, Malformed> {
    let mut names = Vec::new();
    for nested in hook.nested() {
        let nested = nested?;
        if nested.kind != NFTA_FLOWTABLE_HOOK_DEVS {
            continue;
        }
        for device in nested.nested() {
            let device = device?;
            match device.kind {
                NFTA_DEVICE_NAME => names.push(device.text()),
                NFTA_DEVICE_PREFIX => names.push(device.text() + "*"),
                _ => {}
            }
        }
    }
    Ok(names)
}

/// Marks the flowtables that a rule puts flows into.
pub(super) fn flow_rule(found: &mut [Flowtable], frame: &Frame<'_>) -> Result<(), Malformed> {
    if frame.kind != NFT_NEWRULE {
        return Ok(());
    }
    let Some(family) = family(header(frame.payload, 4, "nftables rule")?[0]) else {
        return Ok(());
    };
    let (mut table, mut names) = (String::new(), Vec::new());
    for attribute in attributes(frame.payload, 4) {
        let attribute = attribute?;
        match attribute.kind {
            NFTA_RULE_TABLE => table = attribute.text(),
            NFTA_RULE_EXPRESSIONS => {
                for expression in attribute.nested() {
                    names.extend(added_to(&expression?)?);
                }
            }
            _ => {}
        }
    }
    for flowtable in found {
        flowtable.used |= flowtable.family == family
            && flowtable.table == table
            && names.contains(&flowtable.name);
    }
    Ok(())
}

/// The flowtable of a `flow add`.
fn added_to(expression: &Attribute<'_>) -> Result<Option<String>, Malformed> {
    let (mut adds, mut name) = (false, None);
    for attribute in expression.nested() {
        let attribute = attribute?;
        match attribute.kind {
            NFTA_EXPR_NAME => adds = attribute.text() == "flow_offload",
            NFTA_EXPR_DATA if adds => {
                for data in attribute.nested() {
                    let data = data?;
                    if data.kind == NFTA_FLOW_TABLE_NAME {
                        name = Some(data.text());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut octets = (4 + value.len() as u16).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    fn text(kind: u16, value: &str) -> Vec<u8> {
        attribute(kind, &[value.as_bytes(), b"\0"].concat())
    }

    fn message(family: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        [vec![family, 0, 0, 0], parts.concat()].concat()
    }

    fn frame(kind: u16, payload: &[u8]) -> Frame<'_> {
        Frame {
            kind,
            flags: 0,
            sequence: 0,
            payload,
        }
    }

    fn parsed(payload: &[u8]) -> Result<Vec<Flowtable>, Malformed> {
        let mut found = Vec::new();
        let frame = frame(NFT_NEWFLOWTABLE, payload);
        flowtable(&mut found, &frame, &OwnTable::default()).map(|()| found)
    }

    #[test]
    fn a_flowtable_and_the_rule_that_adds_to_it() {
        let names = [
            text(NFTA_DEVICE_NAME, "lan0"),
            text(NFTA_DEVICE_PREFIX, "ppp"),
        ]
        .concat();
        let payload = message(
            1,
            &[
                text(NFTA_FLOWTABLE_TABLE, "t"),
                text(NFTA_FLOWTABLE_NAME, "ft"),
                attribute(
                    NFTA_FLOWTABLE_HOOK | 0x8000,
                    &attribute(NFTA_FLOWTABLE_HOOK_DEVS | 0x8000, &names),
                ),
                attribute(NFTA_FLOWTABLE_FLAGS, &2u32.to_be_bytes()),
            ],
        );
        let mut found = parsed(&payload).unwrap();
        assert_eq!(found[0].title(), "inet t ft");
        assert!(found[0].counter && !found[0].offload && !found[0].used);
        assert!(found[0].has("lan0") && found[0].has("ppp3") && !found[0].has("lan1"));

        let rule = |table: &str, name: &str| {
            let data = text(NFTA_FLOW_TABLE_NAME, name);
            let expression = [
                text(NFTA_EXPR_NAME, "flow_offload"),
                attribute(NFTA_EXPR_DATA, &data),
            ];
            let list = attribute(NFTA_RULE_EXPRESSIONS, &attribute(1, &expression.concat()));
            message(1, &[text(NFTA_RULE_TABLE, table), list])
        };
        for (table, name, used) in [("t", "other", false), ("u", "ft", false), ("t", "ft", true)] {
            let payload = rule(table, name);
            flow_rule(&mut found, &frame(NFT_NEWRULE, &payload)).unwrap();
            assert_eq!(found[0].used, used, "{table} {name}");
        }
    }

    #[test]
    fn bridges_have_none_that_matters_and_short_messages_are_refused() {
        assert_eq!(parsed(&message(7, &[])).unwrap(), []);
        assert!(parsed(&[1, 0]).is_err());
        let short = message(1, &[attribute(NFTA_FLOWTABLE_FLAGS, &[0, 0])]);
        assert!(parsed(&short).is_err());
    }
}
