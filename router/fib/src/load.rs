//! Loads many prefixes at once, and builds the nodes of each root slot only once.

use crate::family::{Family, Further, Place, place_in};
use crate::publish::Shared;
use crate::slab::Room;
use crate::stride::Leaf;
use crate::table::{Full, Route, Table, Top};

impl<F: Family> Table<F> {
    /// Sets prefixes, and reports for each the leaf it had before or that it found no room.
    /// Prefixes below one root slot, or of one further table, become visible together.
    pub(crate) fn load(
        &mut self,
        shared: &Shared,
        further: Further,
        mut routes: Vec<Route>,
        mut done: impl FnMut(Route, Result<Leaf, Full>),
    ) {
        let group = |&(addr, len, _): &Route| match place_in::<F>(further, addr, len) {
            Place::Long(slot) => (1, slot),
            Place::Further(number) => (2, number),
            // short prefixes first, so that few slots are painted twice
            _ => (0, len as usize),
        };
        // stable, because the last of equal prefixes counts
        routes.sort_by_key(group);
        for routes in routes.chunk_by(|one, next| group(one) == group(next)) {
            match group(&routes[0]) {
                (1, slot) if routes.len() > 1 => {
                    self.load_below(shared, Top::Slot(slot), routes, &mut done);
                }
                (2, number) if routes.len() > 1 => {
                    self.load_below(shared, Top::Further(number), routes, &mut done);
                }
                _ => self.load_each(shared, further, routes, &mut done),
            }
        }
    }

    fn load_each(
        &mut self,
        shared: &Shared,
        further: Further,
        routes: &[Route],
        done: &mut impl FnMut(Route, Result<Leaf, Full>),
    ) {
        for &(addr, len, leaf) in routes {
            let set = self.set(shared, further, (addr, len), leaf);
            done((addr, len, leaf), set);
        }
    }

    fn load_below(
        &mut self,
        shared: &Shared,
        top: Top,
        routes: &[Route],
        done: &mut impl FnMut(Route, Result<Leaf, Full>),
    ) {
        let further = match top {
            Top::Further(number) => Some(number),
            Top::Slot(_) | Top::Outside => None,
        };
        let mut old = Vec::with_capacity(routes.len());
        for &(addr, len, leaf) in routes {
            if !self.has_strides() {
                break;
            }
            old.push(self.get(further, addr, len));
            self.edit(top, addr, len, leaf);
        }
        let whole = old.len() == routes.len();
        if whole && self.rebuild(shared, top, Room::Limited).is_ok() {
            self.commit(shared);
            for (&route, old) in routes.iter().zip(old) {
                *self.len_of(further) += usize::from(old == 0);
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
        self.load_each(shared, further, routes, done);
    }
}
