//! Loads many prefixes at once, and builds the nodes of each root slot only once.

use crate::family::{Family, Place, place};
use crate::publish::Shared;
use crate::slab::Room;
use crate::stride::Leaf;
use crate::table::{Full, Route, Table, Top};

impl<F: Family> Table<F> {
    /// Sets prefixes, and reports for each the leaf it had before or that it found no room.
    /// Prefixes below one root slot become visible together.
    pub(crate) fn load(
        &mut self,
        shared: &Shared,
        mut routes: Vec<Route>,
        mut done: impl FnMut(Route, Result<Leaf, Full>),
    ) {
        let group = |&(addr, len, _): &Route| match place::<F>(addr, len) {
            Place::Long(slot) => (1, slot),
            // short prefixes first, so that few slots are painted twice
            _ => (0, len as usize),
        };
        // stable, because the last of equal prefixes counts
        routes.sort_by_key(group);
        for routes in routes.chunk_by(|one, next| group(one) == group(next)) {
            match group(&routes[0]) {
                (1, slot) if routes.len() > 1 => {
                    self.load_slot(shared, Top::Slot(slot), routes, &mut done);
                }
                _ => self.load_each(shared, routes, &mut done),
            }
        }
    }

    fn load_each(
        &mut self,
        shared: &Shared,
        routes: &[Route],
        done: &mut impl FnMut(Route, Result<Leaf, Full>),
    ) {
        for &(addr, len, leaf) in routes {
            done((addr, len, leaf), self.set(shared, addr, len, leaf));
        }
    }

    fn load_slot(
        &mut self,
        shared: &Shared,
        top: Top,
        routes: &[Route],
        done: &mut impl FnMut(Route, Result<Leaf, Full>),
    ) {
        let mut old = Vec::with_capacity(routes.len());
        for &(addr, len, leaf) in routes {
            if !self.has_strides() {
                break;
            }
            old.push(self.get(addr, len));
            self.edit(top, addr, len, leaf);
        }
        let whole = old.len() == routes.len();
        if whole && self.rebuild(shared, top, Room::Limited).is_ok() {
            self.commit(shared);
            for (&route, old) in routes.iter().zip(old) {
                self.len += usize::from(old == 0);
                done(route, Ok(old));
            }
            return;
        }
        // not all fit: roll back, then insert one by one
        self.roll_back(shared);
        for (&(addr, len, _), &old) in routes.iter().zip(&old).rev() {
            self.edit(top, addr, len, old);
            self.prune(top, addr, len);
        }
        self.load_each(shared, routes, done);
    }
}
