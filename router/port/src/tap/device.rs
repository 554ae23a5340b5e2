//! Making a TAP interface and setting what only its owner can set.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use bora_linux::advice;
use bora_linux::interface::{check_name, index_of};

/// `_IOW('T', 203, int)` and `_IOW('T', 226, int)`, include/uapi/linux/if_tun.h.
const TUNSETPERSIST: u32 = 0x4004_54cb;
const TUNSETCARRIER: u32 = 0x4004_54e2;

/// Why there is no TAP interface.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// Linux would not take the name.
    #[error("{0}")]
    Name(String),
    /// No `/dev/net/tun`.
    #[error("cannot open /dev/net/tun: {0}{hint}", hint = advice(.0, "load the module with `modprobe tun`"))]
    Driver(io::Error),
    /// Another process has it.
    #[error("TAP interface {0} belongs to another process")]
    Busy(String),
    /// It exists, as something else.
    #[error(
        "interface {0} exists and is no TAP interface, or one with another number of queues: choose \
         another name or remove it with `ip link del {0}`"
    )]
    Kind(String),
    /// The kernel refused.
    #[error("TAP interface {name}: {what}: {source}")]
    System {
        /// The interface.
        name: String,
        /// What was to be done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A TAP interface of this process.
#[derive(Debug)]
pub struct Device {
    name: String,
    created: bool,
    queues: Vec<OwnedFd>,
}

impl Device {
    /// Makes the interface `name`, or takes over a persistent one, with one or more queues.
    ///
    /// # Errors
    /// See [`TapError`].
    pub fn open(name: &str, queues: u16) -> Result<Self, TapError> {
        check_name(name).map_err(TapError::Name)?;
        let there = index_of(name).map_err(|source| TapError::System {
            name: name.into(),
            what: "look whether it is there",
            source,
        })?;
        let created = there.is_none();
        let attached = (0..queues.max(1)).map(|_| attach(name, queues > 1));
        Ok(Self {
            name: name.into(),
            created,
            queues: attached.collect::<Result<_, _>>()?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was not there before.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The descriptors of its queues.
    pub fn queues(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(std::os::fd::AsFd::as_fd)
    }

    /// Whether the interface stays, without a carrier, when this process ends.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn set_persistent(&self, persistent: bool) -> Result<(), TapError> {
        let value = c_int::from(persistent);
        // SAFETY: TUNSETPERSIST takes its argument by value.
        let result = unsafe { libc::ioctl(self.raw(), TUNSETPERSIST as _, value) };
        self.check(result, "keep the interface")
    }

    /// Whether Linux sees a carrier.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn set_carrier(&self, carrier: bool) -> Result<(), TapError> {
        let value = c_int::from(carrier);
        // SAFETY: TUNSETCARRIER reads one int, which `value` is.
        let result = unsafe { libc::ioctl(self.raw(), TUNSETCARRIER as _, &raw const value) };
        self.check(result, "set the carrier")
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// What the kernel said, for instance that it is a multicast address.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), TapError> {
        let mut request = request(&self.name);
        let mut address = libc::sockaddr {
            sa_family: libc::ARPHRD_ETHER,
            sa_data: [0; 14],
        };
        for (target, octet) in address.sa_data.iter_mut().zip(mac) {
            *target = octet as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = address;
        // SAFETY: a TAP descriptor takes SIOCSIFHWADDR with a whole ifreq, which `request` is.
        let result =
            unsafe { libc::ioctl(self.raw(), libc::SIOCSIFHWADDR as _, &raw const request) };
        self.check(result, "set the Ethernet address")
    }

    fn raw(&self) -> c_int {
        self.queues[0].as_raw_fd()
    }

    fn check(&self, result: c_int, what: &'static str) -> Result<(), TapError> {
        if result == 0 {
            return Ok(());
        }
        Err(TapError::System {
            name: self.name.clone(),
            what,
            source: io::Error::last_os_error(),
        })
    }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: plain octets, for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (target, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *target = octet as libc::c_char;
    }
    request
}

/// One queue of the interface, which is made if it is not there.
fn attach(name: &str, several: bool) -> Result<OwnedFd, TapError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let driver = |error: Errno| TapError::Driver(error.into());
    let fd = open("/dev/net/tun", flags, Mode::empty()).map_err(driver)?;
    let mut request = request(name);
    let several = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | several) as i16;
    // SAFETY: TUNSETIFF takes a whole ifreq, which `request` is.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if result == 0 {
        return Ok(fd);
    }
    let source = io::Error::last_os_error();
    Err(match source.raw_os_error() {
        Some(libc::EBUSY) => TapError::Busy(name.into()),
        Some(libc::EINVAL) => TapError::Kind(name.into()),
        _ => TapError::System {
            name: name.into(),
            what: "make it",
            source,
        },
    })
}
