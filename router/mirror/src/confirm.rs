//! Neighbours that packets go to and that Linux has not confirmed for a while.
//!
//! When a packet goes to a STALE entry, Linux waits whether something else confirms it (DELAY), then asks the
//! neighbour (PROBE), and gives the entry up if there is no answer (FAILED). It does not see Bora's packets.
//! So engine and express mark the neighbours that they send to, and Linux is told of those that are STALE.
//!
//! When an entry in use is deleted (`ip neigh flush`), Linux makes a new one for the next packet, asks for the
//! neighbour at once, and holds packets until there is an answer. Bora sends to the known address meanwhile. If
//! no packet goes there for [`HOLD`], the entry is forgotten.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bora_fib::{FibWriter, UseMark};

use crate::message::Neighbour;
use crate::world::World;

/// Most neighbours that Linux is told of in one turn of the loop, which takes some milliseconds.
pub(crate) const TURN: usize = 1024;

/// How long an entry is held that Linux has deleted, to find out whether packets go there: longer than a loaded machine keeps
/// a worker from running, because later packets would overtake those that Linux then holds.
pub(crate) const HOLD: Duration = Duration::from_millis(250);
/// How long the neighbour may then take to answer; Linux gives it up after three seconds, and says so.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// Address and interface index.
type Key = (IpAddr, u32);

#[derive(Default)]
pub(crate) struct Unconfirmed {
    all: BTreeSet<Key>,
    /// Neighbours that packets go to and that Linux has not been told of yet.
    used: VecDeque<Key>,
    /// Until when entries are held that Linux has deleted, and the same by time; the second may have times that do
    /// not count any more.
    held: BTreeMap<Key, Instant>,
    ends: BTreeSet<(Instant, Key)>,
}

fn mark((address, device): Key) -> UseMark {
    UseMark::new(device, address)
}

impl Unconfirmed {
    /// Notes what a neighbour is now.
    pub(crate) fn follow(&mut self, fib: &FibWriter, key: Key, now: Option<&Neighbour>) {
        if !now.is_some_and(|now| now.unconfirmed() && !now.held) {
            self.all.remove(&key);
        } else if self.all.insert(key) {
            fib.take_use(mark(key)); // only what comes from now on counts
        }
    }

    /// Finds those that packets went to since they became unconfirmed.
    pub(crate) fn find_used(&mut self, fib: &FibWriter, world: &World) {
        if self.used.is_empty() {
            let keys = self.all.iter().copied();
            let keys = keys.filter(|key| world.ports.contains_key(&key.1));
            self.used
                .extend(keys.filter(|&key| fib.take_use(mark(key))));
        }
    }

    /// Takes at most `most` of what was found.
    pub(crate) fn take_used(&mut self, most: usize, world: &World) -> Vec<Neighbour> {
        let found = self.used.drain(..most.min(self.used.len()));
        let known = found.filter_map(|key| world.neighbours.get(&key).copied());
        known.filter(Neighbour::unconfirmed).collect()
    }

    /// Holds a deleted entry for some time from now on.
    pub(crate) fn hold(&mut self, key: Key, time: Duration) {
        let end = Instant::now() + time;
        self.held.insert(key, end);
        self.ends.insert((end, key));
    }

    /// When the next entry has been held long enough.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.ends.first().map(|end| end.0)
    }

    /// The next entry that has been held long enough.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Key> {
        while self.due().is_some_and(|due| due <= now)
            && let Some((end, key)) = self.ends.pop_first()
        {
            if self.held.get(&key) == Some(&end) {
                self.held.remove(&key);
                return Some(key);
            }
        }
        None
    }

    /// Whether packets went to a held entry; Linux is to be told then.
    pub(crate) fn is_used(&mut self, fib: &FibWriter, key: Key) -> bool {
        let used = fib.take_use(mark(key));
        if used {
            self.used.push_back(key);
        }
        used
    }

    /// Puts back what Linux could not be told of.
    pub(crate) fn put_back(&mut self, some: &[Neighbour]) {
        self.used.extend(some.iter().map(|n| (n.address, n.device)));
    }

    /// Whether some wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.used.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bora_fib::{FibConfig, PortId};

    use super::*;
    use crate::message::Message;
    use crate::model::Model;
    use crate::world::Port;

    const HOSTS: u32 = 100_000;

    fn stale(host: u32) -> Neighbour {
        Neighbour {
            device: 1,
            address: (0x0a00_0000 + host).to_be_bytes().into(),
            mac: Some([2, 0, 0, 0, 0, 9]),
            state: libc::NUD_STALE,
            learned: false,
            managed: false,
            validated: false,
            protocol: 0,
            held: false,
        }
    }

    /// Each of very many hosts that packets go to gets its turn before any gets a second one, and the others are
    /// left alone.
    #[test]
    fn all_that_are_used_are_confirmed_in_turn() {
        let (fib, readers) = bora_fib::new(FibConfig::default()).unwrap();
        let reader = readers.reader().unwrap();
        let mut model = Model::new(fib).unwrap();
        let port = Port {
            id: PortId(0),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            shaped: false,
            tunnel: None,
            peer: None,
        };
        model.set_ports(BTreeMap::from([(1, port)]));
        let send = |host| reader.note_use(UseMark::new(1, stale(host).address));
        send(0); // before it is unconfirmed
        for host in 0..HOSTS {
            model.apply(Message::Neighbour(stale(host), false));
        }
        let used = |host: &u32| host % 2 == 1;
        (0..HOSTS).filter(used).for_each(send);
        model.find_used();
        let (mut turns, mut told) = (0, BTreeSet::new());
        while model.unconfirmed.is_waiting() {
            let some = model.take_used(TURN);
            assert!(some.len() <= TURN);
            told.extend(some.iter().map(|neighbour| neighbour.address));
            some.iter().for_each(|one| model.delayed(one));
            model.find_used(); // nothing overtakes those that wait
            turns += 1;
        }
        let wanted = (0..HOSTS).filter(used).map(|host| stale(host).address);
        assert!(wanted.clone().all(|address| told.contains(&address)));
        let sharing = told.len() - wanted.count();
        assert!(sharing < HOSTS as usize / 100, "{sharing} share a bit");
        assert!(turns <= told.len().div_ceil(TURN), "{turns} turns");
        (0..HOSTS).filter(used).for_each(send);
        model.find_used();
        assert!(
            model.take_used(usize::MAX).len() <= 2 * sharing,
            "they are DELAY"
        );
        model.apply(Message::Neighbour(stale(1), false));
        send(1);
        model.find_used();
        let again = model.take_used(usize::MAX);
        assert!(again.iter().any(|one| one.address == stale(1).address));
    }
}
