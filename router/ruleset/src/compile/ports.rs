//! Matches of iptables that look at ports (include/uapi/linux/netfilter/xt_tcpudp.h, xt_multiport.h).

use super::conditions::Field;
use super::ranges::Ranges;

const INVERTS_SOURCE: u8 = 1; // XT_UDP_INV_SRCPT, XT_TCP_INV_SRCPT
const INVERTS_DESTINATION: u8 = 2;
const MULTIPORT_SOURCE: u8 = 0; // XT_MULTIPORT_SOURCE
const MULTIPORT_DESTINATION: u8 = 1;
/// Most ports of `multiport`.
const PORTS: usize = 15;

/// What a match needs; `None` if it looks at more than ports, or is not known.
pub(super) fn needs(name: &str, revision: u32, info: &[u8]) -> Option<Vec<(Field, Ranges)>> {
    match (name, revision) {
        ("udp", 0) => both(info, *info.get(8)?),
        ("tcp", 0) => {
            // option, and flags with their mask
            let more = info.get(8..11)?.iter().any(|&octet| octet != 0);
            let inverted = *info.get(11)?;
            both(info, inverted).filter(|_| !more && inverted <= 3)
        }
        ("multiport", 1) => multiport(info),
        _ => None,
    }
}

fn port(info: &[u8], at: usize) -> Option<u128> {
    let octets = info.get(at..at + 2)?.first_chunk()?;
    Some(u16::from_ne_bytes(*octets).into())
}

fn of_port(field: Field, ranges: Ranges, inverted: bool) -> (Field, Ranges) {
    let most = u16::MAX.into();
    let there = Ranges::one(0, most);
    let ranges = match inverted {
        true => ranges.inverted(most),
        false => ranges.and(&there),
    };
    (field, ranges)
}

/// A range of source ports and one of destination ports.
fn both(info: &[u8], inverted: u8) -> Option<Vec<(Field, Ranges)>> {
    let range = |at| Some(Ranges::union(vec![(port(info, at)?, port(info, at + 2)?)]));
    Some(vec![
        of_port(Field::FirstWord, range(0)?, inverted & INVERTS_SOURCE != 0),
        of_port(
            Field::SecondWord,
            range(4)?,
            inverted & INVERTS_DESTINATION != 0,
        ),
    ])
}

/// Ports, and ranges of them, which take two places (struct xt_multiport_v1).
fn multiport(info: &[u8]) -> Option<Vec<(Field, Ranges)>> {
    let field = match *info.first()? {
        MULTIPORT_SOURCE => Field::FirstWord,
        MULTIPORT_DESTINATION => Field::SecondWord,
        _ => return None, // one of both
    };
    let count = usize::from(*info.get(1)?);
    let begins_range = info.get(2 + 2 * PORTS..2 + 3 * PORTS)?;
    let inverted = *info.get(2 + 3 * PORTS)? != 0;
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < count.min(PORTS) {
        let low = port(info, 2 + 2 * at)?;
        at += usize::from(begins_range[at] != 0);
        ranges.push((low, port(info, 2 + 2 * at)?));
        at += 1;
    }
    Some(vec![of_port(field, Ranges::union(ranges), inverted)])
}
