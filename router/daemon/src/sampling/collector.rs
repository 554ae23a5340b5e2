//! The way to a collector: a socket that never waits.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Between two attempts to reach a collector that there is no way to.
const PAUSE: Duration = Duration::from_secs(1);

/// What became of the datagrams for a collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Collected {
    pub(crate) address: SocketAddr,
    /// Datagrams that were sent.
    pub(crate) sent: u64,
    /// Datagrams of these that the collector's machine has refused at least, because no program listens
    /// there.
    pub(crate) refused: u64,
    /// Datagrams that could not be sent.
    pub(crate) failed: u64,
    /// Why, the last time.
    pub(crate) error: Option<String>,
}

/// One collector.
pub(super) struct Collector {
    address: SocketAddr,
    socket: Option<UdpSocket>,
    /// When there was no way to it, and why.
    failed: Option<(Instant, String)>,
}

impl Collected {
    /// Before anything was sent.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            sent: 0,
            refused: 0,
            failed: 0,
            error: None,
        }
    }
}

impl Collector {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            socket: None,
            failed: None,
        }
    }

    /// Opens a socket, unless it has one or there was no way a moment ago.
    pub(super) fn open(&mut self) {
        let failed = self.failed.as_ref();
        if self.socket.is_some() || failed.is_some_and(|(failed, _)| failed.elapsed() < PAUSE) {
            return;
        }
        match self.connected() {
            Ok(socket) => (self.socket, self.failed) = (Some(socket), None),
            Err(error) => self.failed = Some((Instant::now(), error.to_string())),
        }
    }

    /// A socket that never waits, and learns whether the collector's machine refuses.
    fn connected(&self) -> io::Result<UdpSocket> {
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(self.address)?;
        Ok(socket)
    }

    /// The address that it sends from.
    pub(super) fn own_address(&self) -> Option<IpAddr> {
        match self.socket.as_ref()?.local_addr() {
            Ok(address) => Some(address.ip()),
            Err(error) => {
                log::debug!(
                    "the address that samples for {} come from: {error}",
                    self.address
                );
                None
            }
        }
    }

    /// Sends datagrams, and tells what became of them.
    pub(super) fn send(&mut self, datagrams: &[Vec<u8>], told: &mut Collected) {
        if let Some((_, why)) = &self.failed {
            told.error = Some(why.clone());
        }
        for datagram in datagrams {
            self.send_one(datagram, told);
        }
    }

    fn send_one(&mut self, datagram: &[u8], told: &mut Collected) {
        let Some(socket) = &self.socket else {
            told.failed += 1;
            return;
        };
        let mut sent = socket.send(datagram);
        if let Err(error) = &sent
            && error.kind() == ErrorKind::ConnectionRefused
        {
            // that was an earlier one; this one is not sent yet
            told.refused += 1;
            sent = socket.send(datagram);
        }
        match sent {
            Ok(_) => told.sent += 1,
            Err(error) => {
                told.failed += 1;
                told.error = Some(error.to_string());
                if error.kind() != ErrorKind::WouldBlock {
                    // perhaps an address of its own has gone
                    self.socket = None;
                    self.failed = Some((Instant::now(), error.to_string()));
                }
            }
        }
    }
}
