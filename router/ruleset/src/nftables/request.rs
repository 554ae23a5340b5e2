//! Which dumps to request, in this order. Each body begins with struct nfgenmsg.

use crate::model::TableKey;

/// NFT_MSG_GETTABLE, GETCHAIN, GETRULE and GETSET; then GETSETELEM for each [wanted set](crate::Ruleset::wanted_sets).
pub const ALL: [u16; 4] = [(10 << 8) | 1, (10 << 8) | 4, (10 << 8) | 7, (10 << 8) | 10];
/// NFT_MSG_GETSETELEM.
pub const ELEMENTS: u16 = (10 << 8) | 13;

/// Asks for all objects of a kind.
pub fn all() -> [u8; 4] {
    [0; 4] // AF_UNSPEC
}

/// Asks for the elements of a set.
pub fn elements(table: &TableKey, set: &str) -> Vec<u8> {
    let mut body = vec![table.family.number(), 0, 0, 0];
    for (kind, text) in [(1u16, table.name.as_str()), (2, set)] {
        let len = 4 + text.len() + 1; // NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_ELEM_LIST_SET
        body.extend((len as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(text.as_bytes());
        body.resize(body.len() + len.next_multiple_of(4) - len + 1, 0);
    }
    body
}
