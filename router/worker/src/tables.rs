//! What workers decide by: one set of tables, which all of them adopt as a whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bora_capture::Subscription;
use bora_forward::{Classifier, Devices, FlowHash, Ingress, Policies};
use bora_linux::lock;

use crate::mode::Mode;

/// Default budget: packets that a worker takes in one round; Linux's netdev_budget.
pub const BUDGET: u32 = 300;

/// Everything about packets that the control side may change while workers run. A worker never sees half of a change.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Ports by number; `None` where the worker keeps what came with the port, if there is one.
    pub ports: Vec<Option<Intake>>,
    /// Classes and rules.
    pub classifier: Arc<Classifier>,
    /// The number of the rule set. The counters of rules start from zero with another one; the same rules may be compiled
    /// again for devices with other numbers.
    pub rule_set: u64,
    /// VLAN devices and bonds on the ports.
    pub devices: Arc<Devices>,
    /// Policy routing and VRFs.
    pub policies: Arc<Policies>,
    /// The captures and traces; mostly there are none.
    pub subscriptions: Vec<Arc<Subscription>>,
    /// Flow-hash policies of IPv4 and IPv6.
    pub hash: (FlowHash, FlowHash),
    /// When workers look at their queues.
    pub mode: Mode,
    /// Modes of single workers, by number, that differ from it.
    pub modes: BTreeMap<usize, Mode>,
    /// Packets that a worker takes in one round, at least 1.
    pub budget: u32,
}

/// What a worker is told about packets that come in by one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intake {
    /// Settings for packets that come in by it.
    pub ingress: Ingress,
    /// Packets that each of its queues may bring in one turn, at least 1.
    pub quota: u32,
}

/// Where the latest tables are for the workers to adopt. A worker that is late finds the latest ones, not a queue of changes:
/// no setting can be lost.
#[derive(Debug)]
pub struct Published {
    generation: AtomicU64,
    latest: Mutex<Arc<Tables>>,
}

impl Default for Tables {
    /// [`Mode::Adaptive`], no rules, Linux's default flow hash.
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            classifier: Arc::default(),
            rule_set: 0,
            devices: Arc::default(),
            policies: Arc::default(),
            subscriptions: Vec::new(),
            hash: <(FlowHash, FlowHash)>::default(),
            mode: Mode::default(),
            modes: BTreeMap::new(),
            budget: BUDGET,
        }
    }
}

impl Tables {
    /// When the worker with this number looks at its queues.
    pub fn mode_of(&self, worker: usize) -> Mode {
        self.modes.get(&worker).copied().unwrap_or(self.mode)
    }

    /// Whether a worker with these tables needs not adopt the others.
    pub fn is_same(&self, other: &Self) -> bool {
        self.ports == other.ports
            && Arc::ptr_eq(&self.classifier, &other.classifier)
            && self.rule_set == other.rule_set
            && Arc::ptr_eq(&self.devices, &other.devices)
            && Arc::ptr_eq(&self.policies, &other.policies)
            && self.has_subscriptions(&other.subscriptions)
            && self.hash == other.hash
            && (self.mode, self.budget) == (other.mode, other.budget)
            && self.modes == other.modes
    }

    /// Whether the captures and traces are these.
    pub(crate) fn has_subscriptions(&self, subscriptions: &[Arc<Subscription>]) -> bool {
        let pairs = || self.subscriptions.iter().zip(subscriptions);
        self.subscriptions.len() == subscriptions.len()
            && pairs().all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Published {
    /// The first tables.
    pub fn new(tables: Tables) -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(1),
            latest: Mutex::new(Arc::new(tables)),
        })
    }

    /// Replaces the tables; returns the generation of these.
    pub fn publish(&self, tables: Tables) -> u64 {
        let tables = Arc::new(tables);
        let mut latest = lock(&self.latest);
        *latest = tables;
        // with the lock held, so that a worker cannot take one generation's tables for another's
        self.generation.fetch_add(1, Ordering::Release) + 1
    }

    /// The generation of the latest tables.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The latest tables and their generation.
    pub fn latest(&self) -> (u64, Arc<Tables>) {
        let latest = lock(&self.latest);
        (self.generation(), Arc::clone(&latest))
    }
}
