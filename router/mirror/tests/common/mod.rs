//! A router and its neighbour in two real network namespaces, and the kernel as oracle.
#![allow(dead_code)] // each test file uses only a part

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bora_fib::{FibConfig, NextHop, PortId, Reason};
use bora_linux::netns::{self, Namespace};
use bora_mirror::{Mirror, MirrorConfig, Port, SyncStatus};

/// Longest a test waits for kernel and FIB to agree.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a command; panics with its output if it fails.
pub(crate) fn run(command: &str) -> String {
    let output = attempt(command);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "`{command}` failed: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command in the calling thread's namespace.
pub(crate) fn attempt(command: &str) -> Output {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a command");
    Command::new(program)
        .args(words)
        .output()
        .unwrap_or_else(|e| panic!("`{command}`: {e}"))
}

/// Two namespaces joined by veth pairs r0-p0 and r1-p1.
pub(crate) struct Net {
    router: Namespace,
    pub(crate) peer: Namespace,
}

impl Net {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let space = |role| Namespace::new(&format!("mirror{number}-{role}")).unwrap();
        Self {
            router: space("r"),
            peer: space("p"),
        }
    }

    /// Returns a function that moves its thread into the router's namespace.
    pub(crate) fn enter(&self) -> impl FnOnce() + Send + 'static {
        let name = self.router.name().to_owned();
        move || netns::enter(&name).unwrap()
    }

    /// Sets the links up, from inside the router's namespace.
    fn links(&self) {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        let peer = &self.peer;
        for n in 0..2 {
            run(&format!(
                "ip link add r{n} type veth peer name p{n} netns {peer}"
            ));
            run(&format!("ip addr add 10.0.{n}.1/24 brd + dev r{n}"));
            run(&format!("ip link set r{n} up"));
            run(&format!("ip -n {peer} link set p{n} up"));
            run(&format!("ip addr add 2001:db8:{n}::1/64 dev r{n} nodad"));
        }
        for n in 0..2 {
            wait_for_anycast(&format!("2001:db8:{n}::"));
        }
        known("r0", "10.0.0.2");
        known("r1", "10.0.1.2");
        known("r0", "2001:db8:0::2");
        known("r1", "2001:db8:1::2");
    }
}

/// Waits for the last address that Linux gives itself, which it does by a thread of its own.
fn wait_for_anycast(address: &str) {
    let start = Instant::now();
    let shown = format!("ip -6 route show table local {address}");
    while attempt(&shown).stdout.is_empty() {
        assert!(start.elapsed() < PATIENCE, "{address} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes a neighbour known; its link-layer address ends in 10 behind r0, in 11 behind r1.
pub(crate) fn known(device: &str, address: &str) {
    let mac = format!("02:bb:00:00:00:1{}", &device[1..]);
    run(&format!(
        "ip neigh replace {address} lladdr {mac} dev {device} nud permanent"
    ));
}

/// A router's mirror under test.
pub(crate) struct Router {
    pub(crate) net: Net,
    pub(crate) mirror: Mirror,
}

/// Runs a test inside a router's namespace, on a thread of its own because the thread stays
/// there. Skipped, saying so, where it is not permitted.
pub(crate) fn with_router(test: impl FnOnce(&mut Router) + Send + 'static) {
    with_config(MirrorConfig::default(), test);
}

pub(crate) fn with_config(config: MirrorConfig, test: impl FnOnce(&mut Router) + Send + 'static) {
    with_fib(config, FibConfig::default(), test);
}

pub(crate) fn with_fib(
    config: MirrorConfig,
    fib: FibConfig,
    test: impl FnOnce(&mut Router) + Send + 'static,
) {
    if !rustix::process::geteuid().is_root() {
        bora_testing::skip("network namespaces need root");
        return;
    }
    let _ = env_logger::builder().is_test(true).try_init();
    let body = move || {
        let net = Net::new();
        net.enter()();
        net.links();
        let (fib, _) = bora_fib::new(fib).unwrap();
        let mut mirror = Mirror::open(config, fib).unwrap();
        mirror.set_ports(ports(&mirror, &["r0", "r1"])).unwrap();
        test(&mut Router { net, mirror });
    };
    if let Err(panic) = std::thread::spawn(body).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes these links ports 0, 1, ...
pub(crate) fn ports(mirror: &Mirror, names: &[&str]) -> BTreeMap<u32, Port> {
    let link = |name: &str| mirror.links().values().find(|link| link.name == name);
    let numbered = names.iter().enumerate();
    let port = numbered.filter_map(|(n, name)| {
        let link = link(name)?;
        Some((
            link.index,
            Port {
                id: PortId(n as u16),
                mac: link.mac?,
                mtu: 9000,
                shaped: false,
                tunnel: None,
                peer: None,
            },
        ))
    });
    port.collect()
}

impl Router {
    /// Polls until kernel and FIB agree and stay so for longer than a reconciliation waits.
    pub(crate) fn settle(&mut self) {
        let start = Instant::now();
        let mut quiet = 0;
        while quiet < 2 {
            assert!(
                start.elapsed() < PATIENCE,
                "no agreement: {:#?}",
                self.mirror.status()
            );
            let changes = self.mirror.poll(Duration::from_millis(80)).unwrap();
            let still = changes.fib == 0 && self.mirror.status().in_sync;
            quiet = if still { quiet + 1 } else { 0 };
        }
    }

    /// Polls until the status is as it should be.
    pub(crate) fn poll_until(
        &mut self,
        what: &str,
        done: impl Fn(&SyncStatus) -> bool,
    ) -> SyncStatus {
        let start = Instant::now();
        loop {
            let status = self.mirror.status();
            if done(&status) {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {status:#?}");
            self.mirror.poll(Duration::from_millis(80)).unwrap();
        }
    }

    /// Settles, verifies, and compares look-ups with the kernel's.
    pub(crate) fn check(&mut self) {
        self.agree();
        for address in self.samples() {
            self.ask_kernel(address);
        }
    }

    /// Settles and verifies.
    pub(crate) fn agree(&mut self) {
        self.settle();
        let differences = self.mirror.verify().unwrap();
        let text: Vec<String> = differences
            .iter()
            .map(|found| format!("{found}\n{}", self.explain(&found.prefix)))
            .collect();
        assert!(
            text.is_empty(),
            "kernel and FIB differ:\n{}",
            text.join("\n")
        );
        for address in self.samples() {
            self.ask_kernel(address);
        }
    }

    /// What the kernel and the mirror have at a prefix.
    fn explain(&self, prefix: &str) -> String {
        let output = attempt(&format!("ip -d route show table all exact {prefix}")).stdout;
        let ours = self
            .mirror
            .routes()
            .filter(|r| format!("{}/{}", r.address, r.len) == prefix);
        let ours: Vec<String> = ours.map(|route| format!("{route:?}")).collect();
        format!(
            "kernel:\n{}mirror:\n{}",
            String::from_utf8_lossy(&output),
            ours.join("\n")
        )
    }

    /// First, last and a middle address of FIB prefixes, and some from anywhere.
    fn samples(&self) -> BTreeSet<IpAddr> {
        let mut samples = BTreeSet::new();
        let fib = self.mirror.fib();
        for (prefix, _) in fib.iter4().take(60) {
            let span = u32::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
            for add in [0, span / 3, span] {
                samples.insert(IpAddr::V4(Ipv4Addr::from_bits(prefix.addr() + add)));
            }
        }
        for (prefix, _) in fib.iter6().take(60) {
            let span = u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
            for add in [0, span / 3, span] {
                samples.insert(IpAddr::V6(Ipv6Addr::from_bits(prefix.addr() + add)));
            }
        }
        let mut random = 0x9e37_79b9_7f4a_7c15u64; // xorshift, fixed so that a failure repeats
        for _ in 0..20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            samples.insert(IpAddr::V4(Ipv4Addr::from_bits(
                0x0a00_0000 | (random as u32 & 0xff_ffff),
            )));
            let low = u128::from(random & 0x3_ffff) << 60 | u128::from(random >> 40);
            samples.insert(IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | low)));
        }
        samples
    }

    /// Whether the XDP program is told that these destinations are the router's own.
    pub(crate) fn is_own(&self, address: &str, len: u8) -> bool {
        let own = &self.mirror.local_addresses().prefixes;
        own.contains(&(address.parse().unwrap(), len))
    }

    /// The next hop that the FIB finds for an address.
    pub(crate) fn look_up(&self, address: IpAddr) -> NextHop {
        let fib = self.mirror.fib();
        let found = match address {
            IpAddr::V4(a) => fib.longest_match4(a.to_bits()).map(|(_, id)| id),
            IpAddr::V6(a) => fib.longest_match6(a.to_bits()).map(|(_, id)| id),
        };
        let id = found.unwrap_or(bora_fib::NextHopId::NO_ROUTE);
        fib.next_hop(id)
            .expect("a prefix's next hop exists")
            .clone()
    }

    /// Next hops as a list: the members of a group, or the next hop itself.
    pub(crate) fn ways(&self, address: &str) -> Vec<NextHop> {
        match self.look_up(address.parse().unwrap()) {
            NextHop::Group(group) => {
                let member = |id| self.mirror.fib().next_hop(id).unwrap().clone();
                group.members().map(member).collect()
            }
            single => vec![single],
        }
    }

    /// Compares one look-up with `ip route get`.
    fn ask_kernel(&self, address: IpAddr) {
        let ways = self.ways(&address.to_string());
        if ways.iter().any(|way| {
            matches!(
                way,
                NextHop::Punt {
                    reason: Reason::Unsupported,
                    ..
                }
            )
        }) {
            return; // always goes to the kernel
        }
        let output = attempt(&format!("ip -j route get {address}"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let kernel: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
        let kernel = &kernel[0];
        let agree = |way: &NextHop| match way {
            NextHop::Blackhole => error.contains("Invalid argument"),
            NextHop::Punt {
                reason: Reason::NoRoute,
                ..
            } => error.contains("Network is unreachable"),
            NextHop::Punt {
                reason: Reason::Unreachable,
                ..
            } => error.contains("No route to host"),
            NextHop::Punt {
                reason: Reason::Prohibit,
                ..
            } => error.contains("Permission denied"),
            NextHop::Punt {
                reason: Reason::Local,
                ..
            } => {
                // if Linux has no route either, it answers the packet
                let kind = kernel["type"].as_str().unwrap_or("unicast");
                kind != "unicast" || is_special(address) || !error.is_empty()
            }
            NextHop::Punt { port, .. } => port.is_some() && *port == self.port_of(kernel),
            NextHop::Tunnel(way) => Some(way.port) == self.port_of(kernel),
            NextHop::Forward(way) => {
                Some(way.port) == self.port_of(kernel)
                    && self.mac_of(kernel, address) == Some(way.l2[..6].to_vec())
            }
            NextHop::Group(_) => false,
        };
        assert!(
            ways.iter().any(agree),
            "{address}: FIB {ways:?}, kernel {kernel} {error}"
        );
    }

    fn port_of(&self, kernel: &serde_json::Value) -> Option<PortId> {
        match kernel["dev"].as_str()? {
            "r0" => Some(PortId(0)),
            "r1" => Some(PortId(1)),
            _ => None,
        }
    }

    /// The link-layer address of the gateway the kernel chose, or of the destination.
    fn mac_of(&self, kernel: &serde_json::Value, address: IpAddr) -> Option<Vec<u8>> {
        let gateway = kernel["gateway"]
            .as_str()
            .or_else(|| kernel["via"]["host"].as_str());
        let next = gateway.map_or(address, |gateway| gateway.parse().unwrap());
        let device = kernel["dev"].as_str()?;
        let index = self
            .mirror
            .links()
            .values()
            .find(|link| link.name == device)?
            .index;
        let mut neighbours = self.mirror.neighbours();
        let found = neighbours.find(|n| n.address == next && n.device == index)?;
        found.usable().map(|mac| mac.to_vec())
    }
}

/// Addresses that every FIB leaves to the kernel.
fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            a.is_multicast() || a.is_broadcast() || a.is_loopback() || a.is_unspecified()
        }
        IpAddr::V6(a) => {
            a.is_multicast() || a.is_unicast_link_local() || a.is_loopback() || a.is_unspecified()
        }
    }
}
