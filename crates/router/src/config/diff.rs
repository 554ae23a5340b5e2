//! What is to be done to get from one configuration to another.

use std::fmt;

use bora_worker::Mode;

use super::{DscpSection, FibSection, File, PathChoice, PortSection, QueuesSection, RuleSection};

/// One change of a running Bora.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Forwards on one more interface.
    AddPort(PortSection),
    /// Other packets a turn.
    SetQuota {
        /// The port's name.
        port: String,
        /// Packets.
        quota: u32,
    },
    /// Other queues at an output.
    SetQueues {
        /// The port's name.
        port: String,
        /// The queues.
        queues: QueuesSection,
    },
    /// Other rules: all of them are replaced at once.
    SetRules(Vec<RuleSection>),
    /// Other classes of code points.
    SetDscp(DscpSection),
    /// Other packets a round.
    SetBudget(u32),
    /// Another mode of all workers.
    SetMode(Mode),
    /// Whether Linux's hooks are looked at.
    SetBypass(bool),
    /// Other CPUs for workers.
    SetCores(Vec<usize>),
    /// Recycling of packet buffers.
    SetRecycling(bool),
    /// Another tier.
    SetPath(PathChoice),
    /// Another FIB.
    SetFib(FibSection),
    /// Other budgets of exceptions.
    SetPuntBudget(u64),
    /// Leaves an interface to Linux.
    RemovePort(String),
}

/// The actions that make `new` of `old`, in the order they are to be done: what may fail for want of
/// something comes first, what others might still refer to goes last. The order of ports means
/// nothing.
pub fn diff(old: &File, new: &File) -> Vec<Action> {
    let mut actions = Vec::new();
    let find = |file: &File, name: &str| file.ports.iter().find(|p| p.name == name).cloned();
    for port in &new.ports {
        let Some(was) = find(old, &port.name) else {
            actions.push(Action::AddPort(port.clone()));
            continue;
        };
        let name = || port.name.clone();
        if was.quota != port.quota {
            let (port, quota) = (name(), port.quota);
            actions.push(Action::SetQuota { port, quota });
        }
        if was.queues != port.queues {
            let (port, queues) = (name(), port.queues.clone());
            actions.push(Action::SetQueues { port, queues });
        }
    }
    // added ports first: rules may name them
    actions.sort_by_key(|action| !matches!(action, Action::AddPort(_)));
    let mut set = |differs: bool, action: &dyn Fn() -> Action| {
        if differs {
            actions.push(action());
        }
    };
    let (was, is) = (&old.workers, &new.workers);
    set(old.rules != new.rules, &|| {
        Action::SetRules(new.rules.clone())
    });
    set(old.dscp != new.dscp, &|| Action::SetDscp(new.dscp.clone()));
    set(was.budget != is.budget, &|| Action::SetBudget(is.budget));
    set(was.recycling != is.recycling, &|| {
        Action::SetRecycling(is.recycling)
    });
    set(was.mode != is.mode, &|| Action::SetMode(is.mode));
    set(was.cores != is.cores, &|| {
        Action::SetCores(is.cores.clone())
    });
    set(old.path != new.path, &|| Action::SetPath(new.path));
    set(old.fib != new.fib, &|| Action::SetFib(new.fib.clone()));
    let (was, is) = (&old.linux, &new.linux);
    set(was.bypass_netfilter != is.bypass_netfilter, &|| {
        Action::SetBypass(is.bypass_netfilter)
    });
    set(was.punt_budget != is.punt_budget, &|| {
        Action::SetPuntBudget(is.punt_budget)
    });
    let gone = old
        .ports
        .iter()
        .filter(|port| find(new, &port.name).is_none());
    actions.extend(gone.map(|port| Action::RemovePort(port.name.clone())));
    actions
}

impl Action {
    /// Why it cannot be done while Bora runs, if it cannot.
    pub fn refusal(&self) -> Option<&'static str> {
        match self {
            Self::SetPath(_) => Some("path cannot be changed while Bora runs"),
            Self::SetRecycling(_) => Some("workers.recycling cannot be changed while Bora runs"),
            Self::SetFib(_) => Some("fib.memory and fib.table cannot be changed while Bora runs"),
            Self::SetPuntBudget(_) => Some("linux.punt_budget cannot be changed while Bora runs"),
            _ => None,
        }
    }

    /// Makes the change in a configuration.
    pub fn apply(&self, file: &mut File) {
        let port = |file: &mut File, name: &str, change: &dyn Fn(&mut PortSection)| {
            if let Some(port) = file.ports.iter_mut().find(|port| port.name == name) {
                change(port);
            }
        };
        match self {
            Self::AddPort(section) => file.ports.push(section.clone()),
            Self::RemovePort(name) => file.ports.retain(|port| port.name != *name),
            Self::SetQuota { port: name, quota } => port(file, name, &|port| port.quota = *quota),
            Self::SetQueues { port: name, queues } => {
                port(file, name, &|port| port.queues = queues.clone());
            }
            Self::SetRules(rules) => file.rules.clone_from(rules),
            Self::SetDscp(dscp) => file.dscp = dscp.clone(),
            Self::SetBudget(budget) => file.workers.budget = *budget,
            Self::SetMode(mode) => file.workers.mode = *mode,
            Self::SetRecycling(recycling) => file.workers.recycling = *recycling,
            Self::SetCores(cores) => file.workers.cores.clone_from(cores),
            Self::SetBypass(bypass) => file.linux.bypass_netfilter = *bypass,
            Self::SetPath(path) => file.path = *path,
            Self::SetFib(fib) => file.fib = fib.clone(),
            Self::SetPuntBudget(budget) => file.linux.punt_budget = *budget,
        }
    }
}

/// As `bora apply` lists it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddPort(port) => write!(f, "add port {}", port.name),
            Self::RemovePort(name) => write!(f, "remove port {name}"),
            Self::SetQuota { port, quota } => {
                write!(f, "port {port}: quota {quota} packets a turn")
            }
            Self::SetQueues { port, queues } => {
                let output = queues.output();
                write!(f, "port {port}: queues of {} classes", output.classes.len())?;
                match queues.rate {
                    Some(rate) => write!(f, ", {rate}"),
                    None => Ok(()),
                }
            }
            Self::SetRules(rules) => write!(f, "rules: {}", rules.len()),
            Self::SetDscp(dscp) => write!(f, "dscp: {} code points", dscp.0.len()),
            Self::SetBudget(budget) => write!(f, "workers: budget {budget} packets a round"),
            Self::SetMode(mode) => write!(f, "workers: mode {mode}"),
            Self::SetCores(cores) => write!(f, "workers: cores {cores:?}"),
            Self::SetRecycling(recycling) => write!(f, "workers: recycling {recycling}"),
            Self::SetBypass(bypass) => write!(f, "linux: bypass_netfilter {bypass}"),
            Self::SetPath(path) => write!(f, "path {}", format!("{path:?}").to_lowercase()),
            Self::SetFib(fib) => write!(
                f,
                "fib: memory {} MiB, table {}",
                fib.memory,
                format!("{:?}", fib.table).to_lowercase()
            ),
            Self::SetPuntBudget(budget) => write!(f, "linux: punt_budget {budget}"),
        }
    }
}
