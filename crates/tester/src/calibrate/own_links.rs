//! Links of the tester's own, for a calibration without a router.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};

use crate::ports::{Attached, Kind, PortSpec};

/// Of the names of namespaces and folders; the process's identifier follows.
const PREFIX: &str = "bora-test-";

/// Links of the tester's own, of the same kinds as its ports: they are gone when this is dropped.
#[derive(Debug)]
pub struct OwnLinks {
    /// Ports at the ends of the links: the first two are joined, the next two …
    pub ports: Vec<PortSpec>,
    spaces: Vec<String>,
    folder: Option<PathBuf>,
}

impl OwnLinks {
    /// A link for each pair of ports.
    ///
    /// # Errors
    /// If Linux refuses namespaces or links.
    pub fn new(ports: &[PortSpec]) -> anyhow::Result<Self> {
        remove_leftovers();
        let mut links = Self {
            ports: Vec::new(),
            spaces: Vec::new(),
            folder: None,
        };
        for (pair, ends) in ports.chunks_exact(2).enumerate() {
            let kinds = match (&ends[0].kind, &ends[1].kind) {
                (Kind::Memif { .. }, Kind::Memif { .. }) => links.memif(pair)?,
                (Kind::Memif { .. } | Kind::Memory(_), _)
                | (_, Kind::Memif { .. } | Kind::Memory(_)) => {
                    bail!(
                        "ports {} and {} cannot be joined for a calibration; use calibration = \"off\"",
                        ends[0].name,
                        ends[1].name
                    )
                }
                (a, b) => links.veth([a, b])?,
            };
            for (side, (kind, end)) in kinds.into_iter().zip(ends).enumerate() {
                let netns = links.spaces.get(2 * pair + side).cloned();
                links.ports.push(end_of(end, kind, netns, pair, side));
            }
        }
        Ok(links)
    }

    fn veth(&mut self, kinds: [&Kind; 2]) -> anyhow::Result<[Kind; 2]> {
        // a process may have several, one after the other or at once
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let names = [0, 1].map(|side| format!("{PREFIX}{pid}-{number}-{side}"));
        for name in &names {
            execute(&format!("ip netns add {name}"))?;
            self.spaces.push(name.clone());
        }
        let [a, b] = &names;
        execute(&format!(
            "ip -n {a} link add e0 type veth peer name e0 netns {b}"
        ))?;
        for name in &names {
            // NAPI on both ends, so that XDP frames can be sent to them
            execute(&format!(
                "ip netns exec {name} ethtool -K e0 gro on && ip -n {name} link set lo up && \
                 ip -n {name} link set e0 up"
            ))?;
        }
        Ok(kinds.map(|kind| match kind {
            Kind::AfXdp(_) => Kind::AfXdp("e0".into()),
            Kind::AfPacket(_) => Kind::AfPacket("e0".into()),
            _ => Kind::Xdp("e0".into()),
        }))
    }

    fn memif(&mut self, pair: usize) -> anyhow::Result<[Kind; 2]> {
        let folder = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let socket = folder.join(format!("{pair}.sock"));
        self.folder = Some(folder);
        // the server first: it listens when the client comes
        Ok([true, false].map(|server| Kind::Memif {
            socket: socket.clone(),
            server,
        }))
    }
}

impl Drop for OwnLinks {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = execute(&format!("ip netns del {space}"));
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Removes the namespaces and folders of runs that were killed: those of processes that are no more.
fn remove_leftovers() {
    for space in left_in(Path::new("/run/netns")) {
        let _ = execute(&format!("ip netns del {space}"));
    }
    let folder = std::env::temp_dir();
    for name in left_in(&folder) {
        let _ = std::fs::remove_dir_all(folder.join(name));
    }
}

fn left_in(folder: &Path) -> Vec<String> {
    let is_left = |name: &String| {
        let rest = name.strip_prefix(PREFIX);
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(is_left).collect()
}

/// One end of a link: the port's own kind, CPU and speed, other addresses.
pub(super) fn end_of(
    port: &PortSpec,
    kind: Kind,
    netns: Option<String>,
    pair: usize,
    side: usize,
) -> PortSpec {
    let last = 2 * pair + side + 1;
    PortSpec {
        name: port.name.clone(),
        kind,
        netns,
        v4: Some(Attached {
            address: [198, 18, 0, last as u8].into(),
            prefix_length: 16,
            gateway: None,
        }),
        v6: Some(Attached {
            address: [0x2001, 2, 0, 0, 0, 0, 0, last as u16].into(),
            prefix_length: 64,
            gateway: None,
        }),
        speed: port.speed,
        cpu: port.cpu,
    }
}

fn execute(command: &str) -> anyhow::Result<()> {
    let output = Command::new("sh").args(["-c", command]).output();
    let output = output.context("cannot run sh")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{command}`: {}", said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> PortSpec {
        PortSpec {
            name: name.into(),
            kind: Kind::Xdp(name.into()),
            netns: None,
            v4: None,
            v6: None,
            speed: None,
            cpu: None,
        }
    }

    #[test]
    fn own_links_come_and_go() {
        // of a process that is no more
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let killed = format!("{PREFIX}{}-0-0", child.id());
        execute(&format!("ip netns add {killed}")).unwrap();
        let there = |space: &str| std::fs::exists(format!("/run/netns/{space}")).unwrap();
        assert!(there(&killed));

        let links = OwnLinks::new(&[port("a"), port("b")]).unwrap();
        assert!(!there(&killed));
        assert_eq!(links.ports[1].kind, Kind::Xdp("e0".into()));
        let space = links.ports[1].netns.clone().unwrap();
        assert!(there(&space));
        drop(links);
        assert!(!there(&space));
    }
}
