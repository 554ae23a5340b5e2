//! The guest's memory as the cards see it. It is read and written through its file descriptors, word by word: what the
//! guest, or its virtual machine, does to that memory can then only make an access fail.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use bora_hero::{CARDS, Host};

/// Octets of a word, the unit of the cards' accesses.
const WORD: u64 = 8;

/// A range of bus addresses that is a part of a file.
struct Window {
    address: u64,
    octets: u64,
    /// `None`: the virtual machine does not share it.
    file: Option<File>,
    offset: u64,
    is_writable: bool,
}

impl Window {
    fn contains(&self, address: u64) -> bool {
        let from = address.checked_sub(self.address);
        let end = from.and_then(|from| from.checked_add(WORD));
        end.is_some_and(|end| end <= self.octets)
    }

    fn overlaps(&self, address: u64, octets: u64) -> bool {
        self.address < address.saturating_add(octets)
            && address < self.address.saturating_add(self.octets)
    }

    fn is_within(&self, address: u64, octets: u64) -> bool {
        address <= self.address && self.address + self.octets <= address.saturating_add(octets)
    }
}

/// Why an access of a card to memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Bus mastering is off.
    NoMaster,
    /// The address is not memory of the guest.
    Outside,
    /// The memory there is not shared with this process.
    NotShared,
    /// A write to memory that can only be read.
    ReadOnly,
    /// The file does not have what it should.
    File,
}

impl Refused {
    const ALL: [Self; 5] = [
        Self::NoMaster,
        Self::Outside,
        Self::NotShared,
        Self::ReadOnly,
        Self::File,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::NoMaster => "bus mastering off",
            Self::Outside => "outside of memory",
            Self::NotShared => "memory not shared",
            Self::ReadOnly => "memory read-only",
            Self::File => "memory file failed",
        }
    }
}

fn failed(error: io::Error) -> Refused {
    log::debug!("the guest's memory: {error}");
    Refused::File
}

/// The memory that one card's guest gives it.
#[derive(Default)]
pub(crate) struct Guest {
    windows: Vec<Window>,
    /// Whether the card may access memory.
    pub(crate) masters: bool,
    /// Words read and written, and refused by [`Refused`].
    words: u64,
    refused: [u64; Refused::ALL.len()],
}

impl Guest {
    /// Adds a range of bus addresses. Those from 2 GiB on are of no use to the cards, whose bus has its apertures there.
    ///
    /// # Errors
    /// The range is empty, wraps around, or overlaps another one.
    pub(crate) fn map(
        &mut self,
        (address, octets): (u64, u64),
        file: Option<File>,
        offset: u64,
        is_writable: bool,
    ) -> io::Result<()> {
        let ends = address.checked_add(octets).and(offset.checked_add(octets));
        let overlaps = |window: &Window| window.overlaps(address, octets);
        if octets == 0 || ends.is_none() || self.windows.iter().any(overlaps) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.windows.push(Window {
            address,
            octets,
            file,
            offset,
            is_writable,
        });
        Ok(())
    }

    /// Removes the ranges within one range.
    ///
    /// # Errors
    /// A range is partly within it.
    pub(crate) fn unmap(&mut self, address: u64, octets: u64) -> io::Result<()> {
        let is_cut =
            |one: &Window| one.overlaps(address, octets) && !one.is_within(address, octets);
        if self.windows.iter().any(is_cut) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.windows.retain(|one| !one.is_within(address, octets));
        Ok(())
    }

    /// Removes all ranges.
    pub(crate) fn unmap_all(&mut self) {
        self.windows.clear();
    }

    fn window(&self, address: u64) -> Result<(&Window, &File, u64), Refused> {
        if !self.masters {
            return Err(Refused::NoMaster);
        }
        let mut windows = self.windows.iter();
        let found = windows.find(|window| window.contains(address));
        let window = found.ok_or(Refused::Outside)?;
        let file = window.file.as_ref().ok_or(Refused::NotShared)?;
        Ok((window, file, window.offset + (address - window.address)))
    }

    fn read(&self, address: u64) -> Result<u64, Refused> {
        let (_, file, offset) = self.window(address)?;
        let mut word = [0; WORD as usize];
        file.read_exact_at(&mut word, offset).map_err(failed)?;
        Ok(u64::from_le_bytes(word))
    }

    fn write(&self, address: u64, word: u64, strobes: u8) -> Result<(), Refused> {
        let (window, file, offset) = self.window(address)?;
        if !window.is_writable {
            return Err(Refused::ReadOnly);
        }
        let word = word.to_le_bytes();
        if strobes == 0xFF {
            return file.write_all_at(&word, offset).map_err(failed);
        }
        for (at, octet) in (0..).zip(word).filter(|(at, _)| strobes >> at & 1 == 1) {
            file.write_all_at(&[octet], offset + at).map_err(failed)?;
        }
        Ok(())
    }

    /// Counts an access; the first refused one of each reason is logged.
    fn count<T>(
        &mut self,
        what: &str,
        card: usize,
        address: u32,
        done: Result<T, Refused>,
    ) -> Option<T> {
        self.words += 1;
        match done {
            Ok(done) => Some(done),
            Err(reason) => {
                let count = &mut self.refused[reason as usize];
                *count += 1;
                if *count == 1 {
                    log::warn!(
                        "card {card}: {what} at {address:#010x} refused: {}",
                        reason.name()
                    );
                }
                None
            }
        }
    }
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words read and written", self.words)?;
        for (reason, count) in Refused::ALL.iter().zip(self.refused) {
            if count != 0 {
                write!(f, ", {count} refused ({})", reason.name())?;
            }
        }
        Ok(())
    }
}

/// The memory of all cards' guests, shared between the cards' bus and the virtual machines' requests.
#[derive(Clone, Default)]
pub(crate) struct Guests(Arc<Mutex<[Guest; CARDS]>>);

impl Guests {
    pub(crate) fn lock(&self) -> MutexGuard<'_, [Guest; CARDS]> {
        match self.0.lock() {
            Ok(guests) => guests,
            // no access leaves half a change behind
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Words that all cards have read and written.
    pub(crate) fn words(&self) -> u64 {
        self.lock().iter().map(|guest| guest.words).sum()
    }
}

impl Host for Guests {
    fn read(&mut self, card: usize, address: u32) -> Option<u64> {
        let mut guests = self.lock();
        let guest = guests.get_mut(card)?;
        let done = guest.read(address.into());
        guest.count("a read", card, address, done)
    }

    fn write(&mut self, card: usize, address: u32, word: u64, strobes: u8) -> bool {
        let mut guests = self.lock();
        let Some(guest) = guests.get_mut(card) else {
            return false;
        };
        let done = guest.write(address.into(), word, strobes);
        guest.count("a write", card, address, done).is_some()
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn memory(octets: u64) -> File {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, octets).unwrap();
        fd.into()
    }

    /// 64 KiB at 0x10000, from 0x1000 of a file on, and read-only memory at 0x40000.
    fn guest() -> (Guest, File) {
        let file = memory(0x1_1000);
        let mut guest = Guest {
            masters: true,
            ..Guest::default()
        };
        let clone = |file: &File| Some(file.try_clone().unwrap());
        guest
            .map((0x1_0000, 0x1_0000), clone(&file), 0x1000, true)
            .unwrap();
        guest
            .map((0x4_0000, 0x1000), clone(&file), 0, false)
            .unwrap();
        guest.map((0x5_0000, 0x1000), None, 0, true).unwrap();
        (guest, file)
    }

    #[test]
    fn an_address_is_translated() {
        let (guest, file) = guest();
        guest.write(0x1_0008, 0x0807_0605_0403_0201, 0xFF).unwrap();
        let mut octets = [0; 8];
        file.read_exact_at(&mut octets, 0x1008).unwrap();
        assert_eq!(octets, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(guest.read(0x1_0008), Ok(0x0807_0605_0403_0201));
        guest.write(0x1_0008, 0xFFFF_FFFF_FFFF_FFFF, 0b10).unwrap();
        assert_eq!(guest.read(0x1_0008), Ok(0x0807_0605_0403_FF01));
    }

    #[test]
    fn hostile_addresses_are_refused() {
        let (mut guest, file) = guest();
        for address in [0, 0xFFF8, 0x2_0000, 0x7FFF_FFF8, 0x1_FFFC, u64::MAX - 7] {
            assert_eq!(guest.read(address), Err(Refused::Outside), "{address:#x}");
            assert_eq!(guest.write(address, 0, 0xFF), Err(Refused::Outside));
        }
        assert_eq!(guest.write(0x4_0000, 0, 0xFF), Err(Refused::ReadOnly));
        assert_eq!(guest.read(0x5_0000), Err(Refused::NotShared));
        ftruncate(&file, 0x2000).unwrap();
        assert_eq!(guest.read(0x1_8000), Err(Refused::File), "the file shrank");
        guest.masters = false;
        assert_eq!(guest.read(0x1_0000), Err(Refused::NoMaster));
    }

    #[test]
    fn bad_ranges_are_refused() {
        let (mut guest, _) = guest();
        for range in [(0, 0), (u64::MAX, 2), (0x1_8000, 0x1000), (0, u64::MAX)] {
            assert!(guest.map(range, None, 0, true).is_err(), "{range:?}");
        }
        assert!(guest.map((0x9_0000, 0x1000), None, u64::MAX, true).is_err());
        assert!(guest.unmap(0x1_0000, 0x1000).is_err(), "a part of a range");
        guest.unmap(0x1_0000, 0x1_0000).unwrap();
        assert_eq!(guest.read(0x1_0000), Err(Refused::Outside));
        guest.unmap(0, u64::MAX).unwrap();
        assert!(guest.windows.is_empty());
    }

    #[test]
    fn refused_accesses_are_counted_by_name() {
        let guests = Guests::default();
        let mut host = guests.clone();
        assert_eq!(Host::read(&mut host, 2, 0x1000), None);
        guests.lock()[2].masters = true;
        assert!(!Host::write(&mut host, 2, 0x1000, 0, 0xFF));
        assert_eq!(Host::read(&mut host, CARDS, 0), None, "no such card");
        let told = guests.lock()[2].to_string();
        assert_eq!(
            told,
            "2 words read and written, 1 refused (bus mastering off), 1 refused (outside of memory)"
        );
        assert_eq!(guests.words(), 2);
    }
}
