//! `bora trace --packet`: puts a packet in at a port, as if it had come by the wire.

use std::net::{IpAddr, SocketAddr};

use bora_capture::Filter;
use bora_wire::checksum::fill_transport_v6;
use bora_wire::{MacAddr, Protocol, udp};
use bora_xdp::AttachMode;
use rustix::time::{ClockId, clock_gettime};

use crate::captures::{View, Wanted};
use crate::data_plane::DataPlane;
use crate::hex;
use crate::ports::Way;
use crate::router::Router;

/// Octets of a frame: as Ethernet has them without its checksum, up to what fits into a page with what Linux adds.
const SHORTEST: usize = 14;
const LONGEST: usize = 3000;
/// Octets of a packet that is given by its addresses: the shortest of IPv6, with room for what tells it from
/// others.
const USUAL: usize = 78;
/// The source of its frame: a locally administered address that nobody has.
const SOURCE: MacAddr = MacAddr([2, 0, 0x5e, 0, 0x53, 1]);
/// Its ports, where none are given; 9 throws away what it gets (RFC 863).
const PORTS: (u16, u16) = (4000, 9);

impl Router {
    /// Puts a packet in at the port that is wanted, and shows only that one.
    ///
    /// # Errors
    /// What is wrong with the text or the port, or why it cannot be put in or watched.
    pub(crate) fn trace_packet(&mut self, mut wanted: Wanted, text: &str) -> Result<View, String> {
        let port = wanted
            .port
            .clone()
            .ok_or("say by which port the packet comes in")?;
        let (ifindex, frame) = frame(&self.plane, &port, text)?;
        wanted.filter = Filter::exactly(&frame);
        wanted.one_in = 1;
        let view = self.watches.start(&mut self.plane, wanted)?;
        if let Err(why) = self.plane.express().program.inject(ifindex, &frame) {
            self.watches.end(&mut self.plane, view.number);
            return Err(format!("Linux does not put packets in at {port}: {why}"));
        }
        Ok(view)
    }
}

/// The interface of the port of this name, and a frame for it: from octets in hexadecimal, or from `[udp] SOURCE[:PORT] DESTINATION[:PORT]`.
///
/// # Errors
/// What is wrong with the text, or with the port.
fn frame(plane: &DataPlane, port: &str, text: &str) -> Result<(u32, Vec<u8>), String> {
    let found = plane.ports().iter().find(|found| found.name == port);
    let found = found.ok_or_else(|| format!("{port} is no port: see `bora show ports`"))?;
    let in_driver = matches!(&found.way, Way::Xdp(at) if at.mode() == AttachMode::Driver);
    if !in_driver {
        return Err(format!(
            "no packet can be put in at {port}: the XDP program is not in its driver"
        ));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let frame = match words[..] {
        [source, destination] | ["udp", source, destination] if hex::octets(source).is_none() => {
            datagram(
                MacAddr(found.settings.mac),
                end(source, PORTS.0)?,
                end(destination, PORTS.1)?,
            )?
        }
        _ => octets(&words.concat())?,
    };
    if (SHORTEST..=LONGEST).contains(&frame.len()) {
        return Ok((found.ifindex, frame));
    }
    let length = frame.len();
    Err(format!(
        "the packet has {length} octets; {SHORTEST} to {LONGEST} are possible, with the Ethernet header"
    ))
}

fn octets(text: &str) -> Result<Vec<u8>, String> {
    let text = text.replace(':', "");
    hex::octets(&text).ok_or_else(|| {
        format!("`{text}` is neither `udp SOURCE[:PORT] DESTINATION[:PORT]` nor a frame's octets in hexadecimal")
    })
}

/// An address, with or without a port.
fn end(text: &str, port: u16) -> Result<SocketAddr, String> {
    let address = text
        .parse::<IpAddr>()
        .map(|address| SocketAddr::new(address, port));
    let address = address.or_else(|_| text.parse()); // what is no address may have a port
    address.map_err(|error| format!("`{text}` is neither an address nor ADDRESS:PORT: {error}"))
}

/// A UDP packet that no other is equal to.
fn datagram(port: MacAddr, from: SocketAddr, to: SocketAddr) -> Result<Vec<u8>, String> {
    let mut frame = vec![0; USUAL];
    let now = clock_gettime(ClockId::Monotonic);
    frame[USUAL - 12..USUAL - 8].copy_from_slice(&(now.tv_sec as u32).to_ne_bytes());
    frame[USUAL - 8..].copy_from_slice(&now.tv_nsec.to_ne_bytes());
    let headers = udp::Frame {
        dst_mac: port,
        src_mac: SOURCE,
        src_port: from.port(),
        dst_port: to.port(),
        ..udp::Frame::new(from.ip(), to.ip())
    };
    let wrong = |error| format!("{from} to {to}: {error}");
    headers.emit(&mut frame).map_err(wrong)?;
    if let (IpAddr::V6(source), IpAddr::V6(destination)) = (from.ip(), to.ip()) {
        // IPv6 has no packets without it (RFC 8200, 8.1)
        fill_transport_v6(source, destination, Protocol::UDP, &mut frame[54..]).map_err(wrong)?;
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_packets() {
        let port = MacAddr([2, 0, 0, 0, 0, 1]);
        let both = |from, to| Ok::<_, String>((end(from, PORTS.0)?, end(to, PORTS.1)?));
        let (from, to) = both("192.0.2.1", "198.51.100.2:53").unwrap();
        let frame = datagram(port, from, to).unwrap();
        assert_eq!(frame[..6], port.0);
        assert_eq!(frame[34..38], [0x0f, 0xa0, 0, 53]);
        let (from, to) = both("2001:db8::1", "[2001:db8::2]:53").unwrap();
        let frame = datagram(port, from, to).unwrap();
        assert_ne!(frame[60..62], [0, 0], "a checksum");
        assert!(datagram(port, from, "192.0.2.1:1".parse().unwrap()).is_err());
        assert!(both("192.0.2.1:", "192.0.2.2").is_err());
        assert_eq!(octets("0200:00ff"), Ok(vec![2, 0, 0, 255]));
        for wrong in ["020", "02zz", "tcp", "é0"] {
            assert!(octets(wrong).is_err(), "{wrong}");
        }
    }
}
