//! Keys of the configuration that can be changed while Bora runs. Every other key needs a restart.

use anyhow::anyhow;
use bora_xdp::Path;

use super::DataPlane;
use crate::config::{File, PathChoice, PortSection, Setting};
use crate::process::cpus::check_cpus;

/// Keys that are changed together, and how.
pub(crate) struct Change {
    keys: &'static [&'static str],
    make: Make,
}

/// What brings new values into the running data plane; it is given the configuration that has them.
#[derive(Clone, Copy)]
enum Make {
    /// The convergence takes them from the configuration.
    Converge,
    /// Once for all the keys.
    Once(fn(&mut DataPlane, &File) -> anyhow::Result<()>),
    /// Once for each port whose section has them.
    Port(fn(&mut DataPlane, &PortSection)),
}

/// All of them, in the order in which they are made.
const CHANGES: &[Change] = &[
    Change {
        keys: &[
            "rule",
            "dscp",
            "port.quota",
            "port.bypass_qdisc",
            "workers.budget",
            "workers.mode",
            "linux.bypass_netfilter",
            "firewall",
            "sflow", // the loop follows the configuration in force
        ],
        make: Make::Converge,
    },
    Change {
        keys: &["port.queues"],
        make: Make::Port(DataPlane::set_queues),
    },
    Change {
        keys: &["workers.cores"],
        make: Make::Once(DataPlane::set_cores),
    },
];

impl Change {
    /// How the key of a setting is changed; `None` if only by a restart.
    pub(crate) fn of(setting: &Setting) -> Option<&'static Self> {
        CHANGES.iter().find(|change| change.has(setting))
    }

    /// All of them, in the order in which they are made.
    pub(crate) fn all() -> &'static [Self] {
        CHANGES
    }

    /// Whether it changes this key.
    pub(crate) fn has(&self, setting: &Setting) -> bool {
        self.keys.iter().any(|key| setting.is_in(key))
    }
}

impl DataPlane {
    /// Makes one change; `settings` are those of its keys that are new in `config`.
    ///
    /// # Errors
    /// What failed.
    pub(crate) fn make(
        &mut self,
        change: &Change,
        settings: &[&Setting],
        config: &File,
    ) -> anyhow::Result<()> {
        match change.make {
            Make::Converge => Ok(()), // `DataPlane::add_ports` has
            Make::Once(make) => make(self, config),
            Make::Port(make) => {
                let mut names: Vec<&String> = settings.iter().flat_map(|one| &one.port).collect();
                names.dedup();
                let sections = names.into_iter().flat_map(|name| config.port(name));
                sections.for_each(|section| make(self, section));
                Ok(())
            }
        }
    }

    /// Rules and queues are the engine's; where express runs they would not be obeyed.
    ///
    /// # Errors
    /// They are configured, and a port takes the express path.
    pub(crate) fn check_path(&self, new: &File) -> anyhow::Result<()> {
        if !new.needs_engine() || new.path == PathChoice::Express {
            return Ok(());
        }
        let mut ports = self.ports.iter();
        match ports.find(|port| port.path == Path::Express) {
            Some(port) => Err(anyhow!(
                "rules, classes and queues need the engine, and {} takes the express path; restart \
                 to change that",
                port.name
            )),
            None => Ok(()),
        }
    }

    /// Checks that the workers of a configuration could take over, as far as that shows without
    /// doing it.
    ///
    /// # Errors
    /// A CPU is missing, or memory for all of them.
    pub(crate) fn could_set_cores(&self, new: &File) -> anyhow::Result<()> {
        let cores = &new.workers.cores;
        check_cpus(cores)?;
        match &self.engine {
            Some(engine) => engine.could_have_workers(cores.len().max(1), &self.ports, &new.ports),
            None => Ok(()), // express has no workers
        }
    }

    /// Replaces the workers by those of the configuration. The lease goes on, unless it takes so
    /// long that the rings would overflow.
    pub(crate) fn set_cores(&mut self, config: &File) -> anyhow::Result<()> {
        self.vitals.beat();
        let Some(engine) = &mut self.engine else {
            return Ok(());
        };
        let replaced = engine.replace_workers(config);
        self.vitals.watch(engine.watched());
        replaced
    }

    /// Whether outputs get rates or lose them, so that several workers share them otherwise: the
    /// workers must be replaced then.
    pub(crate) fn divides_anew(&self, old: &File, new: &File) -> bool {
        let several = self
            .engine
            .as_ref()
            .is_some_and(|engine| engine.workers.len() > 1);
        let has_rates = |port: &PortSection| port.queues.output().has_rates();
        several
            && new.ports.iter().any(|port| {
                old.port(&port.name)
                    .is_some_and(|was| has_rates(was) != has_rates(port))
            })
    }

    fn set_queues(&mut self, section: &PortSection) {
        if let (Some(engine), Some(port)) = (&self.engine, self.number_of(section)) {
            engine.set_output(port, &section.queues.output());
        }
    }

    fn number_of(&self, section: &PortSection) -> Option<bora_fib::PortId> {
        let mut ports = self.ports.iter();
        Some(ports.find(|port| port.name == section.name)?.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_exists() {
        let schema = crate::config::schema();
        let definitions = &schema["$defs"];
        for key in CHANGES.iter().flat_map(|change| change.keys) {
            let (section, rest) = key.split_once('.').unwrap_or((key, ""));
            let of = &schema["properties"][section];
            assert!(of.is_object(), "{key}");
            let names = ["PortSection", "WorkersSection", "LinuxSection"];
            let mut known = names.iter().map(|name| &definitions[*name]["properties"]);
            assert!(
                rest.is_empty() || known.any(|of| of[rest].is_object()),
                "{key}"
            );
        }
    }
}
