//! Where workers go: a physical core each, near the network cards, the first CPU last.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// Where Linux describes the machine.
const SYS: &str = "/sys";
/// There, the CPUs that are on line.
const ONLINE: &str = "devices/system/cpu/online";

/// One CPU as Linux numbers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) number: usize,
    /// NUMA node.
    pub(crate) node: usize,
    /// CPUs that share its physical core (hyperthreads), itself among them.
    pub(crate) siblings: Vec<usize>,
    /// CPUs that share its second-level cache, itself among them.
    pub(crate) l2: Vec<usize>,
}

impl Cpu {
    /// Other CPUs that share its core or its second-level cache.
    pub(crate) fn others(&self) -> Vec<usize> {
        let mut others: Vec<usize> = self.siblings.iter().chain(&self.l2).copied().collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|&other| other != self.number);
        others
    }
}

/// CPUs for this many workers of these interfaces, the best first: on the interfaces' NUMA node, one
/// a physical core, then the second-level cache to itself; CPU 0 last, because it gets the work
/// that nobody else was chosen for.
///
/// # Errors
/// There are not that many.
pub fn choose_cpus(workers: usize, interfaces: &[&str]) -> anyhow::Result<Vec<usize>> {
    let sys = Path::new(SYS);
    let mut nodes = interfaces.iter().filter_map(|name| node_of(sys, name));
    choose(read(sys)?, workers, nodes.next())
}

/// Checks that all these CPUs can have workers.
///
/// # Errors
/// One of them does not exist, or is off line.
pub(crate) fn check_cpus(wanted: &[usize]) -> anyhow::Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let path = Path::new(SYS).join(ONLINE);
    let online =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let online = list(&online);
    let missing = wanted.iter().find(|cpu| !online.contains(cpu));
    match missing {
        None => Ok(()),
        Some(cpu) => bail!("there is no CPU {cpu} on this machine; see {SYS}/{ONLINE}"),
    }
}

/// The CPU of this number, as far as Linux tells.
pub(crate) fn cpu(number: usize) -> Option<Cpu> {
    let sys = Path::new(SYS);
    one(sys, number, &nodes(sys))
}

fn choose(mut cpus: Vec<Cpu>, workers: usize, near: Option<usize>) -> anyhow::Result<Vec<usize>> {
    ensure!(
        workers <= cpus.len(),
        "{workers} workers, but the machine has {} CPUs",
        cpus.len()
    );
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < workers {
        let taken: HashSet<usize> = chosen.iter().copied().collect();
        let shares = |with: &[usize]| with.iter().any(|cpu| taken.contains(cpu));
        let cost = |cpu: &Cpu| {
            let far = near.is_some_and(|near| cpu.node != near);
            let order = (far, cpu.number == 0, cpu.number);
            (shares(&cpu.siblings), shares(&cpu.l2), order)
        };
        let best = (0..cpus.len()).min_by_key(|&index| cost(&cpus[index]));
        let best = best.context("no CPU is left")?;
        chosen.push(cpus.swap_remove(best).number);
    }
    Ok(chosen)
}

/// The CPUs that are on line.
fn read(sys: &Path) -> anyhow::Result<Vec<Cpu>> {
    let path = sys.join(ONLINE);
    let online = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let nodes = nodes(sys);
    let cpus = list(&online).into_iter();
    Ok(cpus.filter_map(|number| one(sys, number, &nodes)).collect())
}

fn one(sys: &Path, number: usize, nodes: &[(usize, Vec<usize>)]) -> Option<Cpu> {
    let cpu = sys.join(format!("devices/system/cpu/cpu{number}"));
    let shared = |file: &str| {
        let text = text_of(&cpu.join(file))?;
        Some(list(&text))
    };
    let alone = || vec![number];
    cpu.exists().then(|| Cpu {
        number,
        node: nodes
            .iter()
            .find(|(_, cpus)| cpus.contains(&number))
            .map_or(0, |(node, _)| *node),
        siblings: shared("topology/thread_siblings_list").unwrap_or_else(alone),
        l2: shared("cache/index2/shared_cpu_list").unwrap_or_else(alone),
    })
}

/// NUMA nodes with their CPUs; none on machines without.
fn nodes(sys: &Path) -> Vec<(usize, Vec<usize>)> {
    let folder = sys.join("devices/system/node");
    let online = text_of(&folder.join("online")).unwrap_or_default();
    let node = |number| {
        let cpus = text_of(&folder.join(format!("node{number}/cpulist")))?;
        Some((number, list(&cpus)))
    };
    list(&online).into_iter().filter_map(node).collect()
}

/// The node an interface's device is at; virtual interfaces are at none.
fn node_of(sys: &Path, interface: &str) -> Option<usize> {
    let path = sys.join("class/net").join(interface);
    let text = text_of(&path.join("device/numa_node"))?;
    list(&text).first().copied() // -1 for none
}

/// A file's text; `None` if Linux does not have it on this machine, or does not let it be read.
fn text_of(path: &Path) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                log::warn!("CPUs are chosen without {}: {error}", path.display());
            }
            None
        }
    }
}

/// Numbers as Linux lists them: `0-3,8`.
#[expect(
    clippy::disallowed_methods,
    reason = "what is no number of a CPU or node says that there is none"
)]
fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = (first.parse().ok()?, last.parse::<usize>().ok()?);
        Some(ends.0..=ends.1)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of two cores with two threads each: CPUs 0-3 are first threads, 4-7 second ones.
    fn machine() -> Vec<Cpu> {
        let cpu = |number: usize| Cpu {
            number,
            node: number % 4 / 2,
            siblings: vec![number % 4, number % 4 + 4],
            l2: vec![number % 4, number % 4 + 4],
        };
        (0..8).map(cpu).collect()
    }

    #[test]
    fn cores_before_threads_near_before_far_and_cpu_0_last() {
        let chosen = |workers, near| choose(machine(), workers, near).unwrap();
        assert_eq!(chosen(1, Some(0)), [1]);
        assert_eq!(chosen(2, Some(0)), [1, 4]);
        assert_eq!(chosen(4, Some(1)), [2, 3, 1, 4]);
        assert_eq!(chosen(3, None), [1, 2, 3]);
        assert_eq!(chosen(8, None).len(), 8);
        assert!(choose(machine(), 9, None).is_err());
    }

    #[test]
    fn lists_are_as_linux_writes_them() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(list("5"), [5]);
        assert!(list("\n").is_empty() && list("-1\n").is_empty());
    }

    #[test]
    fn this_machine_can_be_read() {
        let cpus = read(Path::new(SYS)).unwrap();
        assert!(!cpus.is_empty());
        for cpu in &cpus {
            assert!(cpu.siblings.contains(&cpu.number) && cpu.l2.contains(&cpu.number));
        }
        assert_eq!(choose_cpus(1, &["lo"]).unwrap().len(), 1);
    }
}
