//! IPv4 destinations to which Linux forwards otherwise than its routes say, because of ICMP errors: after a redirect (RFC 792), and where
//! the path's MTU is so small that Linux locks it.
//!
//! Linux keeps them beside its routes and sends no events. It walks through all routes to tell them, so a thread asks, when errors have
//! come. Their packets are left to Linux.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::attribute::{Malformed, attributes, header, u32_at};
use crate::error::KernelError;
use crate::socket::Netlink;
use crate::waker::Waker;

/// How often to look whether errors have come.
const EACH: Duration = Duration::from_secs(1);
/// For how many looks after an error to read again: Linux tells an exception only when a packet has used it.
const AGAIN: u32 = 10;
/// Reading may take 1/`SHARE` of the time.
const SHARE: u32 = 20;
/// `struct rtmsg`, and where its flags are.
const HEAD: usize = 12;
const FLAGS: usize = 8;
const RTM_F_CLONED: u32 = 0x200;
/// include/uapi/linux/in_route.h.
const RTCF_REDIRECTED: u32 = 0x0004_0000;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u32 = 2;

/// The mirror's side.
pub(crate) struct Exceptions {
    found: Receiver<BTreeSet<IpAddr>>,
    /// The thread ends with it.
    _alive: Sender<()>,
}

impl Exceptions {
    /// Starts the thread, in the network namespace of the caller.
    pub(crate) fn start(waker: Waker) -> Result<Self, KernelError> {
        let what = "what Linux has learned of routes";
        let socket = Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 20, what)?;
        let (outbox, found) = channel();
        let (_alive, ended) = channel();
        std::thread::Builder::new()
            .name("bora-learned".into())
            .spawn(move || {
                bora_confine::thread(bora_confine::NONE); // everybody may read routes
                run(socket, &ended, &outbox, &waker);
            })
            .map_err(|source| KernelError::Open { what, source })?;
        Ok(Self { found, _alive })
    }

    /// All of them, if they have changed.
    pub(crate) fn take(&mut self) -> Option<BTreeSet<IpAddr>> {
        self.found.try_iter().last()
    }
}

fn run(
    mut socket: Netlink,
    ended: &Receiver<()>,
    outbox: &Sender<BTreeSet<IpAddr>>,
    waker: &Waker,
) {
    let (mut known, mut errors, mut again) = (BTreeSet::new(), String::new(), 0);
    let mut pause = Duration::ZERO;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = EACH;
        let now = errors_so_far();
        if now != errors {
            (errors, again) = (now, AGAIN);
        }
        if again == 0 && known.is_empty() {
            continue;
        }
        again = again.saturating_sub(1);
        let begin = Instant::now();
        match read(&mut socket) {
            Ok(Some(found)) if found != known => {
                known.clone_from(&found);
                // an error is that the mirror is gone
                let Ok(()) = outbox.send(found) else {
                    return;
                };
                waker.wake();
            }
            Ok(_) => {}
            Err(error) => log::warn!("{error}; those that are known count, and Bora tries again"),
        }
        pause = EACH.max(begin.elapsed() * SHARE);
    }
}

/// The counts of ICMP messages by type, as text.
fn errors_so_far() -> String {
    match std::fs::read_to_string("/proc/thread-self/net/snmp") {
        Ok(text) => {
            let lines: Vec<&str> = text
                .lines()
                .filter(|it| it.starts_with("IcmpMsg:"))
                .collect();
            let types = lines.first().into_iter().flat_map(|line| line.split(' '));
            let counts = lines.last().into_iter().flat_map(|line| line.split(' '));
            let errors = types
                .zip(counts)
                .filter(|it| ["InType3", "InType5"].contains(&it.0));
            errors
                .map(|(kind, count)| format!("{kind} {count} "))
                .collect()
        }
        Err(error) => {
            log::warn!("/proc/net/snmp: {error}");
            String::new()
        }
    }
}

/// Reads them; `None` if changes interrupted it.
fn read(socket: &mut Netlink) -> Result<Option<BTreeSet<IpAddr>>, KernelError> {
    let mut head = [0; HEAD];
    head[0] = libc::AF_INET as u8;
    head[FLAGS..].copy_from_slice(&RTM_F_CLONED.to_ne_bytes());
    let mut found = BTreeSet::new();
    let whole = socket.dump_decoded(
        libc::RTM_GETROUTE,
        &head,
        &mut found,
        BTreeSet::clear,
        |found, frame| {
            found.extend(exception(frame.payload)?);
            Ok(())
        },
    )?;
    Ok(whole.then_some(found))
}

/// The destination of a learned route, if Linux obeys it when it forwards.
fn exception(route: &[u8]) -> Result<Option<IpAddr>, Malformed> {
    let head = header(route, HEAD, "learned route")?;
    let mut counts = u32_at(head, FLAGS) & RTCF_REDIRECTED != 0;
    let mut destination = None;
    for attribute in attributes(route, HEAD) {
        let attribute = attribute?;
        match attribute.kind {
            libc::RTA_DST => destination = Some(attribute.ip()?),
            libc::RTA_METRICS => {
                for metric in attribute.nested() {
                    let metric = metric?;
                    counts |= metric.kind == RTAX_LOCK && metric.u32()? & 1 << RTAX_MTU != 0;
                }
            }
            _ => {}
        }
    }
    Ok(destination.filter(|_| counts))
}
