//! The FIB that the program reads: the map of its pages, and when their memory may be used again.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::ask::{Questions, run_on_context};
use super::error::ProgramError;
use super::program::Program;

/// Waits for running programs.
pub struct GracePeriods {
    outer: MapHandle,
    inner: MapHandle,
}

impl GracePeriods {
    /// Waits until all programs that are running now have ended; some milliseconds to some tens of them.
    ///
    /// # Errors
    /// What the kernel says; it has not waited then.
    pub fn wait(&self) -> Result<(), ProgramError> {
        // router/xdp/bpf/maps.h says why the kernel waits
        let value = self.inner.as_fd().as_raw_fd().to_ne_bytes();
        Ok(self.outer.update(&[0; 4], &value, MapFlags::ANY)?)
    }
}

/// What the program finds for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibAnswer {
    /// Id of the next hop, or 65536 if the program's share of the FIB does not hold the address.
    pub next_hop: u32,
    /// 0 if the program asks Linux; or a reason with `FIB_REASON`; or a neighbour.
    pub hop: u32,
    /// The bit of the neighbour with this address behind interface 1.
    pub mark: u32,
}

impl Program {
    /// The map of the FIB's pages, and how many of them are for nodes of each IP version: 0 if it was loaded
    /// without.
    pub fn fib_map(&self) -> (BorrowedFd<'_>, u32) {
        let constants = self.skeleton.maps.rodata_data;
        let pages = constants.map_or(0, |constants| constants.fib_node_pages);
        (self.skeleton.maps.fib.as_fd(), pages)
    }

    /// The map of `USE_MARKS` bits that say which neighbours packets were sent to.
    pub fn use_marks(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.use_marks.as_fd()
    }

    /// Octets that the FIB's map takes.
    pub fn fib_octets(&self) -> usize {
        let map = &self.skeleton.maps.fib;
        map.max_entries() as usize * map.value_size() as usize
    }

    /// Says whether express may go by the FIB, IPv4 and IPv6. It asks Linux for each packet if not.
    pub fn set_fib_valid(&mut self, valid: [bool; 2]) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.fib_valid = valid.map(u8::from);
        }
    }

    /// What waits for running programs.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn grace_periods(&self) -> Result<GracePeriods, ProgramError> {
        let maps = &self.skeleton.maps;
        Ok(GracePeriods {
            outer: MapHandle::try_from(&maps.grace_period)?,
            inner: MapHandle::try_from(&maps.inner)?,
        })
    }

    /// Has the program look up an address; `None` if it has no FIB.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn look_up(&self, address: IpAddr) -> io::Result<Option<FibAnswer>> {
        look_up(self.skeleton.progs.fib_ask.as_fd(), address)
    }
}

impl Questions {
    /// Has the instance look up an address; `None` if it has no FIB.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn look_up(&self, address: IpAddr) -> io::Result<Option<FibAnswer>> {
        look_up(self.fib_ask.as_fd(), address)
    }
}

fn look_up(program: BorrowedFd<'_>, address: IpAddr) -> io::Result<Option<FibAnswer>> {
    let mut octets = [0; 36]; // struct bora_fib_question
    match address {
        IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => octets[..16].copy_from_slice(&address.octets()),
    }
    octets[16..20].copy_from_slice(&u32::from(address.is_ipv6()).to_ne_bytes());
    octets[28..32].copy_from_slice(&1u32.to_ne_bytes());
    let knows = run_on_context(program, &mut octets)? != 0;
    let word = |at: usize| {
        octets[at..]
            .first_chunk()
            .map_or(0, |&w| u32::from_ne_bytes(w))
    };
    Ok(knows.then(|| FibAnswer {
        next_hop: word(20),
        hop: word(24),
        mark: word(32),
    }))
}
