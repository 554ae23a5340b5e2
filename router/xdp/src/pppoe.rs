//! Which PPPoE sessions PPP interfaces have, read from Linux's own structures (`router/xdp/bpf/pppoe.bpf.c`).

use std::array;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use super::ask::run_on_context;
use super::error::{ProgramError, explained};

skeleton!("pppoe");

/// What a PPP interface is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// No PPPoE session, or several channels.
    Other,
    /// A PPPoE session.
    Session(Session),
    /// A PPPoE session whose packets are compressed, dialled for or shared.
    Changed,
    /// A PPPoE session whose packets pass filters of pppd.
    Filtered,
}

/// A PPPoE session (RFC 2516).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Index of the interface that its frames go by.
    pub lower: u32,
    /// Its number, not 0.
    pub number: u16,
    /// Ethernet address of the other end.
    pub peer: [u8; 6],
    /// Whether packets pass: IPv4, IPv6 (`NPMODE_PASS`).
    pub passes: [bool; 2],
}

/// Reads Linux's structures.
#[derive(Debug)]
pub struct Reader(OwnedFd);

impl Reader {
    /// For the structures of the modules that are loaded now.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub fn load() -> Result<Self, ProgramError> {
        let mut object: MaybeUninit<OpenObject> = MaybeUninit::uninit();
        let open = explained(|| skeleton::PppoeSkelBuilder::default().open(&mut object))?;
        let loaded = explained(|| open.load())?;
        let program = loaded.progs.find_session.as_fd().try_clone_to_owned()?;
        Ok(Self(program))
    }

    /// The channels of the PPP interfaces with these indices, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn channels(&self, interfaces: &[u32]) -> Result<BTreeMap<u32, Channel>, ProgramError> {
        let interfaces = interfaces.iter();
        let channels = interfaces.map(|&index| {
            let mut question = [0; 24];
            question[..4].copy_from_slice(&index.to_ne_bytes());
            run_on_context(self.0.as_fd(), &mut question)?;
            Ok((index, channel(&question)))
        });
        channels.collect()
    }
}

/// Reads `struct question`.
fn channel(answer: &[u8; 24]) -> Channel {
    match answer[18] {
        1 => Channel::Session(Session {
            lower: u32::from_ne_bytes(array::from_fn(|n| answer[4 + n])),
            number: u16::from_ne_bytes([answer[8], answer[9]]),
            peer: array::from_fn(|n| answer[10 + n]),
            passes: [answer[16] != 0, answer[17] != 0],
        }),
        2 => Channel::Changed,
        3 => Channel::Filtered,
        _ => Channel::Other,
    }
}
