//! Tables of Linux that the XDP program cannot read: Bora copies them into the program's maps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bora_xdp::{Program, ProgramError};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

type Net = (IpAddr, u8);

/// MTUs of the routes of one IP version.
#[derive(Debug, Default)]
struct Mtus {
    /// Octets, by prefix.
    wanted: BTreeMap<Net, u32>,
    /// Prefixes that the map has.
    written: BTreeSet<Net>,
    /// Prefixes that are to be taken out of the map.
    gone: BTreeSet<Net>,
    /// Prefixes that are to be written.
    unwritten: BTreeSet<Net>,
    /// Why, if the map has no room.
    missing: Option<String>,
}

/// What the program's maps hold.
#[derive(Debug, Default)]
pub(crate) struct ProgramTables {
    /// The router's own addresses and prefixes that the maps have.
    own: BTreeSet<Net>,
    /// Those that found no room.
    own_unwritten: BTreeSet<Net>,
    /// Whether that was said.
    is_incomplete: bool,
    /// IPv4 and IPv6.
    mtus: [Mtus; 2],
}

impl ProgramTables {
    /// Writes which addresses and prefixes are the router's own, as far as that has changed, so that packets to them go to
    /// Linux at once. The FIB has all of them in any case.
    pub(crate) fn addresses(&mut self, program: &mut Program, changes: Vec<(Net, bool)>) {
        for (net, is_own) in changes {
            if !is_own {
                self.own_unwritten.remove(&net);
                if !self.own.contains(&net) {
                    continue;
                }
                match program.set_local(net.0, net.1, false) {
                    Ok(()) => _ = self.own.remove(&net),
                    Err(error) => {
                        log::error!("{}/{} stays the router's own: {error}", net.0, net.1)
                    }
                }
            } else if !self.own.contains(&net) {
                self.own_unwritten.insert(net);
            }
        }
        let mut refused = None;
        while let Some(&net) = self.own_unwritten.first() {
            if let Err(error) = program.set_local(net.0, net.1, true) {
                refused = Some(error);
                break;
            }
            self.own.insert(net);
            self.own_unwritten.pop_first();
        }
        if let Some(error) = &refused
            && !self.is_incomplete
        {
            log::warn!(
                "the XDP program knows {} of the router's {} addresses ({error}): packets to the others \
                 reach Linux a longer way, with express as exceptions, which have a budget",
                self.own.len(),
                self.own.len() + self.own_unwritten.len()
            );
        }
        self.is_incomplete = refused.is_some();
    }

    /// Writes the MTUs of routes that have changed, for express: `bpf_fib_lookup` does not give them to a program. `further`:
    /// whether routes of further tables have MTUs, so that express must not ask Linux's FIB; IPv4, IPv6.
    pub(crate) fn route_mtus(
        &mut self,
        program: &mut Program,
        changes: Vec<(Net, Option<u32>)>,
        further: [bool; 2],
    ) {
        for (net, mtu) in changes {
            let mtus = &mut self.mtus[usize::from(net.0.is_ipv6())];
            mtus.note(net, mtu);
        }
        for (mtus, family) in self.mtus.iter_mut().zip(FAMILIES) {
            mtus.write(program, family);
        }
        let count = |family: usize| {
            let mtus = &self.mtus[family];
            (mtus.missing.is_none() && !further[family]).then_some(mtus.wanted.len())
        };
        program.set_route_mtu_counts([0, 1].map(count));
    }

    /// What express cannot do for want of room.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = &String> {
        self.mtus.iter().flat_map(|mtus| &mtus.missing)
    }
}

impl Mtus {
    fn note(&mut self, net: Net, mtu: Option<u32>) {
        match mtu {
            Some(mtu) => {
                self.wanted.insert(net, mtu);
                self.gone.remove(&net);
                self.unwritten.insert(net);
            }
            None => {
                self.wanted.remove(&net);
                self.unwritten.remove(&net);
                if self.written.contains(&net) {
                    self.gone.insert(net);
                }
            }
        }
    }

    /// Writes what the map lacks, as far as it has room.
    fn write(&mut self, program: &mut Program, family: &str) {
        let failed = self.try_to_write(program).err();
        let was_missing = self.missing.is_some();
        self.missing = failed.map(|error| {
            let (all, known) = (self.wanted.len(), self.written.len());
            format!(
                "{family}: {all} routes have an MTU of their own, and the XDP program can be told {known} ({error}); \
                 express leaves {family} to Linux where it asks Linux's FIB"
            )
        });
        match &self.missing {
            Some(text) if !was_missing => log::warn!("{text}"),
            None if was_missing => log::info!("{family}: express knows the MTU of every route"),
            _ => {}
        }
    }

    /// Takes out first what is no longer wanted, which makes room.
    fn try_to_write(&mut self, program: &mut Program) -> Result<(), ProgramError> {
        while let Some(&net) = self.gone.first() {
            program.set_route_mtu(net.0, net.1, None)?;
            self.written.remove(&net);
            self.gone.pop_first();
        }
        while let Some(&net) = self.unwritten.first() {
            program.set_route_mtu(net.0, net.1, self.wanted.get(&net).copied())?;
            self.written.insert(net);
            self.unwritten.pop_first();
        }
        Ok(())
    }
}
