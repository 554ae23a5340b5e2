//! DPDK's `rte_acl`, through `dpdk.c`.

use std::ffi::c_void;
use std::ptr::NonNull;

use anyhow::Context;

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
const FRAME: usize = 2048;
/// Octets of a packet.
const LENGTH: u64 = 74;

/// Where the IP header of a frame is: behind headroom and Ethernet's, over the sets of the cache as Bora's.
fn ip(frame: usize) -> usize {
    256 + 14 + frame % 24 * 64
}

fn frame((number, header): (usize, &Header)) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[ip(number)..][..header.len()].copy_from_slice(header);
    frame
}

/// An `rte_acl` with its rules.
pub struct Acl {
    raw: NonNull<c_void>,
    memory: u64,
    /// In frames as far apart as Bora's.
    frames: Vec<[u8; FRAME]>,
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
        // SAFETY: the slice has so many rules, which DPDK copies.
        let raw = unsafe { dpdk_acl_new(rules.as_ptr(), rules.len() as u32) };
        Ok(Self {
            raw: NonNull::new(raw)
                .context("rte_acl does not take the rules, or has too little memory")?,
            memory: allocated().saturating_sub(before),
            frames: headers.iter().enumerate().map(frame).collect(),
            results: vec![0; headers.len()],
            hits: vec![[0; 2]; rules.len() + 1],
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
        for (burst, (frames, results)) in self.frames.chunks(BURST).zip(results).enumerate() {
            let mut pointers = [std::ptr::null(); BURST];
            for (number, (pointer, frame)) in pointers.iter_mut().zip(frames).enumerate() {
                *pointer = frame[ip(burst * BURST + number)..].as_ptr();
            }
            // SAFETY: so many pointers to headers with all fields, and as many results.
            unsafe {
                dpdk_acl_classify(
                    self.raw.as_ptr(),
                    pointers.as_ptr(),
                    results.as_mut_ptr(),
                    frames.len() as u32,
                );
            }
            for result in results {
                let [packets, octets] = &mut self.hits[*result as usize];
                *packets += 1;
                *octets += LENGTH;
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
