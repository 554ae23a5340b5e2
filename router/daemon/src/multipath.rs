//! Linux's multipath hash for the workers: reads the kernel's key, and checks that the workers compute
//! what the kernel does before they use it.

use std::io::ErrorKind;
use std::net::IpAddr;

use bora_forward::{Family, FlowHash, HashPolicy};
use bora_linux::interface::Interface;
use bora_linux::netns;
use bora_mirror::{Settings, scratch};
use bora_port::tap::Device;
use bora_wire::{Protocol, ipv4, ipv6, udp};
use bora_xdp::multipath::{FLOWS, Flow, Oracle};

/// The interface to try on, in a namespace of its own.
const INTERFACE: &str = "try";

/// What is known of the kernel's hash.
pub(crate) struct Multipath {
    /// The key, or why it is not known.
    key: Result<[u64; 2], String>,
    /// net.ipv4.fib_multipath_hash_seed when it was read.
    seed: Option<u32>,
    /// How flows are hashed, IPv4 and IPv6.
    hashes: [FlowHash; 2],
}

impl Multipath {
    /// Reads and checks the key. Takes some ten milliseconds.
    pub(crate) fn learn(settings: &Settings) -> Self {
        let seed = settings.hash_seed;
        let key = learn(seed);
        if let Err(why) = &key {
            log::warn!("flows over several paths are left to Linux: {why}");
        }
        let hashes = hashes(&key, settings);
        Self { key, seed, hashes }
    }

    /// Takes the settings as they are now, and learns a new seed. Whether flows are hashed otherwise
    /// than before.
    pub(crate) fn update(&mut self, settings: &Settings) -> bool {
        let before = self.hashes;
        if settings.hash_seed != self.seed {
            *self = Self::learn(settings);
        }
        self.hashes = hashes(&self.key, settings);
        self.hashes != before
    }

    /// How flows are hashed now, IPv4 and IPv6.
    pub(crate) fn hashes(&self) -> (FlowHash, FlowHash) {
        (self.hashes[0], self.hashes[1])
    }

    /// Why flows are left to Linux, IPv4 and IPv6; `None` where they are not.
    pub(crate) fn why_unknown(&self) -> [Option<&str>; 2] {
        self.hashes.map(|hash| match &self.key {
            Err(why) => Some(why.as_str()),
            Ok(_) if hash.policy == HashPolicy::Unknown => Some("this hash policy is not known"),
            Ok(_) => None,
        })
    }
}

fn hashes(key: &Result<[u64; 2], String>, settings: &Settings) -> [FlowHash; 2] {
    [settings.hash4, settings.hash6].map(|set| {
        let (policy, key) = match key {
            Ok(key) => (HashPolicy::from_number(set.policy), *key),
            Err(_) => (HashPolicy::Unknown, [0; 2]), // `why_unknown` says it
        };
        FlowHash {
            policy,
            fields: set.fields,
            key,
        }
    })
}

/// Reads the key and tries it.
fn learn(seed: Option<u32>) -> Result<[u64; 2], String> {
    let mut oracle = Oracle::load().map_err(|e| format!("cannot ask the kernel: {e}"))?;
    // elsewhere first: there is a secret only after the kernel has hashed something
    let verified = netns::in_new(|| verify(&mut oracle, seed));
    let verified = verified.map_err(|e| format!("no namespace to try it in: {e}"))??;
    let here = oracle.keys().map_err(|e| e.to_string())?;
    if !here.contains(&verified) {
        return Err("the key of this namespace is another than it should be".into());
    }
    Ok(verified)
}

/// Lets the kernel choose paths in the thread's namespace, a new one; returns the key that explains
/// every choice.
fn verify(oracle: &mut Oracle, seed: Option<u32>) -> Result<[u64; 2], String> {
    let device = Device::open(INTERFACE, 1).map_err(|e| e.to_string())?;
    let interface = Interface::named(device.name()).map_err(|e| e.to_string())?;
    let interface = interface.ok_or("no interface to try it on")?;
    let ifindex = interface.index;
    scratch::prepare(INTERFACE, ifindex).map_err(|e| e.to_string())?;
    if let Some(seed) = seed.filter(|&seed| seed != 0) {
        let set = scratch::set("net/ipv4/fib_multipath_hash_seed", seed);
        set.map_err(|e| format!("fib_multipath_hash_seed: {e}"))?;
    }
    let mut random = 0x2545_f491_4f6c_dd1d;
    let flows: Vec<[Flow; FLOWS]> = [false, true]
        .map(|v6| std::array::from_fn(|_| flow(&mut random, v6)))
        .into();
    let mut candidates = None;
    for policy in [HashPolicy::L3, HashPolicy::L4] {
        for (version, flows) in ["ipv4", "ipv6"].into_iter().zip(&flows) {
            let key = format!("net/{version}/fib_multipath_hash_policy");
            let set = scratch::set(&key, u32::from(policy == HashPolicy::L4));
            match set {
                Ok(()) => {}
                // a kernel without IPv6
                Err(e) if version == "ipv6" && e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(format!("{key}: {e}")),
            }
            let ways = oracle.gateways(ifindex, flows).map_err(|e| e.to_string())?;
            let keys = match candidates.take() {
                Some(keys) => keys,
                None => oracle.keys().map_err(|e| e.to_string())?,
            };
            if keys.is_empty() {
                return Err("the kernel does not show the key of its multipath hash".into());
            }
            let fits = |key: &[u64; 2]| foretells(*key, policy, flows, &ways);
            let keys: Vec<_> = keys.into_iter().filter(fits).collect();
            if keys.is_empty() {
                return Err(format!(
                    "this kernel's multipath hash of {version} is another (policy {})",
                    u8::from(policy == HashPolicy::L4)
                ));
            }
            candidates = Some(keys);
        }
    }
    let keys = candidates.unwrap_or_default();
    keys.first().copied().ok_or_else(|| "no key".into())
}

/// Whether a key leads to exactly these ways.
fn foretells(key: [u64; 2], policy: HashPolicy, flows: &[Flow], ways: &[Option<IpAddr>]) -> bool {
    let hash = FlowHash {
        policy,
        fields: 0,
        key,
    };
    flows.len() == ways.len()
        && flows.iter().zip(ways).all(|(flow, way)| {
            let expected = expected(&hash, flow);
            expected.is_some() && expected == *way
        })
}

/// The way of a flow by the weights of the route.
fn expected(hash: &FlowHash, flow: &Flow) -> Option<IpAddr> {
    let ways: [(IpAddr, u32); 2] = match flow.source {
        IpAddr::V4(_) => scratch::WAYS4.map(|(way, weight)| (way.into(), weight)),
        IpAddr::V6(_) => scratch::WAYS6.map(|(way, weight)| (way.into(), weight)),
    };
    let family = match flow.source {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    };
    let number = hash.of(&packet(flow)?, family)?;
    let total = ways[0].1 + ways[1].1;
    let bound = ((u64::from(ways[0].1) << 31) + u64::from(total / 2)) / u64::from(total);
    Some(ways[usize::from(u64::from(number) >= bound)].0)
}

/// A packet of a flow, as far as it is hashed: the header of TCP starts as that of UDP.
#[expect(
    clippy::disallowed_methods,
    reason = "a flow without a packet makes no key fit, and flows over several paths are left to Linux"
)]
fn packet(flow: &Flow) -> Option<Vec<u8>> {
    let ports = udp::Repr {
        src_port: flow.ports[0],
        dst_port: flow.ports[1],
    };
    let protocol = Protocol(flow.protocol);
    let mut octets;
    let transport = match (flow.source, flow.destination) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            octets = vec![0; ipv4::MIN_HEADER_LEN + udp::HEADER_LEN];
            let header = ipv4::Repr {
                tos: 0,
                dont_fragment: false,
                ttl: 64,
                protocol,
                src,
                dst,
            };
            header.emit(&mut octets).ok()?
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            octets = vec![0; ipv6::HEADER_LEN + udp::HEADER_LEN];
            let header = ipv6::Repr {
                traffic_class: 0,
                flow_label: flow.label,
                next_header: protocol,
                hop_limit: 64,
                src,
                dst,
            };
            header.emit(&mut octets).ok()?
        }
        _ => return None,
    };
    ports.emit(transport).ok()?;
    Some(octets)
}

/// A TCP or UDP flow to where the two ways lead.
fn flow(random: &mut u64, v6: bool) -> Flow {
    let mut draw = || {
        // xorshift64 (Marsaglia 2003)
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random
    };
    let (a, b) = (draw(), draw());
    let (source, destination): (IpAddr, IpAddr) = if v6 {
        let wide = |net: u128, host: u64| IpAddr::V6((net << 64 | u128::from(host)).into());
        (
            wide(0x2001_0db8_0001_0000, a),
            wide(0x2001_0db8_0002_0000, b),
        )
    } else {
        let narrow = |net: u32, host: u64| IpAddr::V4((net | host as u32 & 0xffff).into());
        (narrow(0xc612_0000, a), narrow(0xc613_0000, b))
    };
    Flow {
        source,
        destination,
        protocol: if a >> 63 == 0 { 6 } else { 17 },
        ports: [(a >> 32) as u16, (b >> 32) as u16],
        label: if v6 { (b >> 44) as u32 } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root, as everything that asks a kernel.
    #[test]
    fn this_kernel_hashes_as_we_do() {
        let started = std::time::Instant::now();
        let seed = std::fs::read_to_string("/proc/sys/net/ipv4/fib_multipath_hash_seed");
        let found = learn(seed.ok().and_then(|seed| seed.trim().parse().ok()));
        println!("{found:x?} after {:?}", started.elapsed());
        assert!(found.is_ok(), "{found:?}");
    }
}
