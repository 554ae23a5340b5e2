//! The control side of next hops: objects, and how many prefixes and groups refer to them.

use crate::FibError;
use crate::ids::Use;
use crate::marks::UseMark;
use crate::nexthop::{NextHop, NextHopId};
use crate::writer::FibWriter;

impl FibWriter {
    /// Adds a next-hop object.
    ///
    /// # Errors
    /// [`FibError::NextHopsFull`]; for groups also [`FibError::NoSuchNextHop`] and
    /// [`FibError::NestedGroup`].
    pub fn add_next_hop(&mut self, object: NextHop) -> Result<NextHopId, FibError> {
        self.add(object, false)
    }

    /// Adds an object that only a host's prefix will refer to. There may be very many of these, so they get
    /// ids that do not fit into 16-bit entries.
    ///
    /// # Errors
    /// As [`Self::add_next_hop`].
    pub fn add_host(&mut self, object: NextHop) -> Result<NextHopId, FibError> {
        self.add(object, true)
    }

    fn add(&mut self, object: NextHop, host: bool) -> Result<NextHopId, FibError> {
        self.check_members(&object)?;
        let full = FibError::NextHopsFull(self.max_next_hops);
        let id = self.ids.take(host).ok_or(full)?;
        if self.uses.len() <= id as usize {
            self.uses.resize(id as usize + 1, Use::default());
        }
        self.next_hops += 1;
        self.uses[id as usize] = Use {
            count: 0,
            taken: true,
        };
        self.count_members(&object, 1);
        // nothing is replaced: an id is taken again only after its object was freed
        drop(self.put(id, Some(object)));
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
        let old = self.shared.next_hops().get(id).clone();
        self.count_members(&old, -1);
        let replaced = self.put(id.0, Some(object));
        self.retire(replaced, None);
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
        let old = self.shared.next_hops().get(id).clone();
        self.count_members(&old, -1);
        self.uses[id.0 as usize].taken = false;
        self.next_hops -= 1;
        let replaced = self.put(id.0, None);
        self.retire(replaced, Some(id.0));
        Ok(())
    }

    /// Whether packets were sent to a neighbour ([`crate::FibReader::note_use`]) since the last call for it.
    pub fn take_use(&self, neighbour: UseMark) -> bool {
        self.shared.marks.take(neighbour)
    }

    /// How many more objects can be added. A removed object makes room once no reader can hold it.
    pub fn next_hop_room(&self) -> usize {
        self.ids.room()
    }

    /// Memory of the objects and of what is kept for each, octets.
    pub(crate) fn next_hop_bytes(&self) -> usize {
        let each = size_of::<NextHop>() + size_of::<*mut NextHop>();
        self.group_octets + self.next_hops * each + self.uses.capacity() * size_of::<Use>()
    }

    /// The object behind an id.
    pub fn next_hop(&self, id: NextHopId) -> Option<&NextHop> {
        self.check(id)
            .ok()
            .map(|()| self.shared.next_hops().get(id))
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
            if matches!(self.shared.next_hops().get(member), NextHop::Group(_)) {
                return Err(FibError::NestedGroup(member.0));
            }
        }
        Ok(())
    }

    fn count_members(&mut self, object: &NextHop, change: i32) {
        let NextHop::Group(group) = object else {
            return;
        };
        let octets = group.octets().cast_signed() * change as isize;
        self.group_octets = self.group_octets.saturating_add_signed(octets);
        for member in group.members() {
            let count = &mut self.uses[member.0 as usize].count;
            *count = count.saturating_add_signed(change);
        }
    }
}
