//! Offloads of an interface ("features" of ethtool), read and changed by ioctl in the namespace of
//! the calling thread: those that take VLAN tags out of received frames, where XDP cannot see them,
//! and the one that hashes flows in Bora's and Linux's place.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// Offloads that hide the tags of IEEE 802.1Q and 802.1ad.
pub const TAGS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];
/// The offload that gives Linux the card's hash of a packet's flow.
pub const HASH: &str = "rx-hashing";

// include/uapi/linux/ethtool.h, include/uapi/linux/sockios.h
const ETH_SS_FEATURES: u32 = 4;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_GSTRING_LEN: usize = 32;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Words of 32 features each that there is room for; Linux 7 has two.
const WORDS: usize = 8;

/// Which of these are on.
///
/// # Errors
/// No such interface; what ioctl(2) says. A driver without ethtool has no such offloads.
pub fn active(interface: &str, which: &[&'static str]) -> io::Result<Vec<&'static str>> {
    let device = Device::open(interface)?;
    let names = device.feature_names()?;
    let words = device.features()?;
    let is_on = |name: &&&str| {
        let bit = number(names, name);
        bit.is_some_and(|bit| words[bit / 32].active & mask(bit) != 0)
    };
    Ok(which.iter().filter(is_on).copied().collect())
}

/// Turns these on or off. The driver may refuse without an error: look again.
///
/// # Errors
/// No such interface, no CAP_NET_ADMIN; what ioctl(2) says.
pub fn set(interface: &str, which: &[&str], on: bool) -> io::Result<()> {
    let device = Device::open(interface)?;
    let names = device.feature_names()?;
    let mut request = SetFeatures {
        command: ETHTOOL_SFEATURES,
        size: device.words()?,
        words: [SetWord::default(); WORDS],
    };
    for bit in which.iter().filter_map(|name| number(names, name)) {
        let word = &mut request.words[bit / 32];
        word.valid |= mask(bit);
        word.requested |= if on { mask(bit) } else { 0 };
    }
    device.call(&mut request)
}

/// The number of an offload in this kernel.
fn number(names: &[String], wanted: &str) -> Option<usize> {
    names.iter().position(|name| name == wanted)
}

/// The name of an interface; `None` if there is none of this number.
///
/// # Errors
/// No more file descriptors.
pub fn name_of(ifindex: u32) -> io::Result<Option<String>> {
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    match netdevice::index_to_name(fd, ifindex) {
        Err(Errno::NODEV) => Ok(None),
        name => Ok(name.map(Some)?),
    }
}

fn mask(bit: usize) -> u32 {
    1 << (bit % 32)
}

/// struct ethtool_get_features_block
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Word {
    available: u32,
    requested: u32,
    active: u32,
    never_changed: u32,
}

/// struct ethtool_gfeatures
#[repr(C)]
struct GetFeatures {
    command: u32,
    size: u32,
    words: [Word; WORDS],
}

/// struct ethtool_set_features_block
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SetWord {
    valid: u32,
    requested: u32,
}

/// struct ethtool_sfeatures
#[repr(C)]
struct SetFeatures {
    command: u32,
    size: u32,
    words: [SetWord; WORDS],
}

/// struct ethtool_sset_info for one set
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    count: u32,
}

/// struct ethtool_gstrings
#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; ETH_GSTRING_LEN]; WORDS * 32],
}

/// Structs that begin with an ETHTOOL command and have all the room that it writes to.
///
/// # Safety
/// The command, as the functions of this file fill it in, writes no more than the struct.
unsafe trait Request {}
// SAFETY: the kernel writes at most `size` words, which is set to `WORDS`.
unsafe impl Request for GetFeatures {}
// SAFETY: the kernel only reads it.
unsafe impl Request for SetFeatures {}
// SAFETY: one bit of `mask` is set, so one count is written.
unsafe impl Request for SetInfo {}
// SAFETY: asked only after `SetInfo` said that the names fit.
unsafe impl Request for Strings {}

struct Device<'a> {
    fd: OwnedFd,
    name: &'a str,
}

impl<'a> Device<'a> {
    fn open(name: &'a str) -> io::Result<Self> {
        let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        Ok(Self { fd, name })
    }

    fn features(&self) -> io::Result<[Word; WORDS]> {
        Ok(self.get_features()?.words)
    }

    /// How many words this kernel has.
    fn words(&self) -> io::Result<u32> {
        Ok(self.get_features()?.size.min(WORDS as u32))
    }

    fn get_features(&self) -> io::Result<GetFeatures> {
        let mut request = GetFeatures {
            command: ETHTOOL_GFEATURES,
            size: WORDS as u32,
            words: [Word::default(); WORDS],
        };
        self.call(&mut request)?;
        Ok(request)
    }

    /// All offloads that this kernel knows, by number; asked once.
    fn feature_names(&self) -> io::Result<&'static [String]> {
        static NAMES: OnceLock<Vec<String>> = OnceLock::new();
        if let Some(names) = NAMES.get() {
            return Ok(names);
        }
        let names = self.ask_names()?;
        Ok(NAMES.get_or_init(|| names))
    }

    fn ask_names(&self) -> io::Result<Vec<String>> {
        let mut info = SetInfo {
            command: ETHTOOL_GSSET_INFO,
            reserved: 0,
            mask: 1 << ETH_SS_FEATURES,
            count: 0,
        };
        self.call(&mut info)?;
        let mut strings = Box::new(Strings {
            command: ETHTOOL_GSTRINGS,
            set: ETH_SS_FEATURES,
            count: info.count,
            names: [[0; ETH_GSTRING_LEN]; WORDS * 32],
        });
        if info.count as usize > strings.names.len() {
            return Err(io::Error::other("more offloads than Bora knows of"));
        }
        self.call(&mut *strings)?;
        let text = |name: &[u8; ETH_GSTRING_LEN]| {
            let end = name.iter().position(|&octet| octet == 0);
            String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]).into_owned()
        };
        Ok(strings.names[..info.count as usize]
            .iter()
            .map(text)
            .collect())
    }

    fn call<T: Request>(&self, data: &mut T) -> io::Result<()> {
        // SAFETY: plain octets, for which all zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if self.name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::NotFound.into());
        }
        for (target, octet) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *target = octet as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(data).cast();
        // SAFETY: SIOCETHTOOL takes a whole ifreq that points to the command's struct; both live
        // through the call, and the struct has the room that `Request` promises.
        let result: c_int =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        // SFEATURES answers above 0 where not all could be done
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::netns;

    #[test]
    fn a_veth_hides_tags_until_told_not_to() {
        netns::in_new(|| {
            let made = Command::new("ip")
                .args("link add v0 type veth peer name v1".split(' '))
                .status();
            assert!(made.unwrap().success());
            assert_eq!(active("v0", &TAGS).unwrap(), TAGS);
            set("v0", &TAGS[..1], false).unwrap();
            assert_eq!(active("v0", &TAGS).unwrap(), TAGS[1..]);
            assert_eq!(active("v1", &TAGS).unwrap(), TAGS);
            set("v0", &TAGS, false).unwrap();
            assert!(active("v0", &TAGS).unwrap().is_empty());
            set("v0", &TAGS, true).unwrap();
            assert_eq!(active("v0", &TAGS).unwrap(), TAGS);
        })
        .unwrap();
    }

    #[test]
    fn no_interface_no_offloads() {
        assert!(active("no-such-device", &TAGS).is_err());
        assert!(active("a-name-that-is-much-too-long", &TAGS).is_err());
        assert!(active("lo", &TAGS).unwrap().is_empty());
        assert_eq!(name_of(1).unwrap().as_deref(), Some("lo"));
        assert_eq!(name_of(i32::MAX as u32).unwrap(), None);
    }
}
