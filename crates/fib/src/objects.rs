//! The control side of next hops: objects, and who refers to them.

use crate::FibError;
use crate::nexthop::{NextHop, NextHopId};
use crate::writer::{FibWriter, Use};

impl FibWriter {
    /// Adds a next-hop object.
    ///
    /// # Errors
    /// [`FibError::NextHopsFull`]; for groups also [`FibError::NoSuchNextHop`] and
    /// [`FibError::NestedGroup`].
    pub fn add_next_hop(&mut self, object: NextHop) -> Result<NextHopId, FibError> {
        self.check_members(&object)?;
        let full = FibError::NextHopsFull(self.uses.len() as u32 - 1);
        let id = self.free_ids.pop().ok_or(full)?;
        self.uses[id as usize] = Use {
            count: 0,
            taken: true,
        };
        self.count_members(&object, 1);
        let none = self.shared.set_next_hop(id, Some(object));
        debug_assert!(none.is_none());
        Ok(NextHopId(id))
    }

    /// Changes an object with one pointer write: all its prefixes follow at once.
    ///
    /// # Errors
    /// [`FibError::NoSuchNextHop`], [`FibError::NestedGroup`].
    pub fn set_next_hop(&mut self, id: NextHopId, object: NextHop) -> Result<(), FibError> {
        self.check(id)?;
        self.check_members(&object)?;
        self.count_members(&object, 1);
        let old = self.shared.next_hop(id.0).clone();
        self.count_members(&old, -1);
        let retired = self.shared.set_next_hop(id.0, Some(object));
        self.retired
            .push_back((self.shared.epochs.advance(), retired, None));
        Ok(())
    }

    /// Removes an object that nothing refers to. Its id is reused only after every reader has
    /// passed a quiescent point.
    ///
    /// # Errors
    /// [`FibError::NoSuchNextHop`], [`FibError::NextHopInUse`].
    pub fn remove_next_hop(&mut self, id: NextHopId) -> Result<(), FibError> {
        self.check(id)?;
        let uses = self.uses[id.0 as usize].count;
        if uses > 0 {
            return Err(FibError::NextHopInUse(id.0, uses));
        }
        let old = self.shared.next_hop(id.0).clone();
        self.count_members(&old, -1);
        self.uses[id.0 as usize].taken = false;
        let retired = self.shared.set_next_hop(id.0, None);
        self.retired
            .push_back((self.shared.epochs.advance(), retired, Some(id.0)));
        Ok(())
    }

    /// The object behind an id.
    pub fn next_hop(&self, id: NextHopId) -> Option<&NextHop> {
        self.check(id).ok().map(|()| self.shared.next_hop(id.0))
    }

    /// Prefixes and groups that refer to a next hop.
    pub fn next_hop_uses(&self, id: NextHopId) -> u32 {
        self.uses.get(id.0 as usize).map_or(0, |uses| uses.count)
    }

    fn check_members(&self, object: &NextHop) -> Result<(), FibError> {
        let NextHop::Group(group) = object else {
            return Ok(());
        };
        for member in group.members() {
            self.check(member)?;
            if matches!(self.shared.next_hop(member.0), NextHop::Group(_)) {
                return Err(FibError::NestedGroup(member.0));
            }
        }
        Ok(())
    }

    fn count_members(&mut self, object: &NextHop, change: i32) {
        let NextHop::Group(group) = object else {
            return;
        };
        for member in group.members() {
            let count = &mut self.uses[member.0 as usize].count;
            *count = count.saturating_add_signed(change);
        }
    }
}
