//! The pinned attachment of the program to one interface.
//!
//! Attaching and detaching resets the rings of many drivers. So the link is pinned in bpffs: it
//! outlives Bora, and the next Bora swaps its own program in atomically.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};

use super::{XdpQuery, query};
use bora_linux::Refusal;

/// Where the kernel runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before a socket buffer exists.
    Driver,
    /// In the network stack ("generic", "skb"): works on every interface, slower.
    Generic,
}

/// Why the program could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Another XDP program sits there.
    #[error(
        "{interface} already has an XDP program (id {id}) that is not Bora's; take it off first: {remedy}"
    )]
    Foreign {
        /// Interface name.
        interface: String,
        /// Program id.
        id: u32,
        /// What takes it off.
        remedy: String,
    },
    /// No right to load or attach.
    #[error("no permission to attach XDP to {0}: run as root (needs CAP_NET_ADMIN and CAP_BPF)")]
    Permission(String),
    /// The kernel refused, in driver mode and in generic mode.
    #[error("cannot attach XDP to {interface}: {source}")]
    System {
        /// Interface name.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The pin could not be made.
    #[error("cannot pin the XDP link of {interface} at {path}: {source}")]
    Pin {
        /// Interface name.
        interface: String,
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The program on one interface, pinned.
#[derive(Debug)]
pub struct Attachment {
    link: OwnedFd,
    pin: PathBuf,
    mode: AttachMode,
    taken_over: bool,
    refusal: Option<Refusal>,
}

impl Attachment {
    /// Attaches `program` to an interface and pins the link at `pin`, or swaps the program of the
    /// link that an earlier Bora left there. `most`: the driver where it can, or generic at once.
    pub fn new(
        program: BorrowedFd<'_>,
        interface: &str,
        ifindex: u32,
        pin: &Path,
        most: AttachMode,
    ) -> Result<Self, AttachError> {
        let refused = |source: io::Error| match source.raw_os_error() {
            Some(libc::EPERM) => AttachError::Permission(interface.into()),
            _ => AttachError::System {
                interface: interface.into(),
                source,
            },
        };
        let in_driver = query(ifindex).map_err(refused)?.driver_program != 0;
        if let Some(mut old) = Self::open(pin, ifindex).map_err(refused)? {
            if in_driver && most == AttachMode::Generic {
                old.detach().map_err(refused)?;
            } else if old.take_over(program, interface).map_err(refused)? {
                if !in_driver {
                    old.mode = AttachMode::Generic;
                }
                return Ok(old);
            }
        }
        let found = query(ifindex).map_err(refused)?;
        let foreign = found.driver_program.max(found.generic_program);
        if foreign != 0 {
            return Err(AttachError::Foreign {
                interface: interface.into(),
                id: foreign,
                remedy: remedy(interface, ifindex, &found),
            });
        }
        let (link, mode, refusal) = attach(program, ifindex, &found, most).map_err(refused)?;
        pin_object(&link, pin).map_err(|source| AttachError::Pin {
            interface: interface.into(),
            path: pin.into(),
            source,
        })?;
        Ok(Self {
            link,
            pin: pin.into(),
            mode,
            taken_over: false,
            refusal,
        })
    }

    /// Swaps the program of a link that an earlier Bora left. If the kernel cannot swap it for this
    /// one, the link is detached and its pin removed, and the answer is false.
    fn take_over(&self, program: BorrowedFd<'_>, interface: &str) -> io::Result<bool> {
        match swap(&self.link, program) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                log::warn!("{interface}: the program left there cannot be replaced, detaching");
                std::fs::remove_file(&self.pin)?;
                // SAFETY: a valid link descriptor.
                check(unsafe { sys::bpf_link_detach(self.link.as_raw_fd()) })?;
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    /// Opens the link that a Bora left pinned; `None` if there is none or its interface is gone.
    ///
    /// # Errors
    /// The kernel does not open what is there, or a stale pin cannot be removed.
    pub fn open(pin: &Path, ifindex: u32) -> io::Result<Option<Self>> {
        Ok(open_pinned(pin, ifindex)?.map(|link| Self {
            link,
            pin: pin.into(),
            mode: AttachMode::Driver,
            taken_over: true,
            refusal: None,
        }))
    }

    /// Gives the program to a driver that has lost it. `other` is swapped in first, because Linux does not
    /// tell the driver of a program that the link already has.
    pub fn put_back(&self, program: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<()> {
        swap(&self.link, other)?;
        swap(&self.link, program)
    }

    /// Where the program runs.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Why it does not run in the driver, where it was tried.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Whether an earlier Bora's link was taken over.
    pub fn taken_over(&self) -> bool {
        self.taken_over
    }

    /// Takes the program off the interface and removes the pin.
    pub fn detach(self) -> io::Result<()> {
        std::fs::remove_file(&self.pin)?;
        // SAFETY: a valid link descriptor.
        check(unsafe { sys::bpf_link_detach(self.link.as_raw_fd()) })
    }
}

/// The command that takes another owner's program off. One that a BPF link holds cannot be taken off by `ip
/// link`.
fn remedy(interface: &str, ifindex: u32, found: &XdpQuery) -> String {
    let program = found.driver_program.max(found.generic_program);
    let mut links = LinkInfoIter::default();
    let link = links.find(|link| {
        let on = matches!(&link.info, LinkTypeInfo::Xdp(xdp) if xdp.ifindex == ifindex);
        on && link.prog_id == program // other namespaces have interfaces of this number, too
    });
    match link {
        Some(link) => format!(
            "end the program that holds it, or `bpftool link detach id {}`",
            link.id
        ),
        None if found.driver_program != 0 => format!("`ip link set dev {interface} xdpdrv off`"),
        None => format!("`ip link set dev {interface} xdpgeneric off`"),
    }
}

/// Attaches a program in the driver if that can be, otherwise in the network stack; the refusal says
/// why not in the driver.
fn attach(
    program: BorrowedFd<'_>,
    ifindex: u32,
    found: &XdpQuery,
    most: AttachMode,
) -> io::Result<(OwnedFd, AttachMode, Option<Refusal>)> {
    let in_driver = match most {
        AttachMode::Generic => Err(io::Error::other("VLAN tags would not be seen")),
        AttachMode::Driver if found.tells && !found.redirects => {
            Err(io::Error::other("the driver's XDP cannot redirect frames"))
        }
        AttachMode::Driver => create(program, ifindex, sys::XDP_FLAGS_DRV_MODE),
    };
    match in_driver {
        Ok(link) => Ok((link, AttachMode::Driver, None)),
        Err(driver) => {
            let link = create(program, ifindex, sys::XDP_FLAGS_SKB_MODE)?;
            let refusal = Refusal::new("driver XDP", driver.to_string());
            Ok((link, AttachMode::Generic, Some(refusal)))
        }
    }
}

/// The link at `pin` if it is on this interface; a stale pin is removed.
fn open_pinned(pin: &Path, ifindex: u32) -> io::Result<Option<OwnedFd>> {
    let path = c_path(pin)?;
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { sys::bpf_obj_get(path.as_ptr()) };
    match check(fd) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    }
    // SAFETY: a descriptor that was just made and that nobody else knows.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = sys::bpf_link_info::default();
    let mut length = size_of::<sys::bpf_link_info>() as u32;
    // SAFETY: pointer and length describe `info`.
    let done = unsafe { sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &raw mut length) };
    // SAFETY: for an XDP link the kernel fills this member of the union.
    let on = unsafe { info.__bindgen_anon_1.xdp.ifindex };
    if done == 0 && info.type_ == sys::BPF_LINK_TYPE_XDP && on == ifindex {
        return Ok(Some(link));
    }
    std::fs::remove_file(pin)?;
    Ok(None)
}

/// Puts another program in the place of a link's, whatever that is.
fn swap(link: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: two valid descriptors; null options mean "replace whatever is there".
    check(unsafe { sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null()) })
}

fn create(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as _,
        flags,
        ..Default::default()
    };
    // SAFETY: a valid program descriptor and options whose size is in `sz`.
    let fd = unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as i32,
            sys::BPF_XDP,
            &raw const options,
        )
    };
    check(fd)?;
    // SAFETY: a descriptor that was just made and that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pin_object(link: &OwnedFd, pin: &Path) -> io::Result<()> {
    let path = c_path(pin)?;
    // SAFETY: a valid descriptor and a NUL-terminated path.
    check(unsafe { sys::bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(io::Error::other)
}

/// libbpf returns descriptors or 0, and negative errno on failure.
pub(super) fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(())
    }
}
