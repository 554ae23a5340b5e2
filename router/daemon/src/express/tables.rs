//! Tables of Linux that the XDP program cannot read: Bora copies them into the program's maps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bora_mirror::LocalAddresses;
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
    /// The router's own addresses and prefixes.
    own: BTreeSet<(IpAddr, u8)>,
    /// Whether some of them found no room.
    is_incomplete: bool,
    /// IPv4 and IPv6.
    mtus: [Mtus; 2],
}

impl ProgramTables {
    /// Writes the router's addresses, so that packets to them go to Linux at once. The FIB has all of
    /// them in any case.
    pub(crate) fn addresses(&mut self, program: &mut Program, local: &LocalAddresses) {
        let wanted = &local.prefixes;
        let all = self.own.iter().chain(wanted);
        program.set_own_filter(all.map(|(address, _)| address));
        let mut refused = None;
        let mut set = |(address, length), present| match program.set_local(address, length, present)
        {
            Ok(()) => true,
            Err(error) => {
                refused = Some(error);
                false
            }
        };
        self.own
            .retain(|prefix| wanted.contains(prefix) || !set(*prefix, false));
        for &prefix in wanted {
            if !self.own.contains(&prefix) && set(prefix, true) {
                self.own.insert(prefix);
            }
        }
        program.set_own_filter(self.own.iter().map(|(address, _)| address));
        let wide = |v6| {
            self.own
                .iter()
                .filter(|(address, length)| address.is_ipv6() == v6 && *length < bits(address))
                .count()
        };
        program.set_local_prefix_counts([wide(false), wide(true)]);
        if let Some(error) = &refused
            && !self.is_incomplete
        {
            log::warn!(
                "the XDP program knows {} of the router's {} addresses ({error}): packets to the others \
                 reach Linux a longer way, with express as exceptions, which have a budget",
                self.own.len(),
                wanted.len()
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

/// The length of a prefix that is one address.
fn bits(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
