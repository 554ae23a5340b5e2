//! The kinds of ports that Linux does not know as interfaces: one module each, with its options, how
//! it is opened, and its control side. A new kind is a module and a line in the list below.

mod short;

use std::fmt;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::port::Options;
use bora_linux::interface::check_name;
pub use short::Short;

macro_rules! kinds {
    ($($module:ident as $variant:ident,)*) => {
        $(pub mod $module;)*

        /// A port of one of the kinds, as a file describes it.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[schemars(transform = describe)]
        #[allow(missing_docs)]
        pub enum AnyKind {
            $($variant($module::Options),)*
        }

        impl AnyKind {
            /// Their names, as `kind` says.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($module)),*];

            /// The name of its kind.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($module),)*
                }
            }

            /// Reads the short spelling of a kind; `None` if there is no such kind.
            pub fn from_short(kind: &str, text: &Short<'_>) -> Option<Result<Self, String>> {
                match kind {
                    $(stringify!($module) => {
                        Some(text.read($module::FIRST).map(Self::$variant))
                    })*
                    _ => None,
                }
            }

            /// Its options, whatever its kind.
            pub fn options(&self) -> &dyn Options {
                match self {
                    $(Self::$variant(options) => options,)*
                }
            }
        }
    };
}

kinds! {
    memif as Memif,
    tap as Tap,
    af_packet as AfPacket,
    pcap as Pcap,
    dpdk as Dpdk,
    null as Null,
}

/// Completes what schemars makes of a `kind` and its options: the tag has no comment, one kind is the
/// default, and the options are not alone in their section.
pub fn describe(schema: &mut Schema) {
    let kind = schema.pointer_mut("/properties/kind");
    if let Some(kind) = kind.and_then(|kind| kind.as_object_mut()) {
        kind.insert("description".into(), "The kind of port.".into());
        if kind["const"] == "interface" {
            schema.remove("required");
        }
        schema.remove("additionalProperties");
    }
    transform_subschemas(&mut describe, schema);
}

fn one() -> u16 {
    1
}

/// Checks the name of a port's interface, which must not be that of the port itself.
fn another_interface(interface: &str, port: &str) -> Result<(), (&'static str, String)> {
    check_name(interface).map_err(|what| ("interface", what))?;
    if interface == port {
        return Err((
            "name",
            "the port needs another name than its interface".into(),
        ));
    }
    Ok(())
}

/// Checks that a number is in its range.
fn in_range<T>(
    option: &'static str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), (&'static str, String)>
where
    T: PartialOrd + fmt::Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = (range.start(), range.end());
    let what = format!("{option} `{value}` is not a number from {low} to {high}");
    Err((option, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AnyKind, String> {
        let (kind, rest) = text.split_once(':').unwrap();
        let short = Short::parse(rest)?;
        let read = AnyKind::from_short(kind, &short).ok_or("no such kind")??;
        let name = read.options().default_name();
        read.options().check(&name).map_err(|(_, what)| what)?;
        Ok(read)
    }

    #[test]
    fn the_short_spelling_has_the_options_of_a_file() {
        let text = "memif:/run/m.sock,role=server,id=3,queue_pairs=2,ring=11,memory=64,secret=5";
        let AnyKind::Memif(memif) = read(text).unwrap() else {
            panic!("{text}");
        };
        let expected = memif::Options {
            socket: "/run/m.sock".into(),
            role: crate::memif::Role::Server,
            id: 3,
            queue_pairs: 2,
            ring: 11,
            secret: "5".into(),
            memory: 64,
        };
        assert_eq!(memif, expected);
        let AnyKind::Pcap(pcap) = read("pcap:/a.pcap,out=/b.pcap,repeat=yes").unwrap() else {
            panic!();
        };
        assert_eq!((pcap.repeat, pcap.out), (true, Some("/b.pcap".into())));
        let AnyKind::Dpdk(tap) =
            AnyKind::from_short("dpdk", &Short::parse("net_tap0;iface=a").unwrap())
                .unwrap()
                .unwrap()
        else {
            panic!();
        };
        assert_eq!(tap.device, "net_tap0,iface=a");
        let AnyKind::AfPacket(sockets) = read("af_packet:eth1,queue_pairs=2").unwrap() else {
            panic!();
        };
        assert_eq!((&*sockets.interface, sockets.queue_pairs), ("eth1", 2));
    }

    #[test]
    fn ports_have_names_and_show_what_is_behind_them() {
        for (text, name, behind) in [
            ("memif:@a", "memif0", "memif client at @a, id 0"),
            ("tap:vm0", "bora-vm0", "tap vm0"),
            ("af_packet:e0", "bora-e0", "packet sockets on e0"),
            ("pcap:/a", "pcap0", "capture file /a"),
        ] {
            let kind = read(text).unwrap();
            let options = kind.options();
            assert_eq!(
                (options.default_name(), options.to_string()),
                (name.into(), behind.into())
            );
            assert!(text.starts_with(kind.name()) && options.ring_slots() > 0);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("memif:", "unix socket"),
            ("memif:/s,role=master", "unknown variant `master`"),
            ("memif:/s,queue_pairs=0", "from 1 to 16"),
            ("memif:/s,ring=15", "from 4 to 14"),
            ("memif:/s,memory=0", "from 1 to 1048576"),
            ("memif:/s,memory=much", "much"),
            ("memif:/s,speed=10", "unknown field `speed`"),
            ("memif:/s,ring", "KEY=VALUE"),
            ("memif:/s,secret=123456789012345678901234", "23 octets"),
            ("tap:", "missing field `interface`"),
            ("tap:a b", "is not the name"),
            ("pcap:", "capture file"),
            ("pcap:a,repeat=3", "neither yes nor no"),
            ("dpdk:net_tap0,ring=3", "from 5 to 14"),
            ("dpdk:", "missing field `device`"),
            ("dkpd:0", "no such kind"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
