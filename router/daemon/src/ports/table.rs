//! The ports that there are, and the numbers they have.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use anyhow::Context;
use bora_fib::PortId;
use bora_xdp::MAX_PORTS;

use crate::ports::Port;

/// All ports, in no order. A number is used again after its port is removed.
#[derive(Default)]
pub(crate) struct PortTable {
    ports: Vec<Port>,
    /// Numbers below this have been in use.
    used: u16,
}

impl PortTable {
    /// Every number that was ever in use, those of removed ports too.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..self.used).map(PortId)
    }

    /// The port that this interface is.
    pub(crate) fn at(&self, ifindex: u32) -> Option<&Port> {
        self.ports
            .iter()
            .find(|port| port.ifindex == ifindex && !port.is_gone)
    }

    /// The lowest number that is free and not `taken`.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn free_number(&self, taken: impl Fn(PortId) -> bool) -> anyhow::Result<PortId> {
        let in_use = |id: PortId| self.ports.iter().any(|port| port.id == id);
        let mut numbers = (0..MAX_PORTS as u16).map(PortId);
        numbers
            .find(|&id| !in_use(id) && !taken(id))
            .with_context(|| format!("more than {MAX_PORTS} ports"))
    }

    pub(crate) fn push(&mut self, port: Port) {
        self.used = self.used.max(port.id.0 + 1);
        self.ports.push(port);
    }

    /// Takes a port out, the one that `which` chooses first.
    pub(crate) fn take(&mut self, which: impl Fn(&Port) -> bool) -> Option<Port> {
        let index = self.ports.iter().position(which)?;
        Some(self.ports.remove(index))
    }

    /// Takes all ports out.
    pub(crate) fn take_all(&mut self) -> Vec<Port> {
        std::mem::take(&mut self.ports)
    }

    /// The interfaces that the FIB may lead to.
    pub(crate) fn outputs(&self) -> BTreeMap<u32, bora_mirror::Port> {
        let outputs = self.ports.iter().filter(|port| port.is_output());
        outputs.map(|port| (port.ifindex, port.info())).collect()
    }
}

impl Deref for PortTable {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.ports
    }
}

impl DerefMut for PortTable {
    fn deref_mut(&mut self) -> &mut [Port] {
        &mut self.ports
    }
}
