//! Linux's multipath hash for the workers: its key is read, and what they compute is compared with what
//! the kernel does before it is used.

use std::net::IpAddr;

use bora_forward::{Family, FlowHash, HashPolicy};
use bora_kernel::{Settings, scratch};
use bora_port::interface::Interface;
use bora_port::multipath::{FLOWS, Flow, Oracle};
use bora_port::netns;
use bora_port::tap::Device;

/// The interface to try on, in a namespace of its own.
const INTERFACE: &str = "try";

/// What is known of the kernel's hash.
pub(crate) struct Multipath {
    /// The key, or why it is not known.
    key: Result<[u64; 2], String>,
    /// net.ipv4.fib_multipath_hash_seed when it was read.
    seed: Option<u32>,
}

impl Multipath {
    /// Finds out. Takes some ten milliseconds.
    pub(crate) fn learn(settings: &Settings) -> Self {
        let seed = settings.hash_seed;
        let key = learn(seed);
        if let Err(why) = &key {
            log::warn!("flows over several paths are left to Linux: {why}");
        }
        Self { key, seed }
    }

    /// How flows are hashed now, IPv4 and IPv6. A new seed is learned.
    pub(crate) fn hashes(&mut self, settings: &Settings) -> (FlowHash, FlowHash) {
        if settings.hash_seed != self.seed {
            *self = Self::learn(settings);
        }
        let hash = |set: bora_kernel::HashPolicy| FlowHash {
            policy: match self.key {
                Ok(_) => HashPolicy::from_number(set.policy),
                Err(_) => HashPolicy::Unknown,
            },
            fields: set.fields,
            key: self.key.clone().unwrap_or_default(),
        };
        (hash(settings.hash4), hash(settings.hash6))
    }

    /// Why flows are left to Linux, if they are.
    pub(crate) fn why_unknown(&self, hash: &FlowHash) -> Option<&str> {
        match &self.key {
            Err(why) => Some(why),
            Ok(_) if hash.policy == HashPolicy::Unknown => Some("this hash policy is not known"),
            Ok(_) => None,
        }
    }
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

/// Lets the kernel choose ways in the thread's namespace, a new one; returns the key with which
/// every choice can be foretold.
fn verify(oracle: &mut Oracle, seed: Option<u32>) -> Result<[u64; 2], String> {
    let device = Device::open(INTERFACE, 1).map_err(|e| e.to_string())?;
    let interface = Interface::named(device.name()).ok_or("no interface to try it on")?;
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
            if version == "ipv6" && set.is_err() {
                continue; // a kernel without IPv6
            }
            set.map_err(|e| format!("{key}: {e}"))?;
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

/// Whether a key leads to just these ways.
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
    let number = match flow.source {
        IpAddr::V4(_) => hash.of(&packet4(flow)?, Family::V4)?,
        IpAddr::V6(_) => hash.of(&packet6(flow)?, Family::V6)?,
    };
    let total = ways[0].1 + ways[1].1;
    let bound = ((u64::from(ways[0].1) << 31) + u64::from(total / 2)) / u64::from(total);
    Some(ways[usize::from(u64::from(number) >= bound)].0)
}

/// A packet of a flow, as far as it is hashed.
fn packet4(flow: &Flow) -> Option<[u8; 28]> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (flow.source, flow.destination) else {
        return None;
    };
    let mut octets = [0; 28];
    octets[0] = 0x45;
    octets[9] = flow.protocol;
    octets[12..16].copy_from_slice(&source.octets());
    octets[16..20].copy_from_slice(&destination.octets());
    octets[20..22].copy_from_slice(&flow.ports[0].to_be_bytes());
    octets[22..24].copy_from_slice(&flow.ports[1].to_be_bytes());
    Some(octets)
}

fn packet6(flow: &Flow) -> Option<[u8; 48]> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (flow.source, flow.destination) else {
        return None;
    };
    let mut octets = [0; 48];
    octets[..4].copy_from_slice(&(0x6000_0000 | flow.label).to_be_bytes());
    octets[6] = flow.protocol;
    octets[8..24].copy_from_slice(&source.octets());
    octets[24..40].copy_from_slice(&destination.octets());
    octets[40..42].copy_from_slice(&flow.ports[0].to_be_bytes());
    octets[42..44].copy_from_slice(&flow.ports[1].to_be_bytes());
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
