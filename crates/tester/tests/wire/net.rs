//! Networks on this machine, and traffic for them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bora_tester::ports::{Attached, Kind, PortSpec, open};
use bora_tester::traffic::{FrameMix, Stream, Traffic, Values};
use bora_tester::wire::{Options, Wire};

/// A named network namespace, gone when dropped.
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    /// `None`, and why, if that is not allowed.
    pub(crate) fn new(role: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bora-wire-{}-{number}-{role}", std::process::id());
        let done = Command::new("ip").args(["netns", "add", &name]).status();
        if !done.is_ok_and(|status| status.success()) {
            bora_testing::skip("no network namespace; run as root");
            return None;
        }
        Some(Self(name))
    }

    /// Waits until Linux uses an interface: it looks at carriers no more than once a second.
    fn wait_for_carrier(&self, interface: &str) {
        for _ in 0..300 {
            if self.run(&format!("cat /sys/class/net/{interface}/operstate")) == "up\n" {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{interface} has no carrier");
    }

    /// Runs a command inside; its output.
    pub(crate) fn run(&self, command: &str) -> String {
        let words = command.split(' ');
        let output = Command::new("ip")
            .args(["netns", "exec", &self.0])
            .args(words)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Interface `e0` with a cable to `peer` in another namespace; Linux says nothing on it.
    pub(crate) fn cable(&self, other: &Self, peer: &str) {
        let add = format!(
            "ip link add e0 type veth peer name {peer} netns {}",
            other.0
        );
        self.run(&add);
        self.run("sysctl -qw net.ipv6.conf.e0.disable_ipv6=1");
        self.run("ip link set e0 up");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Two hosts with the tester's ports; a router between them if asked for.
pub(crate) struct Net {
    /// In the order of ports.
    pub(crate) hosts: [Namespace; 2],
    pub(crate) router: Option<Namespace>,
}

impl Net {
    /// `e0` of one host is the other end of `e0` of the other.
    pub(crate) fn cable() -> Option<Self> {
        let hosts = [Namespace::new("a")?, Namespace::new("b")?];
        hosts[0].cable(&hosts[1], "e0");
        hosts[1].run("sysctl -qw net.ipv6.conf.e0.disable_ipv6=1");
        hosts[1].run("ip link set e0 up");
        Some(Self {
            hosts,
            router: None,
        })
    }

    /// Linux forwards; its addresses are 198.18.PORT.1 and 2001:2:0:PORT::1 (RFC 2544, RFC 5180).
    pub(crate) fn router() -> Option<Self> {
        let router = Namespace::new("r")?;
        let hosts = [Namespace::new("a")?, Namespace::new("b")?];
        router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        for (port, host) in hosts.iter().enumerate() {
            host.cable(&router, &format!("r{port}"));
            router.run(&format!("ip addr add 198.18.{port}.1/24 dev r{port}"));
            router.run(&format!(
                "ip addr add 2001:2:0:{port}::1/64 dev r{port} nodad"
            ));
            router.run(&format!("ip link set r{port} up"));
            // NAPI on a veth that is up, so that XDP frames can be sent to it
            router.run(&format!("ethtool -K r{port} gro on"));
        }
        for port in 0..2 {
            router.wait_for_carrier(&format!("r{port}"));
        }
        Some(Self {
            hosts,
            router: Some(router),
        })
    }

    /// The tester on both hosts.
    pub(crate) fn wire(&self, kind: fn(String) -> Kind, options: Options) -> Wire {
        let specs = self.specs(kind);
        Wire::new(
            open(&specs, Vec::new(), Default::default()).unwrap(),
            options,
        )
    }

    pub(crate) fn specs(&self, kind: fn(String) -> Kind) -> [PortSpec; 2] {
        [0, 1].map(|port| PortSpec {
            netns: Some(self.hosts[port].0.clone()),
            ..spec(port, kind("e0".into()), self.router.is_some())
        })
    }
}

/// A port with addresses 198.18.PORT.2 and 2001:2:0:PORT::2.
pub(crate) fn spec(port: usize, kind: Kind, routed: bool) -> PortSpec {
    let text = |last: u32| {
        (
            format!("198.18.{port}.{last}"),
            format!("2001:2:0:{port}::{last}"),
        )
    };
    let ((own4, own6), (router4, router6)) = (text(2), text(1));
    PortSpec {
        name: ["left", "right"][port].into(),
        kind,
        netns: None,
        v4: Some(Attached {
            address: own4.parse().unwrap(),
            prefix_length: 24,
            gateway: routed.then(|| router4.parse().unwrap()),
        }),
        v6: Some(Attached {
            address: own6.parse().unwrap(),
            prefix_length: 64,
            gateway: routed.then(|| router6.parse().unwrap()),
        }),
        speed: None,
        cpu: None,
    }
}

/// Trials that end soon.
pub(crate) fn quick() -> Options {
    Options {
        drain: Some(Duration::from_millis(60)),
        ..Options::default()
    }
}

/// Streams both ways, of IPv4 or IPv6, from and to several hosts of each link.
pub(crate) fn both_ways(v6: bool, frames: FrameMix) -> Arc<Traffic> {
    let hosts = |port: usize| {
        let host = |last: u32| match v6 {
            true => format!("2001:2:0:{port}::{last}").parse().unwrap(),
            false => format!("198.18.{port}.{last}").parse().unwrap(),
        };
        Values::Range(host(2), host(9))
    };
    let stream = |from: usize, to: usize| Stream {
        from,
        to,
        weight: 1,
        flows: 64,
        flow_length: None,
        sources: hosts(from),
        destinations: hosts(to),
        source_ports: Values::Range(49152, 65535),
        destination_ports: Values::Random {
            first: 1,
            last: 49151,
            seed: 5,
        },
        dscp: 0,
        vlan: None,
    };
    Arc::new(Traffic {
        streams: vec![stream(0, 1), stream(1, 0)],
        frames,
    })
}
