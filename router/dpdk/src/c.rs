//! What shim.c has.

use std::ffi::{c_char, c_int};

/// Packets that a call moves at most.
pub(crate) const BURST: usize = 64;
/// Mbufs of a queue in each direction beside those in its ring.
pub(crate) const SPARE: u32 = 512;

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) start: *mut u8,
    pub(crate) length: u64,
    pub(crate) frame_size: u32,
    pub(crate) iovas: *const u64,
    pub(crate) page: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) too_long: u32,
    pub(crate) malformed: u32,
}

#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Info {
    pub(crate) driver: [c_char; 32],
    pub(crate) bus: [c_char; 32],
    pub(crate) mac: [u8; 6],
    pub(crate) max_queues: u16,
    pub(crate) min_mtu: u16,
    pub(crate) max_mtu: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) missed: u64,
    pub(crate) rx_errors: u64,
    pub(crate) no_mbuf: u64,
    pub(crate) tx_errors: u64,
}

/// A queue of shim.c.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Queue {
    _private: [u8; 0],
}

pub(crate) type LogLine = unsafe extern "C" fn(level: u32, text: *const c_char, length: usize);

unsafe extern "C" {
    pub(crate) fn bora_dpdk_start(
        count: c_int,
        arguments: *mut *mut c_char,
        line: LogLine,
    ) -> c_int;
    pub(crate) fn bora_dpdk_version() -> *const c_char;

    pub(crate) fn bora_dpdk_probe(device: *const c_char, port: *mut u16) -> c_int;
    pub(crate) fn bora_dpdk_info(port: u16, out: *mut Info) -> c_int;
    pub(crate) fn bora_dpdk_configure(
        port: u16,
        queues: u16,
        mtu: u16,
        rx_slots: *mut u16,
        tx_slots: *mut u16,
    ) -> c_int;
    pub(crate) fn bora_dpdk_enable(port: u16, unfiltered: c_int) -> c_int;
    pub(crate) fn bora_dpdk_set_mac(port: u16, mac: *const [u8; 6]) -> c_int;
    pub(crate) fn bora_dpdk_link(port: u16) -> i64;
    pub(crate) fn bora_dpdk_stats(port: u16, out: *mut Stats) -> c_int;
    pub(crate) fn bora_dpdk_stop(port: u16);
    pub(crate) fn bora_dpdk_close(port: u16) -> c_int;

    pub(crate) fn bora_dpdk_is_physical() -> c_int;
    pub(crate) fn bora_dpdk_iova(address: *const u8) -> u64;
    pub(crate) fn bora_dpdk_map(port: u16, memory: *const Memory) -> c_int;
    pub(crate) fn bora_dpdk_unmap(port: u16, memory: *const Memory);
    pub(crate) fn bora_dpdk_forget(memory: *const Memory);

    pub(crate) fn bora_dpdk_queue_new(
        port: u16,
        number: u16,
        rx_slots: u16,
        tx_slots: u16,
        memory: *const Memory,
        error: *mut c_int,
    ) -> *mut Queue;
    pub(crate) fn bora_dpdk_queue_setup(queue: *mut Queue, rx_slots: u16, tx_slots: u16) -> c_int;
    pub(crate) fn bora_dpdk_queue_free(queue: *mut Queue);
    pub(crate) fn bora_dpdk_missing(queue: *const Queue) -> u32;
    pub(crate) fn bora_dpdk_refill(queue: *mut Queue, frames: *const u32, count: u32);
    pub(crate) fn bora_dpdk_receive(queue: *mut Queue, out: *mut Packet, lost: *mut Lost) -> u32;
    pub(crate) fn bora_dpdk_transmit(queue: *mut Queue, packets: *const Packet, count: u32) -> u32;
    pub(crate) fn bora_dpdk_clean(queue: *mut Queue);
    pub(crate) fn bora_dpdk_reclaim(queue: *mut Queue, frames: *mut u32) -> u32;
}
