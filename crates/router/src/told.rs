//! What the XDP program is told of Linux's tables: it cannot ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bora_kernel::LocalAddresses;
use bora_port::xdp::{Program, ProgramError};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// MTUs of routes, octets, by prefix.
type Mtus = BTreeMap<(IpAddr, u8), u32>;

/// What it knows.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The router's own addresses and prefixes.
    own: BTreeSet<(IpAddr, u8)>,
    /// Whether there are more of them.
    more_of_them: bool,
    /// IPv4 and IPv6.
    mtus: [Mtus; 2],
    /// Why it does not know all of them.
    untold: [Option<String>; 2],
}

impl Told {
    /// Tells the router's addresses, so that their packets go to Linux at once. The FIB knows them all.
    pub(crate) fn addresses(&mut self, program: &mut Program, local: &LocalAddresses) {
        let wanted = &local.prefixes;
        let mut refused = None;
        let mut set = |(address, length), present| {
            let told = program.set_local(address, length, present);
            let done = told.is_ok();
            refused = told.err().or(refused.take());
            done
        };
        self.own
            .retain(|prefix| wanted.contains(prefix) || !set(*prefix, false));
        for &prefix in wanted {
            if !self.own.contains(&prefix) && set(prefix, true) {
                self.own.insert(prefix);
            }
        }
        let wide = |v6| {
            self.own
                .iter()
                .filter(|(address, length)| address.is_ipv6() == v6 && *length < bits(address))
                .count()
        };
        program.set_local_prefix_counts([wide(false), wide(true)]);
        if let Some(error) = &refused
            && !self.more_of_them
        {
            log::warn!(
                "the XDP program knows {} of the router's {} addresses ({error}): packets to the others \
                 reach Linux a longer way, with express as exceptions, which have a budget",
                self.own.len(),
                wanted.len()
            );
        }
        self.more_of_them = refused.is_some();
    }

    /// Tells the MTUs of routes to express: the kernel's FIB does not tell them to a program.
    pub(crate) fn route_mtus(
        &mut self,
        program: &mut Program,
        mtus: impl Iterator<Item = ((IpAddr, u8), u32)>,
    ) {
        let mut wanted = [Mtus::new(), Mtus::new()];
        for (net, mtu) in mtus {
            wanted[usize::from(net.0.is_ipv6())].insert(net, mtu);
        }
        for (family, wanted) in wanted.iter().enumerate() {
            let (known, untold) = (&mut self.mtus[family], &mut self.untold[family]);
            let before = untold.is_some();
            *untold = change(program, known, wanted).err().map(|error| {
                format!(
                    "{}: {} routes have an MTU of their own, and the XDP program can be told {} ({error}); \
                     express leaves {0} to Linux",
                    FAMILIES[family],
                    wanted.len(),
                    known.len()
                )
            });
            match untold {
                Some(text) if !before => log::warn!("{text}"),
                None if before => {
                    log::info!("{}: express knows the MTU of every route", FAMILIES[family])
                }
                _ => {}
            }
        }
        let count = |family: usize| {
            self.untold[family]
                .is_none()
                .then(|| self.mtus[family].len())
        };
        program.set_route_mtu_counts([0, 1].map(count));
    }

    /// What express cannot do for want of room.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = &String> {
        self.untold.iter().flatten()
    }
}

/// Turns what the program knows into what it should know.
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

/// Of an address.
fn bits(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
