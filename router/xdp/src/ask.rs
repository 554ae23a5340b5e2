//! Asks the program what it does with packets, without packets: an instance of its own, whose answers nobody counts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{MapCore, MapFlags};

use super::error::{ProgramError, explained};
use super::link::check;
use super::program::{Program, TailProgram, has_constants, open_some, share};
use super::skeleton::types::rodata;

/// Maps that the instance has for itself: what it counts, which neighbours it uses, and where it ends.
const OWN: [&str; 5] = [
    "counters",
    "device_counts",
    "budgets",
    "use_marks",
    "tail_programs",
];
/// Room for a frame that becomes longer by tags or a tunnel's headers, octets.
const GROWTH: usize = 128;

/// What an instance is made of.
pub struct Parts {
    maps: Vec<(OsString, OwnedFd)>,
    constants: rodata,
}

/// An instance that is asked.
#[derive(Debug)]
pub struct Questions {
    program: OwnedFd,
    pub(super) fib_ask: OwnedFd,
    /// The kernel empties it when nobody has it.
    _ends: OwnedFd,
}

/// What the program does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramAnswer {
    /// It passes it to Linux.
    ToLinux,
    /// It drops it.
    Dropped,
    /// It gives it to the engine, unchanged.
    ToEngine,
    /// It sends it by some interface.
    Sent,
}

/// Whether the instance has a map for itself.
fn is_own(map: &OsStr) -> bool {
    has_constants(map) || OWN.iter().any(|own| map == *own)
}

impl Program {
    /// What an instance to be asked is made of; another thread may load it.
    ///
    /// # Errors
    /// No descriptor is left, or the kernel does not map BPF variables.
    pub fn parts(&self) -> io::Result<Parts> {
        let maps = self.skeleton.object().maps();
        let maps = maps.filter(|map| !is_own(map.name()));
        let maps = maps.map(|map| Ok((map.name().to_owned(), map.as_fd().try_clone_to_owned()?)));
        let constants = self.skeleton.maps.rodata_data;
        Ok(Parts {
            maps: maps.collect::<io::Result<_>>()?,
            constants: *constants.ok_or(io::ErrorKind::Unsupported)?,
        })
    }
}

impl Parts {
    /// Loads the instance.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn load(mut self) -> Result<Questions, ProgramError> {
        let mut object = MaybeUninit::uninit();
        let programs = ["bora", "on_port", "fib_ask"];
        let mut open = open_some(&mut object, &programs, self.constants.has_fragments)?;
        for mut map in open.open_object_mut().maps_mut() {
            let name = map.name().to_owned();
            if !is_own(&name) {
                let there = self.maps.iter().find(|(known, _)| *known == name);
                share(&mut map, there.map(|(_, fd)| fd.as_fd()))?;
            }
        }
        self.constants.asked = true;
        self.constants.shows = false;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            *constants = self.constants;
        }
        let loaded = explained(|| open.load())?;
        let row = (TailProgram::Devices as u32).to_ne_bytes();
        let devices = loaded.progs.on_port.as_fd().as_raw_fd().to_ne_bytes();
        let ends = &loaded.maps.tail_programs;
        ends.update(&row, &devices, MapFlags::ANY)?;
        Ok(Questions {
            program: loaded.progs.bora.as_fd().try_clone_to_owned()?,
            fib_ask: loaded.progs.fib_ask.as_fd().try_clone_to_owned()?,
            _ends: ends.as_fd().try_clone_to_owned()?,
        })
    }
}

/// Runs a program of type `syscall` on a context, which it may change; returns what it returns.
pub(super) fn run_on_context(program: BorrowedFd<'_>, context: &mut [u8]) -> io::Result<u32> {
    let mut options = sys::bpf_test_run_opts {
        sz: size_of::<sys::bpf_test_run_opts>() as u64,
        ctx_in: context.as_mut_ptr().cast(),
        ctx_size_in: context.len() as u32,
        ..Default::default()
    };
    // SAFETY: the options point to a context of the length that is said, which lives for the call.
    check(unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok(options.retval)
}

impl Questions {
    /// What the program does with a frame that comes by an interface, on its first queue, and the frame as it is then.
    ///
    /// # Errors
    /// What the kernel says: the interface is gone, or has no queue that the driver has prepared for XDP.
    pub fn ask(&mut self, ifindex: u32, frame: &[u8]) -> io::Result<(ProgramAnswer, Vec<u8>)> {
        // metadata, by which the program knows that no driver brought it (was_put_in() in router/xdp/bpf/buffer.h)
        let octets = [&[0; 4], frame].concat();
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let mut context = [4, octets.len() as u32, 0, ifindex, 0, 0];
        let mut out = vec![0; octets.len() + GROWTH];
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as u64,
            data_in: octets.as_ptr().cast(),
            data_size_in: octets.len() as u32,
            data_out: out.as_mut_ptr().cast(),
            data_size_out: out.len() as u32,
            ctx_in: context.as_ptr().cast(),
            ctx_size_in: size_of_val(&context) as u32,
            ctx_out: context.as_mut_ptr().cast(),
            ctx_size_out: size_of_val(&context) as u32,
            repeat: 1,
            ..Default::default()
        };
        // SAFETY: the options point to a frame, a context and a buffer of the lengths that are said, which live for the call.
        let done =
            unsafe { sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
        check(done)?;
        out.truncate(options.data_size_out as usize);
        // the metadata may be in front of the frame
        let out = out.split_off(out.len().min(context[0] as usize));
        let answer = match options.retval {
            sys::XDP_PASS => ProgramAnswer::ToLinux,
            sys::XDP_REDIRECT | sys::XDP_TX if out == frame => ProgramAnswer::ToEngine,
            sys::XDP_REDIRECT | sys::XDP_TX => ProgramAnswer::Sent,
            _ => ProgramAnswer::Dropped,
        };
        Ok((answer, out))
    }
}
