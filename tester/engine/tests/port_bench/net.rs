//! Networks on this machine, and traffic for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bora_linux::netns::Namespace;
use bora_tester::port_bench::{Options, PortBench};
use bora_tester::ports::{Attached, Kind, PortSpec, open};
use bora_tester::traffic::{FrameMix, Stream, Traffic, Values};

/// A network namespace; `None`, and why, if that is not allowed.
pub(crate) fn space(role: &str) -> Option<Namespace> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let made = Namespace::new(&format!("wire{number}-{role}"));
    made.inspect_err(|error| bora_testing::skip(format!("no network namespace: {error}")))
        .ok()
}

/// Sets an interface up on which Linux says nothing.
pub(crate) fn quiet(space: &Namespace, interface: &str) {
    space
        .run(&format!(
            "sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1 && ip link set {interface} up"
        ))
        .unwrap();
}

/// A quiet interface `e0` with a cable to `peer` in another namespace.
pub(crate) fn lay_cable(space: &Namespace, other: &Namespace, peer: &str) {
    space
        .run(&format!(
            "ip link add e0 type veth peer name {peer} netns {other}"
        ))
        .unwrap();
    quiet(space, "e0");
}

/// Waits until Linux uses an interface: it looks at carriers no more than once a second.
fn wait_for_carrier(space: &Namespace, interface: &str) {
    let state = format!("cat /sys/class/net/{interface}/operstate");
    for _ in 0..300 {
        if space.run(&state).unwrap() == "up\n" {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{interface} has no carrier");
}

/// Two hosts with the tester's ports; a router between them if asked for.
pub(crate) struct Net {
    /// The hosts in the order of ports.
    pub(crate) hosts: [Namespace; 2],
    pub(crate) router: Option<Namespace>,
}

impl Net {
    /// `e0` of one host is the other end of `e0` of the other.
    pub(crate) fn cable() -> Option<Self> {
        let hosts = [space("a")?, space("b")?];
        lay_cable(&hosts[0], &hosts[1], "e0");
        quiet(&hosts[1], "e0");
        Some(Self {
            hosts,
            router: None,
        })
    }

    /// Linux forwards; its addresses are 198.18.PORT.1 and 2001:2:0:PORT::1 (RFC 2544, RFC 5180).
    pub(crate) fn router() -> Option<Self> {
        let router = space("r")?;
        let hosts = [space("a")?, space("b")?];
        router
            .run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
            .unwrap();
        for (port, host) in hosts.iter().enumerate() {
            lay_cable(host, &router, &format!("r{port}"));
            // GRO: NAPI on a veth that is up, so that XDP frames can be sent to it
            let script = format!(
                "ip addr add 198.18.{port}.1/24 dev r{port} && \
                 ip addr add 2001:2:0:{port}::1/64 dev r{port} nodad && \
                 ip link set r{port} up && ethtool -K r{port} gro on"
            );
            router.run(&script).unwrap();
        }
        for port in 0..2 {
            wait_for_carrier(&router, &format!("r{port}"));
        }
        Some(Self {
            hosts,
            router: Some(router),
        })
    }

    /// The tester on both hosts.
    pub(crate) fn wire(&self, kind: fn(String) -> Kind, options: Options) -> PortBench {
        let specs = self.specs(kind);
        PortBench::new(
            open(&specs, Vec::new(), Default::default()).unwrap(),
            options,
        )
    }

    pub(crate) fn specs(&self, kind: fn(String) -> Kind) -> [PortSpec; 2] {
        [0, 1].map(|port| PortSpec {
            netns: Some(self.hosts[port].to_string()),
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

/// Whether something keeps two threads that never wait, such as the tester's, from their CPUs for a tenth of the time.
pub(crate) fn is_busy() -> bool {
    let time = Duration::from_millis(100);
    let kept = move || {
        let start = Instant::now();
        let (mut last, mut kept) = (Duration::ZERO, Duration::ZERO);
        while last < time {
            let now = start.elapsed();
            if now - last > Duration::from_micros(50) {
                kept += now - last;
            }
            last = now;
        }
        kept > time / 10
    };
    let other = std::thread::spawn(kept);
    kept() | other.join().unwrap()
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
        flows: 64,
        sources: hosts(from),
        destinations: hosts(to),
        source_ports: Values::Range(49152, 65535),
        destination_ports: Values::Random {
            first: 1,
            last: 49151,
            seed: 5,
        },
        ..Stream::new((from, to), [0; 4], [0; 4])
    };
    Arc::new(Traffic {
        streams: vec![stream(0, 1), stream(1, 0)],
        frames,
    })
}
