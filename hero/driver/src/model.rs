//! The simulated cards: the library of hero/model/hero.h.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use libloading::Library;

use crate::device::Device;
use crate::registers::CARDS;

/// HERO_ABI of the header that this file was written for.
const ABI: u32 = 3;
/// Longest frame hero_receive takes, octets.
const LONGEST: usize = 9216;

/// A frame's preamble and FCS are right.
pub const FAULTLESS: u32 = 0;
/// HERO_BAD_FCS: its FCS is wrong.
pub const BAD_FCS: u32 = 1;
/// HERO_NO_PAD: it is not padded to 60 octets.
pub const NO_PAD: u32 = 4;

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file does not exist or is not a library.
    #[error("cannot load the cards' model {path}: {source}; build it with `make hero-model`")]
    Load {
        /// The library.
        path: PathBuf,
        /// The dynamic loader's error.
        source: libloading::Error,
    },
    /// It was built with another version of hero.h.
    #[error("{path}: the model's ABI is {found}, this Bora's {ABI}: build both from one source")]
    Abi {
        /// The library.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// hero_new failed.
    #[error("no memory for the cards' model")]
    Memory,
}

type Handle = *mut c_void;

/// The functions of hero.h that are used.
#[derive(Debug)]
struct Api {
    free: unsafe extern "C" fn(Handle),
    set_host: unsafe extern "C" fn(Handle, *const HostCalls),
    irq: unsafe extern "C" fn(Handle) -> u32,
    parameter: unsafe extern "C" fn(Handle, *const std::ffi::c_char) -> i64,
    now: unsafe extern "C" fn(Handle) -> u64,
    run_until_irq: unsafe extern "C" fn(Handle, u64, u32) -> u32,
    read: unsafe extern "C" fn(Handle, c_uint, c_uint) -> u32,
    write: unsafe extern "C" fn(Handle, c_uint, c_uint, u32),
    set_link: unsafe extern "C" fn(Handle, c_uint, c_int),
    receive: unsafe extern "C" fn(Handle, c_uint, *const u8, usize, u64, c_uint) -> c_int,
    arriving: unsafe extern "C" fn(Handle, c_uint) -> usize,
    transmitted: unsafe extern "C" fn(Handle, c_uint, *mut u8, usize, *mut u64, *mut u64) -> c_long,
}

/// A host's memory that is not in the model. All addresses are those of the bus, below 2 GiB and divisible by 8.
pub trait Host: Send {
    /// The little-endian word at an address for a card; `None`: nothing answers there.
    fn read(&mut self, card: usize, address: u32) -> Option<u64>;
    /// Writes those octets of a word whose bit is set in `strobes`; false: nothing answers there.
    fn write(&mut self, card: usize, address: u32, word: u64, strobes: u8) -> bool;
}

/// The structure hero_host of the header.
#[repr(C)]
struct HostCalls {
    context: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, c_uint, u32, *mut u64) -> c_int,
    write: unsafe extern "C" fn(*mut c_void, c_uint, u32, u64, u8) -> c_int,
}

/// Answers hero_host's read.
unsafe extern "C" fn host_read(host: *mut c_void, card: c_uint, at: u32, word: *mut u64) -> c_int {
    // SAFETY: the context is that of `Model::set_host`; the model calls back only in calls that have the
    // `Model` exclusively, one at a time, so nothing else refers to the host. `word` is valid for a write.
    let found = unsafe { (*host.cast::<Box<dyn Host>>()).read(card as usize, at) };
    let Some(found) = found else { return -1 };
    // SAFETY: hero.h gives room for a word.
    unsafe { word.write(found) };
    0
}

/// Answers hero_host's write.
unsafe extern "C" fn host_write(
    host: *mut c_void,
    card: c_uint,
    at: u32,
    word: u64,
    strobes: u8,
) -> c_int {
    // SAFETY: as in `host_read`.
    let host = unsafe { &mut *host.cast::<Box<dyn Host>>() };
    if host.write(card as usize, at, word, strobes) {
        0
    } else {
        -1
    }
}

/// Four cards on one bus, in virtual time.
pub struct Model {
    handle: NonNull<c_void>,
    memory: NonNull<u8>,
    octets: usize,
    /// Made by `Box::into_raw`, and known to the library.
    host: Option<NonNull<Box<dyn Host>>>,
    api: Api,
    /// Last, because the functions live in it.
    _library: Library,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").finish_non_exhaustive()
    }
}

// SAFETY: hero.h allows any thread, but only one at a time; `&mut self` ensures that. A `Host` is `Send`.
unsafe impl Send for Model {}

/// What a card sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A frame of this many octets.
    Frame(usize),
    /// A frame with a bad FCS.
    BadFcs,
    /// A frame longer than the room for it.
    TooLong,
}

impl Model {
    /// Loads a library and puts four cards in it, after their hardware reset. The dynamic loader
    /// searches for a name without a slash.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let failed = |source| ModelError::Load {
            path: path.into(),
            source,
        };
        // SAFETY: the library has no initialisers but those of C++'s own; the user is responsible
        // for the file, as for any program that they start.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        /// The address of a function.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is the one the header declares, and the header's version, which
                // `hero_abi` gives, is checked before anything else is called.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(failed)?
            };
        }
        let abi: unsafe extern "C" fn() -> u32 = function!("hero_abi");
        // SAFETY: takes nothing and reads nothing.
        let found = unsafe { abi() };
        if found != ABI {
            let path = path.into();
            return Err(ModelError::Abi { path, found });
        }
        let new: unsafe extern "C" fn() -> Handle = function!("hero_new");
        let memory: unsafe extern "C" fn(Handle, *mut usize) -> *mut u8 = function!("hero_memory");
        let api = Api {
            free: function!("hero_free"),
            set_host: function!("hero_set_host"),
            irq: function!("hero_irq"),
            parameter: function!("hero_parameter"),
            now: function!("hero_now"),
            run_until_irq: function!("hero_run_until_irq"),
            read: function!("hero_read"),
            write: function!("hero_write"),
            set_link: function!("hero_set_link"),
            receive: function!("hero_receive"),
            arriving: function!("hero_arriving"),
            transmitted: function!("hero_transmitted"),
        };
        // SAFETY: takes nothing.
        let handle = NonNull::new(unsafe { new() }).ok_or(ModelError::Memory)?;
        let mut octets = 0;
        // SAFETY: a model that was just made, and room for the size.
        let memory = unsafe { memory(handle.as_ptr(), &raw mut octets) };
        Ok(Self {
            memory: NonNull::new(memory).ok_or(ModelError::Memory)?,
            handle,
            octets,
            host: None,
            api,
            _library: library,
        })
    }

    /// From now on, what the cards read and write in the host's memory goes to `host`.
    pub fn set_host(&mut self, host: Box<dyn Host>) {
        let host = NonNull::from(Box::leak(Box::new(host)));
        let calls = HostCalls {
            context: host.as_ptr().cast(),
            read: host_read,
            write: host_write,
        };
        // SAFETY: a live model; the calls are copied, and their context lives until the model no longer uses it.
        unsafe { (self.api.set_host)(self.handle.as_ptr(), &raw const calls) };
        if let Some(old) = self.host.replace(host) {
            // SAFETY: it came from a box, and the library does not know it any more.
            drop(unsafe { Box::from_raw(old.as_ptr()) });
        }
    }

    /// A parameter of the build, such as `routes` or `sys_mhz`; `None` if there is none of this
    /// name.
    pub fn parameter(&self, name: &std::ffi::CStr) -> Option<i64> {
        // SAFETY: a live model and a terminated name.
        let value = unsafe { (self.api.parameter)(self.handle.as_ptr(), name.as_ptr()) };
        (value >= 0).then_some(value)
    }

    /// Virtual time since the start, ns.
    pub fn now(&self) -> u64 {
        // SAFETY: a live model.
        unsafe { (self.api.now)(self.handle.as_ptr()) }
    }

    /// Runs for up to `ns` of virtual time, or until a card of `cards` (one bit each) raises an
    /// interrupt; returns the raised interrupts.
    pub fn run_until_irq(&mut self, ns: u64, cards: u32) -> u32 {
        // SAFETY: a live model; no reference into its memory lives across the call.
        unsafe { (self.api.run_until_irq)(self.handle.as_ptr(), ns, cards) }
    }

    /// The interrupts that cards raise now, one bit each.
    pub fn interrupts(&self) -> u32 {
        // SAFETY: a live model.
        unsafe { (self.api.irq)(self.handle.as_ptr()) }
    }

    /// Reads a register (0 to 63) of a card (0 to 3); all ones if there is none, or the card does not answer.
    /// Some cycles of virtual time pass.
    pub fn read_register(&mut self, card: usize, register: u8) -> u32 {
        // SAFETY: a live model.
        unsafe { (self.api.read)(self.handle.as_ptr(), card as c_uint, register.into()) }
    }

    /// Writes a register; see [`Model::read_register`].
    pub fn write_register(&mut self, card: usize, register: u8, value: u32) {
        // SAFETY: a live model.
        unsafe { (self.api.write)(self.handle.as_ptr(), card as c_uint, register.into(), value) }
    }

    /// Whether a card sees a link from now on. All do at first; frames pass all the same.
    pub fn set_link(&mut self, card: usize, up: bool) {
        // SAFETY: a live model.
        unsafe { (self.api.set_link)(self.handle.as_ptr(), card as c_uint, up.into()) }
    }

    /// Puts a frame (without FCS) on the line to a card; false if it is empty, too long, or too many
    /// wait already. `faults` as [`BAD_FCS`] and [`NO_PAD`].
    pub fn receive(&mut self, card: usize, frame: &[u8], faults: u32) -> bool {
        let card = card as c_uint;
        // SAFETY: a live model, and octets that the call only reads.
        frame.len() <= LONGEST
            && unsafe {
                let (data, octets) = (frame.as_ptr(), frame.len());
                (self.api.receive)(self.handle.as_ptr(), card, data, octets, 0, faults) == 0
            }
    }

    /// Frames on the line to a card that have not arrived completely.
    pub fn arriving(&self, card: usize) -> usize {
        // SAFETY: a live model.
        unsafe { (self.api.arriving)(self.handle.as_ptr(), card as c_uint) }
    }

    /// The next frame that a card sent, copied to `frame`.
    pub fn transmitted(&mut self, card: usize, frame: &mut [u8]) -> Option<Sent> {
        // SAFETY: a live model, and room as large as is said; the times may be null.
        let octets = unsafe {
            (self.api.transmitted)(
                self.handle.as_ptr(),
                card as c_uint,
                frame.as_mut_ptr(),
                frame.len(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        match octets {
            -1 => None,
            -3 => Some(Sent::TooLong),
            octets => Some(usize::try_from(octets).map_or(Sent::BadFcs, Sent::Frame)),
        }
    }

    /// One card, for its driver.
    pub(crate) fn card(&mut self, card: usize) -> Card<'_> {
        assert!(card < CARDS);
        Card { model: self, card }
    }

    /// The host's memory; nothing in the model runs while it is borrowed.
    fn memory(&self) -> &[u8] {
        // SAFETY: valid until hero_free, and written only in calls that take `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.octets) }
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.octets) }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by hero_new, and not used afterwards.
        unsafe { (self.api.free)(self.handle.as_ptr()) }
        if let Some(host) = self.host {
            // SAFETY: it came from a box, and the model that used it is gone.
            drop(unsafe { Box::from_raw(host.as_ptr()) });
        }
    }
}

/// A card of the model.
pub(crate) struct Card<'a> {
    model: &'a mut Model,
    card: usize,
}

impl Device for Card<'_> {
    fn read(&mut self, register: u8) -> u32 {
        self.model.read_register(self.card, register)
    }

    fn write(&mut self, register: u8, value: u32) {
        self.model.write_register(self.card, register, value);
    }

    fn memory(&self) -> &[u8] {
        self.model.memory()
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        self.model.memory_mut()
    }

    fn now(&self) -> u64 {
        self.model.now()
    }
}
