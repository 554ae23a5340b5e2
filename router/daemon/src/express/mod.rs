//! The XDP program, the tables of Linux that it has, and what it found at Linux's hooks.

pub(crate) mod reclaim;
pub(crate) mod tables;

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::Context;
use bora_fib::{FibConfig, FibError, FibHandle, FibWriter, PortId, ProgramMap};
use bora_mirror::{GuardReport, Mirror, ReasonKind};
use bora_ruleset::{Interface, Place};
use bora_xdp::{Counters, Lease, Program, ProgramError, Trust};

use crate::devices::Stations;
use crate::express::tables::ProgramTables;
use crate::guard::followed_rules::{Counted, FollowedRules};
use crate::guard::hooks::Hooks;
use crate::ports::LongFrames;

/// The loaded program and its state.
pub(crate) struct Express {
    pub(crate) program: Program,
    tables: ProgramTables,
    hooks: Hooks,
    /// The hooks that the program trusts.
    trust: Trust,
    rules: FollowedRules,
    /// Whether it may go by Bora's FIB, IPv4 and IPv6.
    fib_valid: [bool; 2],
    /// What the program knows of bridges.
    stations: Stations,
    /// Whether it forwards frames in several buffers, or why not.
    pub(crate) long_frames: LongFrames,
    /// What it had counted at the last look.
    counted: RefCell<BTreeMap<PortId, Counters>>,
}

impl Express {
    /// Loads the program for a network namespace. It passes everything until the lease begins.
    /// `punt_budget`: exceptions a second and CPU for Linux, of each reason. `fib_pages`: for nodes of the
    /// FIB; without a FIB if the kernel refuses that.
    pub(crate) fn load(
        netns: u32,
        punt_budget: u64,
        fib_pages: u32,
        long_frames: LongFrames,
    ) -> anyhow::Result<Self> {
        let fragments = long_frames == Ok(());
        let mut program = match Program::load(netns, fib_pages, fragments) {
            Err(error) if fib_pages > 0 => {
                let program = Program::load(netns, 0, fragments)?;
                log::warn!("express asks Linux's FIB for each packet: {error}");
                program
            }
            loaded => loaded?,
        };
        program.set_budget(punt_budget);
        Ok(Self {
            program,
            tables: ProgramTables::default(),
            hooks: Hooks::default(),
            trust: Trust::default(),
            rules: FollowedRules::default(),
            fib_valid: [false; 2],
            stations: Stations::new(),
            long_frames,
            counted: RefCell::default(),
        })
    }

    /// Makes the FIB, in the program's memory if it has some.
    pub(crate) fn make_fib(&self, config: FibConfig) -> Result<(FibWriter, FibHandle), FibError> {
        let (map, node_pages) = self.program.fib_map();
        let marks = self.program.use_marks();
        bora_fib::new_in(
            config,
            ProgramMap {
                map,
                node_pages,
                marks,
            },
        )
    }

    /// Says whether the FIB says what Linux would. Where rules or VRFs lead to further tables, express asks
    /// Linux's FIB ([`crate::policy`]).
    pub(crate) fn tell_fib(&mut self, mirror: &Mirror) {
        let guard = mirror.guard();
        let refused = mirror.refused();
        let valid = [(&guard.v4, refused[0]), (&guard.v6, refused[1])].map(|(reasons, refused)| {
            refused == 0 && !reasons.iter().any(|reason| reason.kind == ReasonKind::Rule)
        });
        if valid != self.fib_valid {
            self.program.set_fib_valid(valid);
            self.fib_valid = valid;
        }
    }

    /// Where express looks up routes.
    pub(crate) fn look_up_report(&self, mirror: &Mirror) -> Vec<String> {
        if self.program.fib_map().1 == 0 {
            return vec!["asks Linux's FIB for each packet (fib.express_memory)".into()];
        }
        let stats = mirror.fib().stats();
        let families = [("IPv4", &stats.ipv4), ("IPv6", &stats.ipv6)];
        let mut lines = Vec::new();
        for (valid, (family, stats)) in self.fib_valid.into_iter().zip(families) {
            lines.push(match (valid, stats.beyond_program >> 10) {
                (false, _) => format!(
                    "{family}: asks Linux's FIB for each packet: Linux's rules cannot be read, or the FIB has no room"
                ),
                (true, 0) => format!("{family}: looks up in Bora's FIB"),
                (true, beyond) => format!(
                    "{family}: looks up in Bora's FIB, and in Linux's what is in the {beyond} KiB of \
                     nodes that it cannot read; raise fib.express_memory"
                ),
            });
        }
        lines.push(format!(
            "memory of the FIB: {} KiB",
            self.program.fib_octets() >> 10
        ));
        lines
    }

    /// The time until which the program may act.
    pub(crate) fn lease(&mut self) -> anyhow::Result<Lease> {
        let lease = self.program.lease();
        lease.context("the kernel does not map BPF variables")
    }

    /// Gives the program the router's addresses that have changed.
    pub(crate) fn tell_addresses(&mut self, mirror: &mut Mirror) {
        let changes = mirror.take_own_changes();
        self.tables.addresses(&mut self.program, changes);
    }

    /// Gives the program the MTUs of routes that have changed.
    pub(crate) fn tell_route_mtus(&mut self, mirror: &mut Mirror) {
        let changes = mirror.take_mtu_changes();
        self.tables
            .route_mtus(&mut self.program, changes, mirror.further_mtus());
    }

    /// Gives the program the stations of bridges, as they are now.
    pub(crate) fn tell_stations(&mut self, stations: Stations) {
        let gone = self.stations.keys();
        let gone = gone.filter(|station| !stations.contains_key(station));
        let gone = gone.map(|station| (*station, None));
        let new = stations.iter();
        let new = new.filter(|(station, place)| self.stations.get(station) != Some(place));
        let new = new.map(|(station, place)| (*station, Some(*place)));
        let changes: Vec<_> = gone.chain(new).collect();
        let mut refused = None;
        for (station, place) in changes {
            if let Err(error) = self.tell_station(station, place) {
                refused = Some(error);
            }
        }
        if let Some(error) = refused {
            log::warn!("stations of bridges: {error}");
        }
    }

    /// What the program refuses is tried again with the next change, and is Linux's until then.
    fn tell_station(
        &mut self,
        station: (u16, [u8; 6]),
        place: Option<(u16, [u8; 8])>,
    ) -> Result<(), ProgramError> {
        let told = self.program.set_bridge_station(station, place);
        let now = match (&told, place) {
            (Ok(()), place) => place,
            // where it was is wrong; the error is returned
            (Err(_), Some(_)) if self.stations.contains_key(&station) => {
                self.program.set_bridge_station(station, None)?;
                None
            }
            (Err(_), _) => return told, // as it is known
        };
        match now {
            Some(place) => self.stations.insert(station, place),
            None => self.stations.remove(&station),
        };
        told
    }

    /// What express leaves to Linux because the program's tables are full.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = &String> {
        self.tables.lacks()
    }

    /// Looks at Linux's hooks again, follows rules that need no connection, and forwards flows from when the ruleset has a
    /// flowtable. `interfaces`: those that rules may name.
    pub(crate) fn look_at_hooks(
        &mut self,
        guard: &GuardReport,
        interfaces: Vec<Interface>,
    ) -> bool {
        self.program.want_flows(!guard.flowtables.is_empty());
        let counted = |v6, entry| counted(&self.program, v6, entry);
        if let Some(pages) = self.rules.compile(guard, interfaces, counted) {
            self.trust = Trust::default();
            if let Err(error) = self.program.follow(&pages) {
                log::warn!("the program cannot follow nftables' rules: {error}");
                self.rules.refused(error.to_string());
            }
        }
        let mut changed = self.hooks.update(&self.program);
        if self.hooks.wants_generation(guard) {
            match self.program.find_generation() {
                Ok(()) => changed |= self.hooks.update(&self.program),
                Err(error) => log::warn!("the generation of nftables' ruleset: {error}"),
            }
        }
        let trust = self.hooks.trusted(guard, &self.rules);
        if trust == self.trust {
            return changed;
        }
        self.program.trust(&trust);
        self.trust = trust;
        self.hooks.update(&self.program) || changed
    }

    /// What becomes of nftables' rules that need no connection, in words.
    pub(crate) fn rules_told(&self, guard: &GuardReport) -> Vec<String> {
        self.rules.told(self.hooks.held_by_chains(guard))
    }

    /// What these rules have counted.
    pub(crate) fn rule_counters(&self) -> BTreeMap<Place, Counted> {
        self.rules
            .totals(|v6, entry| counted(&self.program, v6, entry))
    }

    /// What the last look found.
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Functions at Linux's hooks that do not affect forwarded packets.
    pub(crate) fn harmless(&self) -> Vec<String> {
        self.hooks.harmless()
    }

    /// Why traffic is left to Linux: what netlink says, and what only the program sees.
    pub(crate) fn holding(&self, guard: &GuardReport, devices: &[(PortId, &str)]) -> Vec<String> {
        self.hooks.holding(guard, devices)
    }

    /// Logs why traffic is left to Linux, where that has changed.
    pub(crate) fn log_holding(&mut self, guard: &GuardReport, devices: &[(PortId, &str)]) {
        let holding = self.hooks.holding(guard, devices);
        self.hooks.log(holding);
    }

    /// What the program has counted for a port; where that cannot be read, what it was before, because a counter never goes back.
    pub(crate) fn counters(&self, port: PortId) -> Counters {
        let mut known = self.counted.borrow_mut();
        match self.program.counters(port.0) {
            Ok(counters) => {
                known.insert(port, counters.clone());
                counters
            }
            Err(error) => {
                log::warn!(
                    "what the XDP program has counted for port {}: {error}",
                    port.0
                );
                known.get(&port).cloned().unwrap_or_default()
            }
        }
    }
}

/// What an entry of the rules that the program follows has counted; nothing where that cannot be read.
fn counted(program: &Program, v6: bool, entry: usize) -> Counted {
    match program.rule_counter(v6, entry) {
        Ok((packets, octets)) => Counted { packets, octets },
        Err(error) => {
            log::warn!("what a rule of nftables has counted: {error}");
            Counted::default()
        }
    }
}
