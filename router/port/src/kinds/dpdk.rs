//! `dpdk`: whatever DPDK drives. It takes a bora that is built with the feature `dpdk`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::in_range;
use crate::Queue;
use crate::port::{self, OpenError, Port, Setup};

/// The option that comes first in the short spelling.
pub(super) const FIRST: &str = "device";
/// Longest name of an interface.
const NAME: usize = 15;

/// A card or a virtual device that DPDK drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Dpdk")]
pub struct Options {
    /// A PCI address, `0000:03:00.0`, or a virtual device with its arguments, `net_tap0,iface=vm0`; a
    /// semicolon stands for a comma, too.
    #[serde(deserialize_with = "with_commas")]
    pub device: String,
    /// Queues in each direction, 1 to 16; fewer if the device has fewer.
    #[serde(default = "super::one")]
    pub queue_pairs: u16,
    /// Slots of each ring as a power of two, 5 to 14; the device may round it.
    #[serde(default = "ten")]
    pub ring: u8,
    /// Arguments of DPDK's environment (EAL), with spaces between, for all such ports of a Bora.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eal: Option<String>,
}

fn ten() -> u8 {
    10
}

/// The command line has commas between options, so it says a semicolon within one.
fn with_commas<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(String::deserialize(from)?.replace(';', ","))
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DPDK {}", self.device)
    }
}

impl port::Options for Options {
    /// The device's name, as far as an interface can have it.
    fn default_name(&self) -> String {
        let name = self.device.split(',').next().unwrap_or_default();
        name.replace(':', "-").chars().take(NAME).collect()
    }

    fn check(&self, _: &str) -> Result<(), (&'static str, String)> {
        if self.default_name().is_empty() {
            let what = "a DPDK port needs a device: a PCI address, or a virtual device such as net_tap0";
            return Err(("device", what.into()));
        }
        in_range("queue_pairs", self.queue_pairs, 1..=16)?;
        in_range("ring", self.ring, 5..=14)?;
        is_built_in().map_err(|what| ("kind", what.into()))
    }

    /// What a queue has to receive into is more than its ring.
    fn ring_slots(&self) -> u32 {
        u32::from(self.queue_pairs) * ((2 << self.ring) + 512)
    }

    /// What drivers are used to (RTE_MBUF_DEFAULT_DATAROOM). Some cut a packet in pieces that does not fit into
    /// whole KiB of a frame (e1000, igb, ixgbe), others do not start with less (net_af_packet).
    fn room(&self) -> u32 {
        2048
    }

    /// Packets of Linux's own interfaces come as af_packet has them.
    fn leaves_checksums(&self) -> bool {
        let of_linux = ["net_af_packet", "net_af_xdp", "net_pcap"];
        of_linux.iter().any(|name| self.device.starts_with(name))
    }

    #[cfg(feature = "dpdk")]
    fn mac(&self) -> Result<Option<[u8; 6]>, OpenError> {
        let mac = bora_dpdk::Device::mac_of_card(&self.device, self.eal.as_deref());
        Ok(mac?)
    }

    #[cfg(feature = "dpdk")]
    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
        let config = bora_dpdk::Config {
            device: &self.device,
            eal: self.eal.as_deref(),
            queues: self.queue_pairs,
            slots: 1 << self.ring,
            mtu: crate::dpdk::mtu_of(setup.name)?,
            mac: setup.mac,
        };
        crate::dpdk::open(&config, setup)
    }

    #[cfg(not(feature = "dpdk"))]
    fn open(&self, _: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
        is_built_in()?;
        unreachable!("the feature is off")
    }
}

/// Whether this program has DPDK; what to do if not.
fn is_built_in() -> Result<(), &'static str> {
    match cfg!(feature = "dpdk") {
        true => Ok(()),
        false => Err(
            "this bora is built without DPDK; build one with it: `make build-dpdk`, or `cargo build --release -p \
             bora --features dpdk`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Options as _;

    fn options(device: &str) -> Options {
        Options {
            device: device.into(),
            queue_pairs: 1,
            ring: 10,
            eal: None,
        }
    }

    #[test]
    fn devices_have_names_of_interfaces() {
        for (device, name, shown) in [
            ("0000:03:00.0", "0000-03-00.0", "DPDK 0000:03:00.0"),
            ("net_tap0,iface=a", "net_tap0", "DPDK net_tap0,iface=a"),
            ("net_af_packet_long0", "net_af_packet_l", "DPDK net_af_packet_long0"),
        ] {
            let options = options(device);
            assert_eq!(
                (options.default_name(), options.to_string()),
                (name.into(), shown.into())
            );
        }
        assert!(options("net_af_packet0,iface=e").leaves_checksums());
        assert!(!options("net_tap0").leaves_checksums());
    }

    #[test]
    fn a_program_without_dpdk_says_so() {
        let (key, what) = options("").check("d0").unwrap_err();
        assert!(key == "device" && what.contains("PCI address"), "{what}");
        let checked = options("net_null0").check("d0");
        match cfg!(feature = "dpdk") {
            true => checked.unwrap(),
            false => assert!(checked.unwrap_err().1.contains("built without DPDK")),
        }
    }
}
