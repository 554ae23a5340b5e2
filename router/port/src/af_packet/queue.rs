//! A queue over one socket: recvmmsg and sendmmsg, a batch a call.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;

use super::socket::{self, OpenError, Reader};
use crate::closing::Closing;
use crate::copying::{Copying, readable};
use crate::port_queue::PortQueue;
use crate::tally::StatsReader;

/// Packets a system call.
const BURST: usize = 64;
/// struct tpacket_auxdata with its header.
// SAFETY: arithmetic only.
const CONTROL: usize =
    unsafe { libc::CMSG_SPACE(size_of::<libc::tpacket_auxdata>() as u32) } as usize;
/// Octets of both Ethernet addresses, and of a VLAN tag behind them (IEEE 802.1Q).
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// Room for one control message, aligned as its header wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// One queue.
#[derive(Debug)]
pub struct Queue {
    fd: OwnedFd,
    frames: Copying,
    /// Packets to be received into.
    empty: Vec<Packet>,
}

impl Queue {
    /// Opens queues on an interface; each gets the flows that Linux's hash gives it.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        interface: &str,
        queues: u16,
        region: &Arc<Region>,
    ) -> Result<Vec<Self>, OpenError> {
        static GROUPS: AtomicU64 = AtomicU64::new(0);
        let number = GROUPS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let group = (u64::from(std::process::id()) << 4 ^ number) as u16;
        let fanout = (queues > 1).then_some(group);
        (0..queues.max(1))
            .map(|_| {
                Ok(Self {
                    fd: socket::open(interface, fanout)?,
                    frames: Copying::new(region.clone(), BURST),
                    empty: Vec::with_capacity(BURST),
                })
            })
            .collect()
    }

    /// Sends up to a burst; returns how many, or why not the first.
    fn send(&self, packets: &[Packet]) -> Result<usize, i32> {
        let count = packets.len().min(BURST);
        let mut buffers = [EMPTY_BUFFER; BURST];
        let mut messages = [EMPTY_MESSAGE; BURST];
        for (index, packet) in packets[..count].iter().enumerate() {
            let octets = self.frames.region.octets(packet);
            buffers[index] = libc::iovec {
                iov_base: octets.as_ptr().cast_mut().cast(),
                iov_len: octets.len(),
            };
            messages[index].msg_hdr.msg_iov = &raw mut buffers[index];
            messages[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: `count` headers, each with the octets of a packet that is borrowed through the
        // call and only read.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        match sent {
            0.. => Ok(sent as usize),
            _ => Err(io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)),
        }
    }
}

impl PortQueue for Queue {
    /// At most 64 packets a call.
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        while let Some(packet) = self.frames.room() {
            self.empty.push(packet);
        }
        let wanted = self.empty.len().min(max).min(BURST);
        let mut controls = [MaybeUninit::<Control>::uninit(); BURST];
        let mut buffers = [EMPTY_BUFFER; BURST];
        let mut messages = [EMPTY_MESSAGE; BURST];
        for (index, packet) in self.empty[..wanted].iter_mut().enumerate() {
            let octets = self.frames.region.octets_mut(packet);
            buffers[index] = libc::iovec {
                iov_base: octets.as_mut_ptr().cast(),
                iov_len: octets.len(),
            };
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = &raw mut buffers[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: `wanted` headers, each with a buffer inside a packet of `empty`, which nobody
        // else can touch meanwhile, and with a control buffer of the length said.
        let received = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                wanted as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        // an error is that nothing waits, or that the interface is down, which its carrier shows
        let received = received.max(0) as usize;
        let before = out.len();
        for (mut packet, message) in self.empty.drain(..received).zip(&messages) {
            let length = message.msg_len as usize;
            let cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let tag = vlan_tag(&message.msg_hdr);
            if !cut && put(&self.frames.region, &mut packet, length, tag) {
                out.push(packet);
                continue;
            }
            let reason = match length {
                0 => Reason::RxMalformed,
                _ => Reason::RxTooLong,
            };
            self.frames.tally.lost(reason, 1);
            self.frames.unused(packet);
        }
        out.len() - before
    }

    fn waiting(&mut self, enough: usize) -> usize {
        readable(&self.fd).min(enough)
    }

    fn refill(&mut self, pool: &mut Pool) {
        self.frames.refill(pool, self.empty.len());
    }

    /// What Linux refuses for good, because the interface is down
    /// or its MTU too small, is lost.
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let (mut done, mut refused) = (0, 0);
        while done < packets.len() {
            match self.send(&packets[done..]) {
                Ok(0) => break,
                Ok(sent) => done += sent,
                Err(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => break,
                // refused for good, and counted
                Err(_) => {
                    refused += 1;
                    done += 1;
                }
            }
        }
        self.frames.sent(packets, done, refused);
        done
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        self.frames.reclaim(pool);
    }

    fn in_flight(&self) -> u32 {
        self.frames.in_flight()
    }

    fn frames(&self) -> u32 {
        self.frames.frames() + self.empty.len() as u32
    }

    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn close(mut self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        self.empty
            .drain(..)
            .for_each(|packet| self.frames.unused(packet));
        self.frames.close(frames);
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(StatsReader::new(Reader {
            fd: self.fd.try_clone()?,
            tally: self.frames.tally.clone(),
        }))
    }
}

const EMPTY_BUFFER: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};
// SAFETY: null pointers and zero lengths are valid.
const EMPTY_MESSAGE: libc::mmsghdr = unsafe { std::mem::zeroed() };

/// The VLAN tag that Linux has taken out of a packet, as it was on the wire.
fn vlan_tag(header: &libc::msghdr) -> Option<[u8; TAG]> {
    // SAFETY: a header that recvmmsg filled in; its control buffer still lives.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: not null, and within the control buffer by the CMSG macros.
        let head = unsafe { &*control };
        if (head.cmsg_level, head.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            // SAFETY: a message of this type holds a tpacket_auxdata; any integers are valid.
            let data: libc::tpacket_auxdata = unsafe {
                libc::CMSG_DATA(control)
                    .cast::<libc::tpacket_auxdata>()
                    .read_unaligned()
            };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let protocol = if known { data.tp_vlan_tpid } else { 0x8100 };
            let ([a, b], [c, d]) = (protocol.to_be_bytes(), data.tp_vlan_tci.to_be_bytes());
            return Some([a, b, c, d]);
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    None
}

/// Makes a packet of `length` octets of what was received, with its tag; false if that is nothing,
/// or more than fits.
fn put(region: &Region, packet: &mut Packet, length: usize, tag: Option<[u8; TAG]>) -> bool {
    let whole = length + tag.map_or(0, |tag| tag.len());
    if length == 0 || whole > packet.length() {
        return false;
    }
    packet.truncate(whole);
    if let Some(tag) = tag.filter(|_| length >= ADDRESSES) {
        let octets = region.octets_mut(packet);
        octets.copy_within(ADDRESSES..length, ADDRESSES + TAG);
        octets[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
    }
    true
}
