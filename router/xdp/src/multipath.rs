//! What the kernel knows of its multipath hash: the key, and the way of a flow.

use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput, ProgramMut};

use crate::symbols::{address_of, kallsyms};

skeleton!("multipath");

/// Most flows of one question.
pub const FLOWS: usize = 64;

const FAMILY: usize = 0;
const L4_PROTOCOL: usize = 1;
const PORTS: usize = 2;
const IFINDEX: usize = 8;
const FLOW_INFO: usize = 12;
const SOURCE: usize = 16;
const DESTINATION: usize = 32;
/// struct bpf_fib_lookup of include/uapi/linux/bpf.h.
const LOOKUP: usize = 64;

/// A flow as `bpf_fib_lookup` is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination, of the same version.
    pub destination: IpAddr,
    /// Protocol or next header.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Flow label of IPv6.
    pub label: u32,
}

impl Flow {
    fn to_lookup(self, ifindex: u32) -> [u8; LOOKUP] {
        let mut octets = [0; LOOKUP];
        octets[L4_PROTOCOL] = self.protocol;
        octets[PORTS..PORTS + 2].copy_from_slice(&self.ports[0].to_be_bytes());
        octets[PORTS + 2..PORTS + 4].copy_from_slice(&self.ports[1].to_be_bytes());
        octets[IFINDEX..IFINDEX + 4].copy_from_slice(&ifindex.to_ne_bytes());
        let family = if self.source.is_ipv4() {
            libc::AF_INET
        } else {
            octets[FLOW_INFO..FLOW_INFO + 4].copy_from_slice(&self.label.to_be_bytes());
            libc::AF_INET6
        };
        octets[FAMILY] = family as u8;
        for (at, address) in [(SOURCE, self.source), (DESTINATION, self.destination)] {
            match address {
                IpAddr::V4(address) => octets[at..at + 4].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => octets[at..at + 16].copy_from_slice(&address.octets()),
            }
        }
        octets
    }
}

/// Asks the kernel, for the network namespace of the calling thread.
pub struct Oracle {
    skeleton: skeleton::MultipathSkel<'static>,
}

impl Oracle {
    /// Loads the programs.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn load() -> Result<Self, libbpf_rs::Error> {
        // Leaked once a process: the skeleton borrows its object as long as it lives.
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let skeleton = skeleton::MultipathSkelBuilder::default()
            .open(object)?
            .load()?;
        Ok(Self { skeleton })
    }

    /// The key of the hash; several where the kernel does not say which of some secrets it is
    /// (before 6.11 it is one of the things called `hashrnd`, drawn when first needed).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn keys(&mut self) -> Result<Vec<[u64; 2]>, libbpf_rs::Error> {
        if let Some(key) = self.key(0)? {
            return Ok(vec![key]);
        }
        let symbols = kallsyms()?;
        let named = symbols.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = address_of(words.next()?)?;
            (words.nth(1)? == "hashrnd" && address != 0).then_some(address)
        });
        let mut keys = Vec::new();
        for address in named {
            keys.extend(self.key(address)?);
        }
        Ok(keys)
    }

    fn key(&mut self, address: u64) -> Result<Option<[u64; 2]>, libbpf_rs::Error> {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.key_address = address;
        }
        run(&mut self.skeleton.progs.read_key, 1)?;
        let bss = self.skeleton.maps.bss_data.as_deref();
        Ok(bss.filter(|bss| bss.found).map(|bss| bss.key))
    }

    /// The gateway that each flow would take that comes in by an interface; `None` where
    /// there is none. Up to [`FLOWS`] at a time.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn gateways(
        &mut self,
        ifindex: u32,
        flows: &[Flow],
    ) -> Result<Vec<Option<IpAddr>>, libbpf_rs::Error> {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() else {
            return Ok(Vec::new());
        };
        bss.next_flow = 0;
        for (slot, flow) in bss.flows.iter_mut().zip(flows) {
            slot.lookup = flow.to_lookup(ifindex);
        }
        let count = flows.len().min(FLOWS);
        run(&mut self.skeleton.progs.ask, count)?;
        let Some(bss) = self.skeleton.maps.bss_data.as_deref() else {
            return Ok(Vec::new());
        };
        let answers = bss.flows.iter().zip(&bss.results).take(count);
        Ok(answers
            .map(|(slot, &result)| gateway(&slot.lookup, result))
            .collect())
    }
}

/// BPF_FIB_LKUP_RET_SUCCESS and _NO_NEIGH: the way is known.
fn gateway(lookup: &[u8; LOOKUP], result: i64) -> Option<IpAddr> {
    if ![0, 7].contains(&result) {
        return None;
    }
    let address: [u8; 16] = *lookup[DESTINATION..].first_chunk()?;
    let [a, b, c, d, ..] = address;
    Some(if i32::from(lookup[FAMILY]) == libc::AF_INET {
        Ipv4Addr::from([a, b, c, d]).into()
    } else {
        Ipv6Addr::from(address).into()
    })
}

fn run(program: &mut ProgramMut<'_>, times: usize) -> Result<(), libbpf_rs::Error> {
    let data = [0u8; 64];
    program
        .test_run(ProgramInput {
            data_in: Some(&data),
            repeat: times as u32,
            ..ProgramInput::default()
        })
        .map(drop)
}
