//! `--port`: a port of the tester in one word.

use std::str::FromStr;

use bora_port::kinds::Short;

use super::kind::PortKind;
use super::port::PortSection;

impl FromStr for PortSection {
    type Err = String;

    /// `NAME=[KIND:]FIRST[,OPTION=VALUE]…`: the options of every port, and those of the kind, of
    /// which the first comes without its name.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, place) = text.split_once('=').ok_or_else(|| {
            format!("`{text}`: a port is NAME=INTERFACE or NAME=KIND:INTERFACE and options")
        })?;
        read(name, place).map_err(|what| format!("port {name}: {what}"))
    }
}

fn read(name: &str, place: &str) -> Result<PortSection, String> {
    let (kind, rest) = match place.split_once(':') {
        // the colon of a kind comes before any comma
        Some((kind, rest)) if !kind.contains(',') => (Some(kind), rest),
        _ => (None, place),
    };
    let mut short = Short::parse(rest)?;
    Ok(PortSection {
        name: name.into(),
        netns: short.take("netns").map(Into::into),
        address: short.take("address").map(Into::into),
        address6: short.take("address6").map(Into::into),
        gateway: parsed(&mut short, "gateway", "an IPv4 address")?,
        gateway6: parsed(&mut short, "gateway6", "an IPv6 address")?,
        speed: short.take("speed").map(str::parse).transpose()?,
        cpu: parsed(&mut short, "cpu", "a CPU number")?,
        kind: PortKind::from_short(kind, &short)?,
    })
}

fn parsed<T: FromStr>(short: &mut Short<'_>, key: &str, what: &str) -> Result<Option<T>, String> {
    let Some(value) = short.take(key) else {
        return Ok(None);
    };
    match value.parse() {
        Ok(parsed) => Ok(Some(parsed)),
        Err(_) => Err(format!("{key}: `{value}` is not {what}")),
    }
}

#[cfg(test)]
mod tests {
    use bora_port::memif::Role;

    use super::*;
    use crate::ports::Kind;

    #[test]
    fn typed_ports() {
        let port: PortSection =
            "a=af_packet:e0,netns=h,address=10.1.0.2/24,gateway=10.1.0.1,speed=10 Gbit/s,cpu=1"
                .parse()
                .unwrap();
        let spec = port.spec().unwrap();
        assert_eq!(spec.kind, Kind::af_packet("e0".into()));
        let v4 = spec.v4.unwrap();
        assert_eq!(v4.prefix_length, 24);
        assert_eq!(v4.gateway, Some([10, 1, 0, 1].into()));
        assert_eq!((spec.speed, spec.cpu), (Some(1e10), Some(1)));

        let port: PortSection = "m=memif:/run/a.sock,role=server".parse().unwrap();
        let memif = Kind::memif("/run/a.sock".into(), Role::Server);
        assert_eq!(port.spec().unwrap().kind, memif);
        let section = "name = 'm'\nkind = 'memif'\nsocket = '/run/a.sock'\nrole = 'server'";
        assert_eq!(port, toml::from_str(section).unwrap());
    }

    #[test]
    fn wrong_ports_say_why() {
        for (text, what) in [
            ("e0", "NAME=INTERFACE"),
            ("a=ipx:e0", "none of the kinds"),
            ("a=xdp:e0,mtu=9000", "unknown field `mtu`"),
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
