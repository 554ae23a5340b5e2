//! What the XDP program is told of Linux's tables: it cannot ask for it.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use bora_kernel::LocalAddresses;
use bora_port::xdp::{Program, ProgramError};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// MTUs of routes, octets, by prefix.
type Mtus = BTreeMap<(IpAddr, u8), u32>;

/// What it knows.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The router's own addresses.
    own: HashSet<IpAddr>,
    /// Whether there are more of them.
    more_of_them: bool,
    /// IPv4 and IPv6.
    mtus: [Mtus; 2],
    /// Why it does not know all of them.
    untold: [Option<String>; 2],
}

impl Told {
    /// Tells the router's addresses, so that their packets go to Linux at once. The FIB knows them all.
    pub(crate) fn addresses(&mut self, program: &Program, local: &LocalAddresses) {
        let v4 = local.v4.iter().copied().map(IpAddr::from);
        let v6 = local.v6.iter().copied().map(IpAddr::from);
        let wanted: HashSet<IpAddr> = v4.chain(v6).collect();
        let mut refused = None;
        let mut set = |address, present| {
            let told = set_own(program, address, present);
            let done = told.is_ok();
            refused = told.err().or(refused.take());
            done
        };
        self.own
            .retain(|&address| wanted.contains(&address) || !set(address, false));
        for &address in &wanted {
            if !self.own.contains(&address) && set(address, true) {
                self.own.insert(address);
            }
        }
        if let Some(error) = &refused
            && !self.more_of_them
        {
            log::warn!(
                "the XDP program knows {} of the router's {} addresses ({error}): packets to the others \
                 reach Linux as exceptions, which have a budget",
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

fn set_own(program: &Program, address: IpAddr, present: bool) -> Result<(), ProgramError> {
    match address {
        IpAddr::V4(address) => program.set_local4(address, present),
        IpAddr::V6(address) => program.set_local6(address, present),
    }
}
