//! How the data plane follows Linux: links, settings, addresses, routes and the guard.

use std::time::Duration;

use anyhow::Context;
use bora_mirror::{Changes, Difference, KernelError, Verification};

use super::DataPlane;
use crate::config::File;
use crate::ports::Port;

/// What a verification ends with.
pub(crate) type Verified = Result<Vec<Difference>, KernelError>;

/// How long to wait for events and calls at most.
const TICK: Duration = Duration::from_millis(500);
/// How long to wait at most where links have to be followed that Linux does not know.
const TWIN_TICK: Duration = Duration::from_millis(50);

impl DataPlane {
    /// Waits for Linux to change, or to be woken, no longer than `longest`, and brings the changes
    /// into the mirror. The others follow by [`DataPlane::follow`].
    pub(crate) fn wait(&mut self, longest: Option<Duration>) -> anyhow::Result<Changes> {
        let tick = self.follow_twins();
        let wait = longest.map_or(tick, |longest| longest.min(tick));
        self.mirror.poll(wait).context("cannot follow the kernel")
    }

    /// Brings the link state of ports to their twins; returns how soon to do it again.
    fn follow_twins(&mut self) -> Duration {
        let mut tick = TICK;
        for twin in self.ports.iter_mut().filter_map(Port::twin_mut) {
            twin.follow();
            tick = TWIN_TICK;
        }
        tick
    }

    /// What Linux sends no events for, once a second.
    pub(crate) fn look_after(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.close_returned();
        }
        for port in self.ports.iter_mut() {
            port.reattach_if_lost(&self.express.program);
        }
    }

    /// Follows what has changed; `refresh`: also what has no events.
    pub(crate) fn follow(
        &mut self,
        config: &File,
        changes: &Changes,
        refresh: bool,
    ) -> anyhow::Result<()> {
        if self.agree(config, changes, refresh)? || refresh {
            self.follow_interfaces(config);
        }
        // after what it depends on is up to date
        self.check_fast_path(config, changes.fib > 0);
        if refresh {
            self.choose_fast_path(config);
        }
        Ok(())
    }

    /// Returns whether ports or devices may be others.
    fn agree(&mut self, config: &File, changes: &Changes, refresh: bool) -> anyhow::Result<bool> {
        let mut changes = *changes;
        changes.settings |= refresh && self.look(config);
        let ports = self.concerns_ports(&changes);
        self.converge(config, &changes)?;
        Ok(ports)
    }

    /// Follows Linux beside another Bora, which looks after the interfaces.
    pub(crate) fn only_follow(&mut self, config: &File, refresh: bool) -> anyhow::Result<()> {
        loop {
            let changes = self.wait(Some(Duration::ZERO))?;
            self.agree(config, &changes, refresh)?;
            if !changes.more {
                return Ok(());
            }
        }
    }

    /// Begins to compare Linux's tables with the FIB, after a look at what has no events.
    pub(crate) fn begin_verification(&mut self, config: &File) -> anyhow::Result<Verification> {
        let settings = self.mirror.reread_settings();
        if self.look(config) || settings {
            self.converge(config, &Changes::everything())?;
        }
        if self.converge(config, &Changes::everything())? {
            log::error!("ports and devices were not as Linux has them, and are corrected");
            self.mirror.note_mended();
        }
        Ok(self.mirror.begin_verification())
    }

    /// Goes on comparing; returns the differences at the end.
    pub(crate) fn verify_some(&mut self, verification: &mut Verification) -> Option<Verified> {
        self.mirror.verify_some(verification)
    }

    /// Asks drivers what they can do, and turns offloads off that somebody has turned on again.
    pub(super) fn ask_drivers(&mut self) {
        let by_ports = self.hash_in_use().iter().flatten().any(|hash| hash.0 == 1);
        for port in self.ports.iter_mut().filter(|port| port.has_program()) {
            let dir = &self.runtime.dir;
            port.expose_tags(dir);
            if by_ports && !port.is_anothers() {
                port.offloads
                    .refuse_hash(&port.link.name, port.ifindex, dir);
            }
            port.ask_driver();
        }
    }
}
