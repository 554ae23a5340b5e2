//! `--port`: a port of the tester in one word.

use std::str::FromStr;

use super::port::{KindName, PortSection};

const KINDS: [(&str, KindName); 4] = [
    ("xdp", KindName::Xdp),
    ("af_xdp", KindName::AfXdp),
    ("af_packet", KindName::AfPacket),
    ("memif", KindName::Memif),
];

impl FromStr for PortSection {
    type Err = String;

    /// `NAME=[KIND:]INTERFACE[,netns=N][,address=A/LEN][,gateway=B][,address6=…][,gateway6=…]
    /// [,speed=…][,cpu=N]`, or `NAME=memif:SOCKET[,role=server]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let head = parts.next().unwrap_or_default();
        let (name, place) = head.split_once('=').ok_or_else(|| {
            format!("`{text}`: a port is NAME=INTERFACE or NAME=KIND:INTERFACE and options")
        })?;
        let (kind, place) = match place.split_once(':') {
            None => (None, place),
            Some((kind, place)) => {
                let found = KINDS.iter().find(|(name, _)| *name == kind);
                let unknown =
                    || format!("`{kind}` is none of the kinds xdp, af_xdp, af_packet, memif");
                (Some(found.ok_or_else(unknown)?.1), place)
            }
        };
        let mut port = Self {
            name: name.into(),
            kind,
            ..Self::default()
        };
        match kind {
            Some(KindName::Memif) => port.socket = Some(place.into()),
            _ => port.interface = Some(place.into()),
        }
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` of port {name}: options are KEY=VALUE"))?;
            port.set(key, value)
                .map_err(|what| format!("port {name}: {what}"))?;
        }
        Ok(port)
    }
}

impl PortSection {
    /// One option of `--port`.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = |what: &str| format!("{key}: `{value}` is not {what}");
        match key {
            "netns" => self.netns = Some(value.into()),
            "address" => self.address = Some(value.into()),
            "address6" => self.address6 = Some(value.into()),
            "gateway" => {
                self.gateway = Some(value.parse().map_err(|_| bad("an IPv4 address"))?);
            }
            "gateway6" => {
                self.gateway6 = Some(value.parse().map_err(|_| bad("an IPv6 address"))?);
            }
            "speed" => self.speed = Some(value.parse()?),
            "cpu" => self.cpu = Some(value.parse().map_err(|_| bad("a CPU number"))?),
            "role" => {
                self.server = match value {
                    "server" => true,
                    "client" => false,
                    _ => return Err(bad("client or server")),
                }
            }
            _ => {
                return Err(format!(
                    "unknown option `{key}`; there are netns, address, gateway, address6, \
                     gateway6, speed, cpu, and role for memif"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Kind;

    #[test]
    fn typed_ports() {
        let port: PortSection =
            "a=af_packet:e0,netns=h,address=10.1.0.2/24,gateway=10.1.0.1,speed=10 Gbit/s,cpu=1"
                .parse()
                .unwrap();
        let spec = port.spec().unwrap();
        assert_eq!(spec.kind, Kind::AfPacket("e0".into()));
        let v4 = spec.v4.unwrap();
        assert_eq!(v4.prefix_length, 24);
        assert_eq!(v4.gateway, Some([10, 1, 0, 1].into()));
        assert_eq!((spec.speed, spec.cpu), (Some(1e10), Some(1)));

        let port: PortSection = "m=memif:/run/a.sock,role=server".parse().unwrap();
        let socket = "/run/a.sock".into();
        let server = true;
        assert_eq!(port.spec().unwrap().kind, Kind::Memif { socket, server });
    }

    #[test]
    fn wrong_ports_say_why() {
        for (text, what) in [
            ("e0", "NAME=INTERFACE"),
            ("a=dpdk:e0", "none of the kinds"),
            ("a=xdp:e0,mtu=9000", "unknown option `mtu`"),
            ("a=xdp:e0,cpu=x", "not a CPU number"),
            ("a=xdp:e0,gateway=10.1.0.1", "a gateway without `address`"),
            ("a=xdp:e0,address=10.1.0.2", "10.1.0.2/24"),
            ("a=xdp:e0,address6=10.1.0.2/24", "not an IPv6 address"),
            ("a=xdp:e0,speed=1k packets/s", "in bit/s"),
            ("a=no-such-if0", "there is no interface"),
        ] {
            let error = match text.parse::<PortSection>() {
                Ok(port) => port.spec().unwrap_err().to_string(),
                Err(error) => error,
            };
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
