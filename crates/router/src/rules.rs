//! Compiles the rules of the configuration for the workers.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use bora_fib::{NextHopId, PortId};
use bora_forward::Classifier;
use bora_forward::classify::{DEFAULT_DSCP, RuleSet};
use bora_kernel::{HeldHop, Mirror};

use crate::config::{File, Names, Via};
use crate::ports::Port;

/// Compiled rules, and the next hops they keep in the FIB.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    pub(crate) classifier: Arc<Classifier>,
    held: Vec<HeldHop>,
}

impl CompiledRules {
    /// No rules, and the classes that code points have by themselves.
    ///
    /// # Errors
    /// None in practice: an empty set compiles.
    pub(crate) fn none() -> anyhow::Result<Self> {
        let set = RuleSet {
            rules: Vec::new(),
            dscp: DEFAULT_DSCP,
        };
        Ok(Self {
            classifier: Arc::new(set.compile()?),
            held: Vec::new(),
        })
    }

    /// Gives the next hops back. No worker may classify by these rules any more.
    pub(crate) fn release(self, mirror: &mut Mirror) {
        for hop in self.held {
            mirror.release_next_hop(hop);
        }
    }
}

/// Compiles the rules of a configuration.
///
/// # Errors
/// A rule the classifier refuses or whose next hop finds no room; nothing is kept then.
pub(crate) fn compile(
    config: &File,
    ports: &[Port],
    mirror: &mut Mirror,
) -> anyhow::Result<CompiledRules> {
    let mut known = Known {
        ports,
        mirror,
        held: Vec::new(),
    };
    let compiled = (|| {
        let mut rules = Vec::with_capacity(config.rules.len());
        for (number, rule) in config.rules.iter().enumerate() {
            let rule = rule.compile(&mut known);
            rules.extend(rule.with_context(|| format!("rule {number}"))?);
        }
        let dscp = config.dscp.classes();
        Ok::<_, anyhow::Error>(RuleSet { rules, dscp }.compile()?)
    })();
    let Known { held, mirror, .. } = known;
    match compiled {
        Ok(classifier) => Ok(CompiledRules {
            classifier: Arc::new(classifier),
            held,
        }),
        Err(error) => {
            held.into_iter()
                .for_each(|hop| mirror.release_next_hop(hop));
            Err(error)
        }
    }
}

/// The names that rules may use.
struct Known<'a> {
    ports: &'a [Port],
    mirror: &'a mut Mirror,
    held: Vec<HeldHop>,
}

impl Known<'_> {
    fn find(&self, name: &str) -> anyhow::Result<&Port> {
        let mut ports = self.ports.iter();
        let found = ports.find(|port| port.name == name);
        found.ok_or_else(|| anyhow!("there is no port {name}"))
    }
}

impl Names for Known<'_> {
    fn port(&mut self, name: &str) -> anyhow::Result<PortId> {
        Ok(self.find(name)?.id)
    }

    fn next_hop(&mut self, via: &Via, v6: bool) -> anyhow::Result<NextHopId> {
        let hop = HeldHop {
            device: self.find(&via.device)?.ifindex,
            gateway: via.address,
            v6,
        };
        let id = self.mirror.hold_next_hop(hop)?;
        self.held.push(hop);
        Ok(id)
    }
}
