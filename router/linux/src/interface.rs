//! What Linux says of an interface, asked by ioctl in the namespace of the calling thread.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// An interface of Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number in its namespace.
    pub index: u32,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet, octets without Ethernet header.
    pub mtu: u32,
    /// Administratively up, and with a carrier.
    pub is_up: bool,
    /// The driver's name; empty if it does not tell.
    pub driver: String,
    /// Version of the firmware; empty if there is none.
    pub firmware: String,
    /// Where the device is, for instance a PCI address; empty for one that exists only in memory.
    pub bus: String,
    /// Nominal speed, bits a second, if the driver tells.
    pub speed: Option<u64>,
    /// Receive queues in use; 1 if the driver does not tell.
    pub queues: u32,
}

impl Interface {
    /// The interface of this name; `None` if there is none.
    ///
    /// # Errors
    /// No more file descriptors, or what else ioctl(2) says.
    pub fn named(name: &str) -> io::Result<Option<Self>> {
        let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        if_there(
            Request {
                fd: fd.as_fd(),
                name,
            }
            .interface(),
        )
    }
}

/// The number of the calling thread's network namespace, which no other one has or had since the machine started; inodes of
/// namespaces are used again.
///
/// # Errors
/// Linux is older than 5.14.
pub fn netns_cookie() -> io::Result<u64> {
    const SO_NETNS_COOKIE: c_int = 71; // include/uapi/asm-generic/socket.h
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let (mut cookie, mut length) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: pointer and length describe `cookie`, which the kernel fills.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that Linux accepts a name for an interface.
///
/// # Errors
/// It is not, and what would be.
pub fn check_name(name: &str) -> Result<(), String> {
    let proper = |c: char| c.is_ascii_graphic() && !"/:%,".contains(c);
    if (1..=15).contains(&name.len()) && name.chars().all(proper) && !name.starts_with('.') {
        return Ok(());
    }
    Err(format!(
        "`{name}` is not the name of an interface: 1 to 15 characters, no space, slash or colon"
    ))
}

/// Tells whether an interface is up and has a carrier, in the network namespace where this was made.
#[derive(Debug)]
pub struct Carrier {
    fd: OwnedFd,
    name: String,
    /// Whether it was up when it could last be asked.
    was_up: AtomicBool,
}

impl Carrier {
    /// The carrier of an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new(name: &str) -> io::Result<Self> {
        Ok(Self {
            fd: socket(AddressFamily::INET, SocketType::DGRAM, None)?,
            name: name.into(),
            was_up: AtomicBool::new(false),
        })
    }

    /// Whether the interface is up and has a carrier now; where that cannot be told, what was said last. One
    /// that is gone is not up.
    pub fn is_up(&self) -> bool {
        let (fd, name) = (self.fd.as_fd(), &*self.name);
        match if_there(Request { fd, name }.is_up()) {
            Ok(is_up) => self.was_up.store(is_up == Some(true), Relaxed),
            Err(error) => log::warn!("{name}: cannot see whether it has a carrier: {error}"),
        }
        self.was_up.load(Relaxed)
    }
}

/// Receive queues that an interface of the calling thread's namespace has in use; `None` if its
/// driver does not tell.
pub fn receive_queues(name: &str) -> Option<u32> {
    match socket(AddressFamily::INET, SocketType::DGRAM, None) {
        Ok(fd) => Request {
            fd: fd.as_fd(),
            name,
        }
        .queues(),
        Err(error) => {
            log::warn!("{name}: cannot ask for its receive queues: {error}");
            None
        }
    }
}

/// The Ethernet address of an interface; `None` if there is no such interface.
///
/// # Errors
/// No more file descriptors, or what else ioctl(2) says.
pub fn mac_of(interface: &str) -> io::Result<Option<[u8; 6]>> {
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let (fd, name) = (fd.as_fd(), interface);
    if_there(Request { fd, name }.mac())
}

/// The index of an interface; `None` if there is no such interface.
pub fn index_of(interface: &str) -> io::Result<Option<u32>> {
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    if_there(netdevice::name_to_index(fd, interface).map_err(Into::into))
}

/// What an interface said; `None` if there is none of this name.
fn if_there<T>(said: io::Result<T>) -> io::Result<Option<T>> {
    match said {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        said => said.map(Some),
    }
}

/// How often an interface's carrier has come or gone; `None` if /sys does not show this namespace.
pub fn carrier_changes(name: &str) -> Option<u64> {
    number_in(&format!("/sys/class/net/{name}/carrier_changes"))
}

/// Packets that an interface has received since it is there, by its driver; `None` as above.
pub fn received(name: &str) -> Option<u64> {
    number_in(&format!("/sys/class/net/{name}/statistics/rx_packets"))
}

fn number_in(path: &str) -> Option<u64> {
    let read = std::fs::read_to_string(path);
    match read.and_then(|text| text.trim().parse().map_err(io::Error::other)) {
        Ok(number) => Some(number),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            log::warn!("cannot read {path}: {error}");
            None
        }
    }
}

/// Makes an interface take all frames, to whatever address; undone when dropped.
#[derive(Debug)]
pub struct Promiscuous {
    _fd: OwnedFd,
}

impl Promiscuous {
    /// Makes the interface with this number do so, in the calling thread's namespace.
    ///
    /// # Errors
    /// No CAP_NET_RAW, or no such interface.
    pub fn new(index: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers. Protocol 0 receives nothing.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh, and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let request = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as _,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: a whole packet_mreq that lives through the call, and its length.
        let result = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                size_of::<libc::packet_mreq>() as libc::socklen_t,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { _fd: fd })
    }
}

/// struct ethtool_drvinfo
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rest: [u8; 64],
}

struct Request<'a> {
    fd: BorrowedFd<'a>,
    name: &'a str,
}

impl Request<'_> {
    /// All that there is to know.
    fn interface(&self) -> io::Result<Interface> {
        let driver = self.driver();
        let text = |field: fn(&DriverInfo) -> &[u8; 32]| {
            let octets = driver.as_ref().map(|info| field(info).as_slice());
            let octets = octets.unwrap_or_default().split(|&octet| octet == 0);
            String::from_utf8_lossy(octets.clone().next().unwrap_or_default()).into_owned()
        };
        Ok(Interface {
            index: netdevice::name_to_index(self.fd, self.name)?,
            mac: self.mac()?,
            mtu: self.mtu()?,
            is_up: self.is_up()?,
            driver: text(|info| &info.driver),
            firmware: text(|info| &info.firmware),
            bus: text(|info| &info.bus),
            speed: self.speed(),
            queues: self.queues().unwrap_or(1).max(1),
        })
    }

    fn mac(&self) -> io::Result<[u8; 6]> {
        let mut request = self.named();
        // SAFETY: SIOCGIFHWADDR takes a whole ifreq and writes this member.
        let octets = unsafe {
            self.call(libc::SIOCGIFHWADDR, &mut request)?;
            request.ifr_ifru.ifru_hwaddr.sa_data
        };
        Ok(std::array::from_fn(|index| octets[index] as u8))
    }

    fn mtu(&self) -> io::Result<u32> {
        let mut request = self.named();
        // SAFETY: SIOCGIFMTU takes a whole ifreq and writes this member.
        let mtu = unsafe {
            self.call(libc::SIOCGIFMTU, &mut request)?;
            request.ifr_ifru.ifru_mtu
        };
        mtu.try_into().map_err(io::Error::other)
    }

    fn is_up(&self) -> io::Result<bool> {
        let wanted = libc::IFF_UP | libc::IFF_RUNNING;
        let mut request = self.named();
        // SAFETY: SIOCGIFFLAGS takes a whole ifreq and writes this member.
        let flags = unsafe {
            self.call(libc::SIOCGIFFLAGS, &mut request)?;
            request.ifr_ifru.ifru_flags
        };
        Ok(c_int::from(flags) & wanted == wanted)
    }

    fn driver(&self) -> Option<DriverInfo> {
        let mut info = DriverInfo {
            command: 0x3, // ETHTOOL_GDRVINFO
            driver: [0; 32],
            version: [0; 32],
            firmware: [0; 32],
            bus: [0; 32],
            rest: [0; 64],
        };
        self.ethtool(&mut info).then_some(info)
    }

    fn speed(&self) -> Option<u64> {
        // struct ethtool_cmd: the speed in Mbit/s, lower half in word 3, upper half in word 7;
        // ETHTOOL_GSET
        let mut command = [0u32; 11];
        command[0] = 0x1;
        if !self.ethtool(&mut command) {
            return None;
        }
        let half = |word: u32| {
            let [a, b, ..] = word.to_ne_bytes();
            u64::from(u16::from_ne_bytes([a, b]))
        };
        match half(command[7]) << 16 | half(command[3]) {
            0 | 0xffff | 0xffff_ffff => None,
            megabits => Some(megabits * 1_000_000),
        }
    }

    fn queues(&self) -> Option<u32> {
        // struct ethtool_channels: received alone in word 5, combined in word 8; ETHTOOL_GCHANNELS
        let mut channels = [0u32; 9];
        channels[0] = 0x3c;
        let told = self.ethtool(&mut channels);
        told.then(|| channels[5] + channels[8])
            .filter(|&all| all > 0)
    }

    fn named(&self) -> libc::ifreq {
        // SAFETY: plain octets, for which all zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let last = request.ifr_name.len() - 1;
        for (target, octet) in request.ifr_name[..last].iter_mut().zip(self.name.bytes()) {
            *target = octet as libc::c_char;
        }
        request
    }

    /// Whether the driver tells. `data` is the struct that belongs to the ETHTOOL command in its first word.
    fn ethtool<T>(&self, data: &mut T) -> bool {
        let mut request = self.named();
        request.ifr_ifru.ifru_data = std::ptr::from_mut(data).cast();
        // SAFETY: SIOCETHTOOL takes a whole ifreq that points to the command's struct, which lives
        // through the call.
        match unsafe { self.call(0x8946, &mut request) } {
            Ok(()) => true,
            Err(error) => {
                // not only EOPNOTSUPP: drivers have words of their own for what they do not tell
                log::debug!("{}: the driver does not tell: {error}", self.name);
                false
            }
        }
    }

    /// # Safety
    /// `number` takes an ifreq, and what this one points to is what it takes there.
    unsafe fn call(&self, number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: promised by the caller.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), number as _, &raw mut *request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_the_first() {
        let loopback = Interface::named("lo").unwrap().unwrap();
        assert_eq!((loopback.index, loopback.mac), (1, [0; 6]));
        assert!(loopback.mtu >= 1500 && loopback.bus.is_empty());
        assert_eq!(loopback.speed, None);
        assert_eq!(Interface::named("no-such-device").unwrap(), None);
        assert_eq!(mac_of("no-such-device").unwrap(), None);
    }

    #[test]
    fn a_carrier_that_cannot_be_asked_for_stays_as_it_was() {
        let mut carrier = Carrier::new("no-such-device").unwrap();
        carrier.was_up.store(true, Relaxed);
        assert!(!carrier.is_up(), "it is gone");
        carrier.was_up.store(true, Relaxed);
        carrier.fd = std::fs::File::open("/dev/null").unwrap().into(); // takes no such ioctl
        assert!(carrier.is_up());
    }
}
