use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::pipe::pipe;

use super::*;

const ROOM: u64 = 1 << 30;
const HUGE: u64 = 2 << 20;

fn memfd(flags: MemfdFlags, size: u64) -> OwnedFd {
    let fd = memfd_create("test", flags).unwrap();
    ftruncate(&fd, size).unwrap();
    fd
}

fn of_peer(flags: MemfdFlags, size: u64) -> (SharedMemory, OwnedFd) {
    let fd = memfd(flags, size);
    let keep = fd.try_clone().unwrap();
    (SharedMemory::of_peer(fd, size, ROOM).unwrap(), keep)
}

fn punch(fd: &OwnedFd, length: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(fd, flags, 0, length).unwrap();
}

/// Bora's own mappings of memfds of that name.
fn mappings(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(name)).count()
}

#[test]
fn accesses_outside_are_refused() {
    let memory = SharedMemory::new(8192).unwrap();
    assert!(memory.write(8190, &[1, 2]));
    assert!(!memory.write(8191, &[1, 2]));
    let mut octets = [0; 2];
    assert!(memory.read(8190, &mut octets) && octets == [1, 2]);
    assert!(!memory.read(8193, &mut []) && !memory.read(u32::MAX, &mut octets));
}

#[test]
fn files_of_other_kinds_and_sizes_are_refused() {
    let refused = |fd, size| SharedMemory::of_peer(fd, size, ROOM).unwrap_err();
    let fd = || memfd(MemfdFlags::CLOEXEC, 4096);
    assert!(matches!(refused(fd(), 0), MapError::Empty));
    let short = refused(fd(), 4097);
    assert!(
        matches!(
            short,
            MapError::Short {
                told: 4097,
                real: 4096
            }
        ),
        "{short}"
    );
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    let disk = std::fs::File::open("/proc/self/exe").unwrap();
    for other in [null.unwrap().into(), disk.into(), pipe().unwrap().0] {
        assert!(matches!(refused(other, 4096), MapError::NotMemory));
    }
    let huge = memfd(MemfdFlags::CLOEXEC, ROOM + 4096);
    assert!(matches!(
        refused(huge, ROOM + 4096),
        MapError::TooMuch { .. }
    ));
    // a hole could move to where the test does not look
    assert!(matches!(
        refused(memfd(MemfdFlags::CLOEXEC, 1 << 20), 4096),
        MapError::Sparse
    ));
}

#[test]
fn memory_that_can_be_sealed_is() {
    let (memory, peer) = of_peer(MemfdFlags::ALLOW_SEALING, 4096);
    assert!(ftruncate(&peer, 0).is_err());
    assert!(memory.write(0, &[1]) && memory.is_whole());
}

#[test]
fn memory_that_shrinks_is_survived() {
    let (memory, peer) = of_peer(MemfdFlags::CLOEXEC, 8192);
    let (other, _peer) = of_peer(MemfdFlags::CLOEXEC, 8192);
    assert!(memory.write(4096, &[7]) && other.write(4096, &[7]));
    ftruncate(&peer, 0).unwrap();
    assert!(!memory.is_whole());
    let mut octet = [1];
    assert!(memory.read(4096, &mut octet) && octet == [0]);
    assert!(memory.write(0, &[5]) && memory.read(0, &mut octet) && octet == [5]);
    assert!(!memory.is_whole() && other.is_whole());
    assert!(other.read(4096, &mut octet) && octet == [7]);
}

/// SIGBUS elsewhere is a mistake of ours, and ends the process as it always did.
#[test]
fn memory_of_others_is_not_covered() {
    const CHILD: &str = "BORA_TEST_SIGBUS";
    if std::env::var_os(CHILD).is_some() {
        let (_memory, _peer) = of_peer(MemfdFlags::CLOEXEC, 4096);
        let fd = memfd(MemfdFlags::CLOEXEC, 4096);
        let keep = fd.try_clone().unwrap();
        let unguarded = SharedMemory::map(fd, 4096, 4096).unwrap();
        ftruncate(&keep, 0).unwrap();
        unguarded.read(0, &mut [0]);
        return;
    }
    let name = "memif::memory::tests::memory_of_others_is_not_covered";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(child.signal(), Some(libc::SIGBUS), "{child}");
}

#[test]
fn holes_are_noticed() {
    let (memory, peer) = of_peer(MemfdFlags::ALLOW_SEALING, 1 << 20);
    assert!(memory.is_whole());
    punch(&peer, 8192);
    assert!(!memory.is_whole());
}

/// Huge pages for a test, which any other process may take first.
struct HugePages(String);

impl HugePages {
    const KEY: &str = "/proc/sys/vm/nr_hugepages";

    fn reserve(more: usize) -> Self {
        let before = std::fs::read_to_string(Self::KEY).unwrap();
        let pages = before.trim().parse::<usize>().unwrap() + more;
        std::fs::write(Self::KEY, pages.to_string()).unwrap();
        Self(before)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::KEY, &self.0);
    }
}

/// A hole in huge pages is SIGBUS when the pool is empty; the peer takes the page that it freed.
#[test]
fn holes_in_huge_pages_are_survived() {
    if !rustix::process::geteuid().is_root() {
        return bora_testing::skip("not root");
    }
    let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let _pages = HugePages::reserve(1);
    let fd = memfd_create("test-huge", flags).unwrap();
    ftruncate(&fd, HUGE).unwrap();
    let peer = fd.try_clone().unwrap();
    // less than a page: the mapping is of whole pages all the same
    let memory = match SharedMemory::of_peer(fd, 4096, ROOM) {
        Err(MapError::NoPages { .. }) => return bora_testing::skip("no huge page to be had"),
        memory => memory.unwrap(),
    };
    assert_eq!(memory.mapped(), HUGE);
    punch(&peer, HUGE);
    assert!(!memory.is_whole());
    // all that are free, also those that were reserved before
    let steal = || {
        let thief = memfd(flags, HUGE);
        let taken = fallocate(&thief, FallocateFlags::empty(), 0, HUGE);
        taken.is_ok().then_some(thief)
    };
    let thieves: Vec<_> = std::iter::from_fn(steal).take(1024).collect();
    let stolen = !thieves.is_empty() && thieves.len() < 1024;
    let mut octet = [1];
    assert!(memory.read(64, &mut octet) && octet == [0]);
    let guard = &memory.peer.as_ref().unwrap().guard;
    assert!(guard.taken() || !stolen, "the pool was not empty");
    drop(memory);
    assert_eq!(mappings("memfd:test-huge"), 0, "a mapping is left");
}
