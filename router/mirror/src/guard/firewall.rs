//! What nftables' rules do with transit.

use bora_ruleset::{Question, Ruleset, Transit, request};

use crate::attribute::attributes;
use crate::error::KernelError;
use crate::message::Frame;
use crate::socket::Netlink;

use super::own_table::{OwnTable, batch};

// include/uapi/linux/netfilter/nf_tables.h
const NFT_NEWGEN: u16 = (10 << 8) | 15;
const NFT_GETGEN: u16 = (10 << 8) | 16;
const NFTA_GEN_ID: u16 = 1;

/// What nftables' rules do with transit, and which rules these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firewall {
    /// The generation of the ruleset that was read (`NFTA_GEN_ID`), or an older one if it changed meanwhile.
    pub generation: u32,
    /// How often the rules, or elements of their sets, were found to be others; Bora's own table does not count.
    pub edition: u64,
    /// What they do with packets of IPv4 and of IPv6.
    pub transit: [Transit; 2],
}

/// Reads nftables' rules, and analyses those that it has not read before.
#[derive(Default)]
pub(super) struct Rules {
    ruleset: Ruleset,
    edition: u64,
    transit: [Transit; 2],
}

impl Rules {
    /// Reads all rules but Bora's own; `None` if not all could be read. `new_elements`: elements of sets have changed.
    pub(super) fn read(
        &mut self,
        socket: &mut Netlink,
        own: &OwnTable,
        new_elements: bool,
    ) -> Option<Firewall> {
        match ruleset(socket, own) {
            Ok(Some((generation, ruleset))) => {
                self.take(ruleset, new_elements);
                Some(Firewall {
                    generation,
                    edition: self.edition,
                    transit: self.transit.clone(),
                })
            }
            Ok(None) => None,
            Err(error) => {
                log::debug!("rules of nftables are not known: {error}");
                None
            }
        }
    }

    fn take(&mut self, ruleset: Ruleset, new_elements: bool) {
        if self.edition != 0 && self.ruleset == ruleset && !new_elements {
            return;
        }
        self.edition += 1;
        self.transit = [false, true].map(|v6| {
            // rules of policy routing and VRFs may forward what is for the router itself
            let question = Question {
                v6,
                local_first: false,
            };
            ruleset.analyse(question)
        });
        self.ruleset = ruleset;
    }
}

/// The rules, and the generation that they belong to.
fn ruleset(socket: &mut Netlink, own: &OwnTable) -> Result<Option<(u32, Ruleset)>, KernelError> {
    let what = "the generation of nftables' ruleset";
    let Some(generation) =
        generation(socket).map_err(|source| KernelError::Dump { what, source })?
    else {
        return Ok(None);
    };
    let mut ruleset = Ruleset::default();
    for kind in request::ALL {
        if !dump(socket, kind, &request::all(), &mut ruleset)? {
            return Ok(None);
        }
    }
    ruleset
        .tables
        .retain(|key, _| !own.is(key.family, &key.name));
    let wanted = ruleset.wanted_sets();
    let wanted: Vec<_> = wanted
        .map(|(table, set)| request::elements(table, set))
        .collect();
    for body in wanted {
        if !dump(socket, request::ELEMENTS, &body, &mut ruleset)? {
            return Ok(None);
        }
    }
    Ok(Some((generation, ruleset)))
}

/// The generation whose rules count already. While nf_tables_commit() runs, the number may be that of rules that do not count
/// yet; an empty batch waits for the end of it, because it takes the same lock.
fn generation(socket: &mut Netlink) -> std::io::Result<Option<u32>> {
    let mut found = None;
    socket.ask_for(NFT_GETGEN, 0, &request::all(), |frame| {
        if frame.kind == NFT_NEWGEN {
            let id = attributes(frame.payload, 4)
                .flatten()
                .find(|it| it.kind == NFTA_GEN_ID);
            found = id.and_then(|id| id.value.first_chunk().copied());
        }
    })?;
    batch(socket, &[])?;
    Ok(found.map(u32::from_be_bytes))
}

/// Reads objects of a kind into the ruleset; `false` if changes interrupted it.
fn dump(
    socket: &mut Netlink,
    kind: u16,
    body: &[u8],
    ruleset: &mut Ruleset,
) -> Result<bool, KernelError> {
    let before = ruleset.clone();
    let restart = |ruleset: &mut Ruleset| ruleset.clone_from(&before);
    let each = |ruleset: &mut Ruleset, frame: Frame<'_>| ruleset.read(frame.kind, frame.payload);
    socket.dump_decoded(kind, body, ruleset, restart, each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edition_is_new_with_other_rules_or_elements() {
        let mut rules = Rules::default();
        let mut other = Ruleset::default();
        // NFTA_TABLE_NAME of a table of family inet
        let table = [1, 0, 0, 0, 6, 0, 1, 0, b't', 0, 0, 0];
        other.read(10 << 8, &table).unwrap();
        let changes = [
            (Ruleset::default(), false, 1),
            (Ruleset::default(), false, 1),
            (other.clone(), false, 2),
            (other.clone(), true, 3),
            (other, false, 3),
        ];
        for (ruleset, new_elements, expected) in changes {
            rules.take(ruleset, new_elements);
            assert_eq!(rules.edition, expected);
        }
    }
}
