//! The way down to Linux: frames re-appear on an interface as if it had just received them.
//!
//! BPF_PROG_RUN with live frames (Documentation/bpf/bpf_prog_run.rst) runs a program that returns
//! XDP_PASS. A call costs some 50 us and a packet 0.2 us, so frames go in batches and never from
//! a worker's thread.

use std::mem::MaybeUninit;

use bora_contract::INJECT_FRAME;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput};

skeleton!("inject");

const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// Puts frames in front of Linux. One call at a time, hence `&mut self`.
pub struct Injector {
    skeleton: skeleton::InjectSkel<'static>,
    waiting: usize,
}

impl Injector {
    /// Loads the program for the network namespace with this inode.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn load(netns_inode: u32) -> Result<Self, libbpf_rs::Error> {
        // Leaked once a process: the skeleton borrows its object as long as it lives.
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = skeleton::InjectSkelBuilder::default().open(object)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.netns_inode = netns_inode;
        }
        let skeleton = open.load()?;
        Ok(Self {
            skeleton,
            waiting: 0,
        })
    }

    /// Adds a frame to the batch; false if the batch is full or the frame has an impossible size.
    pub fn push(&mut self, octets: &[u8]) -> bool {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() else {
            return false;
        };
        let Some(slot) = bss.frames.get_mut(self.waiting) else {
            return false;
        };
        if octets.len() < 14 || octets.len() > INJECT_FRAME {
            return false;
        }
        slot.octets[..octets.len()].copy_from_slice(octets);
        slot.length = octets.len() as u32;
        self.waiting += 1;
        true
    }

    /// Frames in the batch.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Hands the batch to Linux as received on `ifindex`, which may run Bora's program as
    /// `generic` XDP; returns how many frames that were.
    ///
    /// # Errors
    /// What the kernel said, for instance that the interface is gone; the batch is empty then too.
    pub fn flush(&mut self, ifindex: u32, generic: bool) -> Result<usize, libbpf_rs::Error> {
        let count = std::mem::take(&mut self.waiting);
        if count == 0 {
            return Ok(0);
        }
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.next_frame = 0;
            bss.generic = generic;
        }
        let data = [0u8; 64];
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let mut context = [0u8; 24];
        context[4..8].copy_from_slice(&(data.len() as u32).to_ne_bytes());
        context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
        self.skeleton.progs.inject.test_run(ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&data),
            repeat: count as u32,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            ..ProgramInput::default()
        })?;
        Ok(count)
    }
}
