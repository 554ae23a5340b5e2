//! The XDP program, the tables of Linux that it has, and what it found at Linux's hooks.

use anyhow::Context;
use bora_fib::PortId;
use bora_kernel::{GuardReport, Mirror};
use bora_port::xdp::{Counters, Lease, Program, Survey};

use crate::hooks::Hooks;
use crate::ports::Port;
use crate::program_tables::ProgramTables;

/// The loaded program and its state.
pub(crate) struct Express {
    pub(crate) program: Program,
    tables: ProgramTables,
    hooks: Hooks,
}

impl Express {
    /// Loads the program for a network namespace. It passes everything until the lease begins.
    /// `punt_budget`: exceptions a second and CPU for Linux, of each reason.
    pub(crate) fn load(netns: u32, punt_budget: u64) -> anyhow::Result<Self> {
        let mut program = Program::load(netns)?;
        program.set_budget(punt_budget);
        Ok(Self {
            program,
            tables: ProgramTables::default(),
            hooks: Hooks::default(),
        })
    }

    /// The time until which the program may act.
    pub(crate) fn lease(&mut self) -> anyhow::Result<Lease> {
        let lease = self.program.lease();
        lease.context("the kernel does not map BPF variables")
    }

    /// Gives the program the router's addresses, as the mirror has them.
    pub(crate) fn tell_addresses(&mut self, mirror: &Mirror) {
        self.tables
            .addresses(&mut self.program, mirror.local_addresses());
    }

    /// Gives the program the MTUs of routes, as the mirror has them.
    pub(crate) fn tell_route_mtus(&mut self, mirror: &Mirror) {
        self.tables
            .route_mtus(&mut self.program, mirror.route_mtus());
    }

    /// What express leaves to Linux because the program's tables are full.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = &String> {
        self.tables.lacks()
    }

    /// ProgramWatch at Linux's hooks again.
    pub(crate) fn look_at_hooks(&mut self) {
        self.hooks.update(&self.program);
    }

    /// What the last look found.
    pub(crate) fn survey(&self) -> &Survey {
        &self.hooks.survey
    }

    /// Functions at Linux's hooks that do not affect forwarded packets.
    pub(crate) fn harmless(&self) -> Vec<String> {
        self.hooks.harmless()
    }

    /// Why traffic is left to Linux: what netlink says, and what only the program sees.
    pub(crate) fn holding(&self, guard: &GuardReport, ports: &[Port]) -> Vec<String> {
        self.hooks.holding(guard, ports)
    }

    /// Logs why traffic is left to Linux, where that has changed.
    pub(crate) fn log_holding(&mut self, guard: &GuardReport, ports: &[Port]) {
        let holding = self.hooks.holding(guard, ports);
        self.hooks.log(holding);
    }

    /// What the program has counted for a port.
    pub(crate) fn counters(&self, port: PortId) -> Counters {
        self.program.counters(port.0).unwrap_or_default()
    }
}
