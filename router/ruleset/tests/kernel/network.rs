//! A router between two hosts, all in namespaces, and flows of UDP between the hosts.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bora_linux::netns::{self, Namespace};
use bora_ruleset::{FIELDS, Interface};

/// Rules that keep conntrack on, and do nothing else.
const TRACK: &str = "table inet track { chain prerouting { type filter hook prerouting priority 300; ct state established counter; }; }";
/// Ports of the flows; the last ones are not established.
const PORTS: std::ops::Range<u16> = 1000..1006;
const ESTABLISHED: u16 = 1004;

/// A router r and hosts a and b.
pub(crate) struct Network {
    router: Namespace,
    _hosts: [Namespace; 2],
    /// Flows of IPv4 and of IPv6.
    pub(crate) flows: [Vec<Flow>; 2],
}

/// A packet that was sent.
pub(crate) struct Packet {
    payload: Vec<u8>,
    ttl: u32,
    pub(crate) arrived: bool,
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = if self.arrived { "arrived" } else { "lost" };
        write!(
            f,
            "{} octets, TTL {}: {arrived}",
            self.payload.len(),
            self.ttl
        )
    }
}

/// A flow: a socket at each host.
pub(crate) struct Flow {
    ends: [UdpSocket; 2],
    pub(crate) established: bool,
}

impl Network {
    /// `name`: that of the test.
    pub(crate) fn new(name: &str) -> Self {
        let space = |role| Namespace::new(&format!("{name}-{role}")).unwrap();
        let (router, hosts) = (space("r"), [space("a"), space("b")]);
        for (number, host) in hosts.iter().enumerate() {
            router
                .run(&format!(
                    "ip link add r{number} type veth peer name p{number} netns {host}"
                ))
                .unwrap();
            let address = |end| {
                [
                    format!("10.0.{number}.{end}"),
                    format!("fd00:{number}::{end}"),
                ]
            };
            let (own, other) = (address(1), address(2));
            let set_up = |space: &Namespace, device: &str, own: &[String; 2]| {
                space
                    .run(&format!(
                        "ip link set {device} up; ip addr add {}/24 dev {device}; ip addr add {}/64 dev {device} nodad",
                        own[0], own[1]
                    ))
                    .unwrap();
            };
            set_up(&router, &format!("r{number}"), &own);
            set_up(host, &format!("p{number}"), &other);
            let neighbour = |space: &Namespace,
                             device: &str,
                             of: &Namespace,
                             peer: &str,
                             addresses: &[String; 2]| {
                let mac = of
                    .run(&format!("cat /sys/class/net/{peer}/address"))
                    .unwrap();
                for address in addresses {
                    space
                        .run(&format!(
                            "ip neigh replace {address} lladdr {} dev {device}",
                            mac.trim()
                        ))
                        .unwrap();
                }
            };
            let (device, peer) = (format!("r{number}"), format!("p{number}"));
            neighbour(&router, &device, host, &peer, &other);
            neighbour(host, &peer, &router, &device, &own);
            host.run(&format!(
                "ip route add default via {}; ip route add default via {}",
                own[0], own[1]
            ))
            .unwrap();
        }
        let forward = || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
            super::common::nft(TRACK).unwrap();
        };
        netns::in_named(router.name(), forward).unwrap();
        let flows = [false, true].map(|v6| PORTS.map(|port| Flow::new(&hosts, v6, port)).collect());
        Self {
            router,
            _hosts: hosts,
            flows,
        }
    }

    /// The router's interfaces; the number of each is that of its host.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        let interface = |number| {
            let name = format!("r{number}");
            let index = self
                .router
                .run(&format!("cat /sys/class/net/{name}/ifindex"));
            let index = index.unwrap().trim().parse().unwrap();
            Interface {
                number,
                index,
                name,
            }
        };
        (0..2).map(interface).collect()
    }

    /// The router's namespace.
    pub(crate) fn router(&self) -> &str {
        self.router.name()
    }
}

impl Flow {
    fn new(hosts: &[Namespace; 2], v6: bool, port: u16) -> Self {
        let address = |host: usize| -> IpAddr {
            let text = if v6 {
                format!("fd00:{host}::2")
            } else {
                format!("10.0.{host}.2")
            };
            text.parse().unwrap()
        };
        let ends = [0, 1].map(|host| {
            let bind = || UdpSocket::bind((address(host), port)).unwrap();
            let socket = netns::in_named(hosts[host].name(), bind).unwrap();
            socket.connect((address(1 - host), port)).unwrap();
            socket
        });
        let flow = Self {
            ends,
            established: port < ESTABLISHED,
        };
        if flow.established {
            for from in [0, 1, 0] {
                let end = &flow.ends[1 - from];
                flow.ends[from].send(&[0]).unwrap();
                end.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                assert_eq!(end.recv(&mut [0; 8]).unwrap(), 1, "{flow}");
            }
        }
        flow
    }

    /// Sends some packets in both directions.
    fn send(&self, random: &mut fastrand::Rng, count: usize) -> [Vec<Packet>; 2] {
        [0, 1].map(|from| {
            let end = &self.ends[from];
            let packet = |_| {
                let (len, ttl) = (random.usize(8..1400), random.u32(2..200));
                let payload: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
                if end.local_addr().unwrap().is_ipv4() {
                    end.set_ttl(ttl).unwrap();
                }
                // an ICMP error for an earlier packet is told once
                end.send(&payload).or_else(|_| end.send(&payload)).unwrap();
                let arrived = false;
                Packet {
                    payload,
                    ttl,
                    arrived,
                }
            };
            (0..count).map(packet).collect()
        })
    }

    /// Marks the packets that have arrived.
    fn receive(&self, sent: &mut [Vec<Packet>; 2]) {
        let mut buffer = [0; 2000];
        for (from, packets) in sent.iter_mut().enumerate() {
            let socket = &self.ends[1 - from];
            socket.set_nonblocking(true).unwrap();
            loop {
                match socket.recv(&mut buffer) {
                    Ok(len) => {
                        let mut packets = packets.iter_mut();
                        let packet = packets.find(|packet| packet.payload == buffer[..len]);
                        packet.into_iter().for_each(|packet| packet.arrived = true);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => {} // an ICMP error
                }
            }
        }
    }
}

/// Longest wait for packets that are expected.
const PATIENCE: Duration = Duration::from_secs(1);
/// Wait for packets that may be lost.
const SHORT: Duration = Duration::from_millis(15);

/// Sends packets of flows in both directions, and waits until all have arrived, or a while if `good` says that those that
/// have arrived may be all.
pub(crate) fn exchange(
    flows: &[&Flow],
    random: &mut fastrand::Rng,
    count: usize,
    good: impl Fn(&[Packet]) -> bool,
) -> Vec<[Vec<Packet>; 2]> {
    let mut sent: Vec<_> = flows.iter().map(|flow| flow.send(random, count)).collect();
    let start = Instant::now();
    loop {
        for (flow, sent) in flows.iter().zip(&mut sent) {
            flow.receive(sent);
        }
        let mut packets = sent.iter().flatten();
        let all = packets.clone().flatten().all(|packet| packet.arrived);
        let waited = start.elapsed();
        if all || waited > PATIENCE || waited > SHORT && packets.all(|packets| good(packets)) {
            return sent;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<SocketAddr> = self
            .ends
            .iter()
            .map(|end| end.local_addr().unwrap())
            .collect();
        write!(f, "{addresses:?}, established {}", self.established)
    }
}

/// What the router sees of a packet from one end of a flow, in the order of [`bora_ruleset::Field::ALL`].
pub(crate) fn values(flow: &Flow, from: usize) -> [u128; FIELDS] {
    let [own, other] = [from, 1 - from].map(|end| flow.ends[end].local_addr().unwrap());
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    const UDP: u128 = 17;
    [
        number(own.ip()),
        number(other.ip()),
        UDP,
        own.port().into(),
        other.port().into(),
        from as u128,
        1 - from as u128,
    ]
}
