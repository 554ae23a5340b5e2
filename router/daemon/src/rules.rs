//! Compiles the rules of the configuration for the workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use bora_fib::{NextHopId, PortId};
use bora_forward::Classifier;
use bora_forward::classify::{DEFAULT_DSCP, RuleSet};
use bora_mirror::{HeldHop, Mirror};

use crate::config::{DscpSection, File, Names, RuleSection, Via};
use crate::ports::Port;

/// The number of an interface that does not exist. No packet comes in by it.
const NOWHERE: PortId = PortId(u16::MAX);

/// Numbers and names of the ports, and of the devices on them.
pub(crate) type Inputs<'a> = [(PortId, &'a str)];

/// Compiled rules, and the next hops they keep in the FIB.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    pub(crate) classifier: Arc<Classifier>,
    /// The number of the rule set: another one has other rules, and their counters begin at zero.
    pub(crate) number: u64,
    /// What they were compiled from.
    source: (Vec<RuleSection>, DscpSection),
    held: Vec<HeldHop>,
    /// The numbers of the interfaces that rules name as inputs.
    inputs: BTreeMap<String, PortId>,
    /// The interfaces that rules name as outputs.
    outputs: BTreeMap<String, u32>,
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
            number: 0,
            source: Default::default(),
            held: Vec::new(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
        })
    }

    /// Whether they are the rules of this configuration.
    pub(crate) fn are_of(&self, config: &File) -> bool {
        (&self.source.0, &self.source.1) == (&config.rules, &config.dscp)
    }

    /// Whether something that they name has another number than when they were compiled.
    pub(crate) fn are_outdated(&self, ports: &[Port], inputs: &Inputs<'_>) -> bool {
        let mut named = self.inputs.iter();
        let mut outputs = self.outputs.iter();
        let ifindex = |name: &str| Some(ports.iter().find(|port| port.name == name)?.ifindex);
        named.any(|(name, number)| number_of(name, inputs) != *number)
            || outputs.any(|(name, index)| ifindex(name).is_some_and(|now| now != *index))
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
    inputs: &Inputs<'_>,
    mirror: &mut Mirror,
) -> anyhow::Result<CompiledRules> {
    let mut known = Known {
        ports,
        inputs,
        mirror,
        held: Vec::new(),
        named: BTreeMap::new(),
        outputs: BTreeMap::new(),
    };
    let compiled = (|| {
        let mut rules = Vec::with_capacity(config.rules.len());
        for (number, rule) in (1..).zip(&config.rules) {
            let rule = rule.compile(&mut known);
            rules.extend(rule.with_context(|| format!("rule {number}"))?);
        }
        let dscp = config.dscp.classes();
        Ok::<_, anyhow::Error>(RuleSet { rules, dscp }.compile()?)
    })();
    let Known {
        held,
        mirror,
        named,
        outputs,
        ..
    } = known;
    match compiled {
        Ok(classifier) => Ok(CompiledRules {
            classifier: Arc::new(classifier),
            number: 0,
            source: (config.rules.clone(), config.dscp.clone()),
            held,
            inputs: named,
            outputs,
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
    inputs: &'a Inputs<'a>,
    mirror: &'a mut Mirror,
    held: Vec<HeldHop>,
    named: BTreeMap<String, PortId>,
    outputs: BTreeMap<String, u32>,
}

impl Known<'_> {
    fn find(&self, name: &str) -> anyhow::Result<&Port> {
        let mut ports = self.ports.iter();
        let found = ports.find(|port| port.name == name);
        found.ok_or_else(|| anyhow!("there is no port {name}"))
    }
}

impl Names for Known<'_> {
    fn input(&mut self, name: &str) -> PortId {
        let number = number_of(name, self.inputs);
        self.named.insert(name.into(), number);
        number
    }

    fn next_hop(&mut self, via: &Via, v6: bool) -> anyhow::Result<NextHopId> {
        let hop = HeldHop {
            device: self.find(&via.device)?.ifindex,
            gateway: via.address,
            v6,
        };
        let id = self.mirror.hold_next_hop(hop)?;
        self.held.push(hop);
        self.outputs.insert(via.device.clone(), hop.device);
        Ok(id)
    }
}

fn number_of(name: &str, inputs: &Inputs<'_>) -> PortId {
    let found = inputs.iter().find(|(_, other)| *other == name);
    found.map_or(NOWHERE, |(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_outdated_when_an_input_comes_goes_or_gets_another_number() {
        let inputs = BTreeMap::from([("r0.7".into(), NOWHERE), ("r0".into(), PortId(0))]);
        let rules = CompiledRules {
            inputs,
            ..CompiledRules::none().unwrap()
        };
        let before = [(PortId(0), "r0"), (PortId(1), "r1")];
        let with_device = [(PortId(0), "r0"), (PortId(512), "r0.7")];
        assert!(!rules.are_outdated(&[], &before) && !rules.are_outdated(&[], &before[..1]));
        assert!(rules.are_outdated(&[], &with_device));
        assert!(rules.are_outdated(&[], &[(PortId(2), "r0")]) && rules.are_outdated(&[], &[]));
    }
}
