//! Tables of Linux that the XDP program cannot read: Bora copies them into the program's maps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bora_mirror::LocalAddresses;
use bora_port::xdp::{Program, ProgramError};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// MTUs of routes, octets, by prefix.
type Mtus = BTreeMap<(IpAddr, u8), u32>;

/// What the program's maps hold.
#[derive(Debug, Default)]
pub(crate) struct ProgramTables {
    /// The router's own addresses and prefixes.
    own: BTreeSet<(IpAddr, u8)>,
    /// Whether some of them found no room.
    is_incomplete: bool,
    /// IPv4 and IPv6.
    mtus: [Mtus; 2],
    /// Why not all of them are in the map.
    missing: [Option<String>; 2],
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

    /// Writes the MTUs of routes for express: `bpf_fib_lookup` does not give them to a program. `further`:
    /// whether routes of further tables have MTUs, so that express must not ask Linux's FIB; IPv4, IPv6.
    pub(crate) fn route_mtus(
        &mut self,
        program: &mut Program,
        mtus: impl Iterator<Item = ((IpAddr, u8), u32)>,
        further: [bool; 2],
    ) {
        let mut wanted = [Mtus::new(), Mtus::new()];
        for (net, mtu) in mtus {
            wanted[usize::from(net.0.is_ipv6())].insert(net, mtu);
        }
        for (family, wanted) in wanted.iter().enumerate() {
            let (known, missing) = (&mut self.mtus[family], &mut self.missing[family]);
            let before = missing.is_some();
            *missing = change(program, known, wanted).err().map(|error| {
                format!(
                    "{}: {} routes have an MTU of their own, and the XDP program can be told {} ({error}); \
                     express leaves {0} to Linux where it asks Linux's FIB",
                    FAMILIES[family],
                    wanted.len(),
                    known.len()
                )
            });
            match missing {
                Some(text) if !before => log::warn!("{text}"),
                None if before => {
                    log::info!("{}: express knows the MTU of every route", FAMILIES[family])
                }
                _ => {}
            }
        }
        let count = |family: usize| {
            (self.missing[family].is_none() && !further[family]).then(|| self.mtus[family].len())
        };
        program.set_route_mtu_counts([0, 1].map(count));
    }

    /// What express cannot do for want of room.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = &String> {
        self.missing.iter().flatten()
    }
}

/// Makes the map of one IP version hold what it should.
fn change(program: &mut Program, known: &mut Mtus, wanted: &Mtus) -> Result<(), ProgramError> {
    if known == wanted {
        return Ok(());
    }
    let gone: Vec<_> = known
        .keys()
        .filter(|net| !wanted.contains_key(net))
        .copied()
        .collect();
    for net in gone {
        program.set_route_mtu(net.0, net.1, None)?;
        known.remove(&net);
    }
    for (&net, &mtu) in wanted {
        if known.get(&net) != Some(&mtu) {
            program.set_route_mtu(net.0, net.1, Some(mtu))?;
            known.insert(net, mtu);
        }
    }
    Ok(())
}

/// The length of a prefix that is one address.
fn bits(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
