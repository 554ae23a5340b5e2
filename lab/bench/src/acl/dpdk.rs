//! DPDK's `rte_acl`, through `dpdk.c`.

use std::ffi::c_void;
use std::ptr::NonNull;

use anyhow::Context;
use bora_buffer::{Packet, Region};

use super::bora::{LENGTH, frames};
use super::{Header, Subject, rules};
use crate::dpdk::{Dpdk, allocated};

/// `struct rule` of dpdk.c.
#[repr(C)]
struct Rule {
    source: u32,
    destination: u32,
    ports: [u16; 4],
    source_length: u8,
    destination_length: u8,
    protocol: u8,
    any_protocol: u8,
}

unsafe extern "C" {
    fn dpdk_acl_new(rules: *const Rule, count: u32) -> *mut c_void;
    fn dpdk_acl_classify(
        acl: *const c_void,
        headers: *const *const u8,
        results: *mut u32,
        count: u32,
    );
    fn dpdk_acl_free(acl: *mut c_void);
}

/// Packets of one call, as of Bora's batches.
const BURST: usize = 256;
/// An `rte_acl` with its rules.
pub struct Acl {
    raw: NonNull<c_void>,
    memory: u64,
    /// Pointers to the IP headers, which are in frames as Bora's are.
    pointers: Vec<*const u8>,
    _region: Region,
    _packets: Vec<Packet>,
    results: Vec<u32>,
    /// Packets and octets of each rule, because Bora counts them, too.
    hits: Vec<[u64; 2]>,
}

impl Acl {
    /// Builds it. DPDK has been started.
    ///
    /// # Errors
    /// DPDK refuses the rules, or there is too little memory.
    pub fn new(_: Dpdk, rules: &[rules::Rule], headers: &[Header]) -> anyhow::Result<Self> {
        let before = allocated();
        let rules: Vec<Rule> = rules
            .iter()
            .map(|rule| Rule {
                source: rule.source.0,
                destination: rule.destination.0,
                ports: [
                    rule.source_ports.0,
                    rule.source_ports.1,
                    rule.destination_ports.0,
                    rule.destination_ports.1,
                ],
                source_length: rule.source.1,
                destination_length: rule.destination.1,
                protocol: rule.protocol.unwrap_or(0),
                any_protocol: rule.protocol.is_none().into(),
            })
            .collect();
        let (region, packets) = frames(headers)?;
        let ip = |packet| region.octets(packet)[14..].as_ptr();
        // SAFETY: the length is the slice's; DPDK copies the rules.
        let raw = unsafe { dpdk_acl_new(rules.as_ptr(), rules.len() as u32) };
        Ok(Self {
            raw: NonNull::new(raw)
                .context("rte_acl does not take the rules, or has too little memory")?,
            memory: allocated().saturating_sub(before),
            pointers: packets.iter().map(ip).collect(),
            results: vec![0; headers.len()],
            hits: vec![[0; 2]; rules.len() + 1],
            _region: region,
            _packets: packets,
        })
    }
}

impl Drop for Acl {
    fn drop(&mut self) {
        // SAFETY: made by dpdk_acl_new(); nobody uses it any more.
        unsafe { dpdk_acl_free(self.raw.as_ptr()) }
    }
}

impl Subject for Acl {
    fn name(&self) -> &'static str {
        "rte_acl"
    }

    fn classify(&mut self) {
        let results = self.results.chunks_mut(BURST);
        for (pointers, results) in self.pointers.chunks(BURST).zip(results) {
            // SAFETY: each pointer leads to a header with all fields, in a region that is kept, and there are
            // as many results as pointers.
            unsafe {
                dpdk_acl_classify(
                    self.raw.as_ptr(),
                    pointers.as_ptr(),
                    results.as_mut_ptr(),
                    pointers.len() as u32,
                );
            }
            for result in results {
                let [packets, octets] = &mut self.hits[*result as usize];
                *packets += 1;
                *octets += LENGTH as u64;
            }
        }
    }

    fn answers(&mut self) -> Vec<Option<usize>> {
        self.classify();
        let results = self.results.iter();
        results
            .map(|&found| (found as usize).checked_sub(1))
            .collect()
    }

    fn memory(&self) -> u64 {
        self.memory
    }
}
