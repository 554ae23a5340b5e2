//! Destinations whose packets Linux forwards: the program lets them pass at once, instead of sending them
//! through the engine first.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bora_contract::MAX_LINUX_DESTINATIONS;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// After this all are forgotten, so that routes that changed show.
const LIFETIME: Duration = Duration::from_secs(60);

/// `struct bora_destination`.
type Key = [u8; 20];

/// What the slow path has noted.
pub struct LinuxDestinations {
    map: MapHandle,
    /// Where the program reads which entries count; 0: none.
    published: &'static AtomicU32,
    generation: u32,
    noted: HashSet<Key>,
    since: Instant,
}

impl LinuxDestinations {
    pub(super) fn new(map: MapHandle, published: &'static AtomicU32) -> Self {
        Self {
            map,
            published,
            generation: 1,
            noted: HashSet::new(),
            since: Instant::now(),
        }
    }

    /// Notes that Linux forwards what comes in by an interface for a destination. Nothing happens if there
    /// is no room: the packets take the engine's way.
    pub fn note(&mut self, ifindex: u32, destination: IpAddr) {
        let key = key(ifindex, destination);
        if self.noted.len() >= MAX_LINUX_DESTINATIONS || self.noted.contains(&key) {
            return;
        }
        let value = self.generation.to_ne_bytes();
        // no room, see above
        let Ok(()) = self.map.update(&key, &value, MapFlags::ANY) else {
            return;
        };
        if self.noted.is_empty() {
            self.since = Instant::now();
            self.published.store(self.generation, Relaxed);
        }
        self.noted.insert(key);
    }

    /// Forgets them when they are old.
    pub fn tick(&mut self, now: Instant) {
        if !self.noted.is_empty() && now.duration_since(self.since) > LIFETIME {
            self.forget();
        }
    }

    /// Forgets all of them.
    pub fn forget(&mut self) {
        if !self.noted.is_empty() {
            self.published.store(0, Relaxed);
            self.generation = self.generation.wrapping_add(1).max(1);
            self.noted.clear();
        }
    }
}

fn key(ifindex: u32, destination: IpAddr) -> Key {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&ifindex.to_ne_bytes());
    match destination {
        IpAddr::V4(address) => key[4..8].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => key[4..].copy_from_slice(&address.octets()),
    }
    key
}
