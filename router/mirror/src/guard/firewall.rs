//! What netfilter's rules do with transit.

use std::io;
use std::sync::Arc;

use bora_linux::iptables;
use bora_ruleset::{Question, Ruleset, TableKey, Transit, request};

use crate::attribute::attributes;
use crate::error::KernelError;
use crate::message::Frame;
use crate::socket::Netlink;
use crate::world::World;

use super::own_table::{OwnTable, batch};

// include/uapi/linux/netfilter/nf_tables.h
const NFT_NEWGEN: u16 = (10 << 8) | 15;
const NFT_GETGEN: u16 = (10 << 8) | 16;
const NFTA_GEN_ID: u16 = 1;

/// What netfilter's rules do with transit, and which rules these are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// The generation of the ruleset that was read (`NFTA_GEN_ID`), or an older one if it changed meanwhile.
    pub generation: u32,
    /// How often the rules, or elements of their sets, were found to be others; Bora's own table does not count.
    pub edition: u64,
    /// What they do with packets of IPv4 and of IPv6.
    pub transit: [Transit; 2],
    /// Whether the rules may be compiled ([`Ruleset::compile`]), IPv4 and IPv6.
    pub compiles: [bool; 2],
    /// The rules with the elements of all sets, if they may be compiled.
    pub ruleset: Arc<Ruleset>,
}

/// Reads netfilter's rules, and analyses those that it has not read before.
#[derive(Default)]
pub(super) struct Rules {
    ruleset: Ruleset,
    local_first: [bool; 2],
    edition: u64,
    transit: [Transit; 2],
    compiles: [bool; 2],
    /// The edition whose sets were all read, and the rules with them.
    complete: (u64, Arc<Ruleset>),
}

impl Rules {
    /// Reads all rules but Bora's own; `None` if not all could be read. `legacy`: names of the tables of legacy iptables, of
    /// IPv4 and of IPv6. `world`: says where Linux looks up routes. `new_elements`: elements of sets have changed.
    pub(super) fn read(
        &mut self,
        socket: &mut Netlink,
        own: &OwnTable,
        legacy: &[String; 2],
        world: &World,
        new_elements: bool,
    ) -> Option<Firewall> {
        let local_first = [false, true].map(|v6| world.asks_local_first(v6));
        match self.read_all(socket, own, legacy, local_first, new_elements) {
            Ok(firewall) => firewall,
            Err(error) => {
                log::debug!("netfilter's rules are not known: {error}");
                None
            }
        }
    }

    fn read_all(
        &mut self,
        socket: &mut Netlink,
        own: &OwnTable,
        legacy: &[String; 2],
        local_first: [bool; 2],
        new_elements: bool,
    ) -> Result<Option<Firewall>, KernelError> {
        let Some((generation, ruleset)) = ruleset(socket, own, legacy)? else {
            return Ok(None);
        };
        self.take(ruleset, local_first, new_elements);
        if self.complete.0 != self.edition {
            let mut ruleset = Ruleset::default();
            if self.compiles != [false; 2] {
                ruleset.clone_from(&self.ruleset);
                if !elements(socket, &mut ruleset, |it| bodies(it.further_sets()))? {
                    return Ok(None);
                }
            }
            self.complete = (self.edition, Arc::new(ruleset));
        }
        Ok(Some(Firewall {
            generation,
            edition: self.edition,
            transit: self.transit.clone(),
            compiles: self.compiles,
            ruleset: Arc::clone(&self.complete.1),
        }))
    }

    fn take(&mut self, ruleset: Ruleset, local_first: [bool; 2], new_elements: bool) {
        let known = self.ruleset == ruleset && self.local_first == local_first;
        if self.edition != 0 && known && !new_elements {
            return;
        }
        self.edition += 1;
        self.transit = [false, true].map(|v6| {
            let local_first = local_first[usize::from(v6)];
            ruleset.analyse(Question { v6, local_first })
        });
        self.compiles = [false, true].map(|v6| {
            let at = usize::from(v6);
            local_first[at] && ruleset.is_worth_compiling(v6, &self.transit[at])
        });
        (self.ruleset, self.local_first) = (ruleset, local_first);
    }
}

/// The rules, and the generation that they belong to.
fn ruleset(
    socket: &mut Netlink,
    own: &OwnTable,
    legacy: &[String; 2],
) -> Result<Option<(u32, Ruleset)>, KernelError> {
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
    if !elements(socket, &mut ruleset, |it| bodies(it.wanted_sets()))? {
        return Ok(None);
    }
    for (v6, names) in [false, true].into_iter().zip(legacy) {
        for name in names.split_whitespace() {
            add_iptables(&mut ruleset, v6, name)?;
        }
    }
    Ok(Some((generation, ruleset)))
}

/// Requests for the elements of sets.
fn bodies<'a>(sets: impl Iterator<Item = (&'a TableKey, &'a str)>) -> Vec<Vec<u8>> {
    sets.map(|(table, set)| request::elements(table, set))
        .collect()
}

/// Reads the elements of some sets; `false` if changes interrupted it.
fn elements(
    socket: &mut Netlink,
    ruleset: &mut Ruleset,
    wanted: impl Fn(&Ruleset) -> Vec<Vec<u8>>,
) -> Result<bool, KernelError> {
    for body in wanted(ruleset) {
        if !dump(socket, request::ELEMENTS, &body, ruleset)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds a table of legacy iptables.
fn add_iptables(ruleset: &mut Ruleset, v6: bool, name: &str) -> Result<(), KernelError> {
    let failed = |source| KernelError::Dump {
        what: "a table of legacy iptables",
        source,
    };
    let table = iptables::read(v6, name).map_err(failed)?;
    let added = ruleset.read_iptables(v6, name, &table.info, &table.entries);
    added.map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// The generation whose rules count already. While nf_tables_commit() runs, the number may be that of rules that do not count
/// yet; an empty batch waits for the end of it, because it takes the same lock.
fn generation(socket: &mut Netlink) -> io::Result<Option<u32>> {
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
            rules.take(ruleset, [true; 2], new_elements);
            assert_eq!(rules.edition, expected);
        }
        rules.take(rules.ruleset.clone(), [true, false], false);
        assert_eq!(rules.edition, 4, "routes are looked up otherwise");
    }
}
