//! The writer's side: changes are made one at a time, and readers see each at once.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::family::{Family, Further, V4, V6};
use crate::ids::{Ids, Use};
use crate::nexthop::{NextHop, NextHopId};
use crate::program::{ProgramHops, ProgramMap};
use crate::publish::{RetiredNextHop, Shared};
use crate::stats::FibStats;
use crate::stride::Leaf;
use crate::table::{Full, Route, Table};
use crate::{FibConfig, FibError, Prefix4, Prefix6};

/// The result of a bulk load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded<P> {
    /// Prefixes that are new.
    pub added: usize,
    /// Prefixes that existed already, with this or another next hop.
    pub replaced: usize,
    /// Prefixes that found no room; they keep the next hop they had before.
    pub refused: Vec<P>,
}

/// Changes the tables; there is one for each FIB.
pub struct FibWriter {
    pub(crate) shared: Arc<Shared>,
    v4: Table<V4>,
    v6: Table<V6>,
    limits: [usize; 2],
    /// Epoch of the last reclaim that freed something.
    reclaimed: u64,
    pub(crate) ids: Ids,
    pub(crate) max_next_hops: u32,
    /// Number of objects.
    pub(crate) next_hops: usize,
    /// Uses by id, up to the highest id that has been in use.
    pub(crate) uses: Vec<Use>,
    /// Octets of the lists in groups.
    pub(crate) group_octets: usize,
    /// Replaced objects, with the epoch that readers must pass.
    pub(crate) retired: VecDeque<(u64, Retired)>,
    /// The next hops as the XDP program reads them.
    program: Option<ProgramHops>,
}

/// What a new object of an id leaves over.
pub(crate) struct Retired {
    object: Option<RetiredNextHop>,
    /// The program's adjacency.
    adjacency: Option<u32>,
    /// An id to free.
    id: Option<u32>,
}

/// The leaf of an id.
fn leaf(id: NextHopId) -> Leaf {
    id.0 + 1
}

/// The id of a leaf; `None` for leaf 0.
fn id(leaf: Leaf) -> Option<NextHopId> {
    leaf.checked_sub(1).map(NextHopId)
}

/// A table of one IP version: the main one, or a further one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) Option<u16>);

impl TableId {
    /// The main table: 18 (21) bits of root.
    pub const MAIN: Self = Self(None);

    /// Its number among the further tables.
    pub fn number(self) -> Option<u16> {
        self.0
    }

    pub(crate) fn further(self) -> Further {
        self.0.map(usize::from)
    }
}

macro_rules! family {
    ($prefix:ty, $table:ident, $limit:literal, $shift:literal, $int:ty,
     [$insert:ident, $remove:ident, $load:ident, $get:ident, $part:ident, $len:ident,
      $longest:ident],
     [$insert_main:ident, $remove_main:ident, $load_main:ident, $get_main:ident, $iter:ident,
      $part_main:ident, $len_main:ident, $longest_main:ident],
     [$add_table:ident, $remove_table:ident]) => {
        /// Makes an empty further table.
        ///
        /// # Errors
        /// [`FibError::TablesFull`].
        pub fn $add_table(&mut self) -> Result<TableId, FibError> {
            let number = self.$table.add_further().ok_or(FibError::TablesFull)?;
            Ok(TableId(Some(number as u16)))
        }

        /// Removes a further table with its prefixes. Its number may be another table's soon, so no
        /// reader should use it any more.
        pub fn $remove_table(&mut self, table: TableId) {
            if let Some(number) = table.further() {
                for leaf in self.$table.remove_further(&self.shared, number) {
                    self.release(id(leaf));
                }
            }
        }

        /// Adds a prefix to a table or changes its next hop; returns the one it had.
        ///
        /// # Errors
        /// [`FibError::NoSuchNextHop`], [`FibError::NoSuchTable`], [`FibError::TableFull`]; nothing is
        /// changed then.
        pub fn $insert(
            &mut self,
            table: TableId,
            prefix: $prefix,
            next_hop: NextHopId,
        ) -> Result<Option<NextHopId>, FibError> {
            self.check(next_hop)?;
            let further = known(&self.$table, table)?;
            let addr = u128::from(prefix.addr()) << $shift;
            let place = (addr, prefix.len().into());
            let old = self
                .$table
                .set(&self.shared, further, place, leaf(next_hop))
                .map_err(|_| FibError::TableFull(self.limits[$limit]))?;
            self.uses[next_hop.0 as usize].count += 1;
            self.release(id(old));
            Ok(id(old))
        }

        /// Adds a prefix to the main table or changes its next hop; returns the one it had.
        ///
        /// # Errors
        /// [`FibError::NoSuchNextHop`], [`FibError::TableFull`]; nothing is changed then.
        pub fn $insert_main(
            &mut self,
            prefix: $prefix,
            next_hop: NextHopId,
        ) -> Result<Option<NextHopId>, FibError> {
            self.$insert(TableId::MAIN, prefix, next_hop)
        }

        /// Adds or changes many prefixes of a table, much faster than one by one. The last of equal
        /// prefixes counts.
        ///
        /// # Errors
        /// [`FibError::NoSuchNextHop`], [`FibError::NoSuchTable`]; nothing is changed then. Prefixes that
        /// find no room are in [`Loaded::refused`].
        pub fn $load(
            &mut self,
            table: TableId,
            routes: &[($prefix, NextHopId)],
        ) -> Result<Loaded<$prefix>, FibError> {
            for &(_, next_hop) in routes {
                self.check(next_hop)?;
            }
            let further = known(&self.$table, table)?;
            let route = |&(prefix, next_hop): &($prefix, NextHopId)| -> Route {
                let addr = u128::from(prefix.addr()) << $shift;
                (addr, prefix.len().into(), leaf(next_hop))
            };
            let mut loaded = Loaded::default();
            let uses = &mut self.uses;
            let routes = routes.iter().map(route).collect();
            let done = |(addr, len, new): Route, old: Result<Leaf, Full>| match old {
                Ok(old) => {
                    let count = |leaf: Leaf| id(leaf).map(|id| id.0 as usize);
                    count(new).map(|id| uses[id].count += 1);
                    count(old).map(|id| uses[id].count -= 1);
                    loaded.added += usize::from(old == 0);
                    loaded.replaced += usize::from(old != 0);
                }
                Err(_) => {
                    let addr = (addr >> $shift) as $int;
                    loaded.refused.push(<$prefix>::masked(addr, len as u8));
                }
            };
            self.$table.load(&self.shared, further, routes, done);
            Ok(loaded)
        }

        /// Adds or changes many prefixes of the main table.
        ///
        /// # Errors
        /// [`FibError::NoSuchNextHop`]; nothing is changed then.
        pub fn $load_main(
            &mut self,
            routes: &[($prefix, NextHopId)],
        ) -> Result<Loaded<$prefix>, FibError> {
            self.$load(TableId::MAIN, routes)
        }

        /// Removes a prefix from a table; returns the next hop it had. A removal may exceed the limit of
        /// nodes until readers have left the old ones. If readers reach no quiescent point until twice
        /// the limit and 64 MiB more are used up, it keeps the prefix and returns `None`.
        pub fn $remove(&mut self, table: TableId, prefix: $prefix) -> Option<NextHopId> {
            let further = known(&self.$table, table).ok()?;
            let place = (u128::from(prefix.addr()) << $shift, prefix.len().into());
            let old = self.$table.set(&self.shared, further, place, 0);
            let old = id(old.ok()?);
            self.release(old);
            old
        }

        /// Removes a prefix from the main table; returns the next hop it had.
        pub fn $remove_main(&mut self, prefix: $prefix) -> Option<NextHopId> {
            self.$remove(TableId::MAIN, prefix)
        }

        /// The next hop of exactly this prefix of a table.
        pub fn $get(&self, table: TableId, prefix: $prefix) -> Option<NextHopId> {
            let addr = u128::from(prefix.addr()) << $shift;
            id(self.$table.get(table.further(), addr, prefix.len().into()))
        }

        /// The next hop of exactly this prefix of the main table.
        pub fn $get_main(&self, prefix: $prefix) -> Option<NextHopId> {
            self.$get(TableId::MAIN, prefix)
        }

        /// All prefixes of the main table, in no order.
        pub fn $iter(&self) -> impl Iterator<Item = ($prefix, NextHopId)> {
            self.$table.iter().filter_map(|(addr, len, leaf)| {
                let prefix = <$prefix>::masked((addr >> $shift) as $int, len as u8);
                Some((prefix, id(leaf)?))
            })
        }

        /// About `count` prefixes of a table from `from` on, and where to continue; `None` after the
        /// last. Start with 0. Prefixes may be changed between calls.
        pub fn $part(
            &self,
            table: TableId,
            from: usize,
            count: usize,
        ) -> (Vec<($prefix, NextHopId)>, Option<usize>) {
            let (found, next) = match table.further() {
                None => self.$table.part(from, count),
                Some(number) => self.$table.part_of(number, from, count),
            };
            let named = |(addr, len, leaf): Route| {
                let prefix = <$prefix>::masked((addr >> $shift) as $int, len as u8);
                Some((prefix, id(leaf)?))
            };
            (found.into_iter().filter_map(named).collect(), next)
        }

        /// About `count` prefixes of the main table from `from` on, and where to continue; `None` after the
        /// last.
        pub fn $part_main(
            &self,
            from: usize,
            count: usize,
        ) -> (Vec<($prefix, NextHopId)>, Option<usize>) {
            self.$part(TableId::MAIN, from, count)
        }

        /// Number of prefixes of a table.
        pub fn $len(&self, table: TableId) -> usize {
            match table.further() {
                None => self.$table.len,
                Some(number) => self.$table.further(number).map_or(0, |table| table.len),
            }
        }

        /// Number of prefixes of the main table.
        pub fn $len_main(&self) -> usize {
            self.$table.len
        }

        /// The longest prefix of a table that contains an address.
        pub fn $longest(&self, table: TableId, addr: $int) -> Option<($prefix, NextHopId)> {
            let address = u128::from(addr) << $shift;
            let (len, leaf) = self.$table.longest_match(table.further(), address)?;
            Some((<$prefix>::masked(addr, len as u8), id(leaf)?))
        }

        /// The longest prefix of the main table that contains an address.
        pub fn $longest_main(&self, addr: $int) -> Option<($prefix, NextHopId)> {
            self.$longest(TableId::MAIN, addr)
        }
    };
}

/// The number of a table, if it exists.
fn known<F: Family>(tables: &Table<F>, table: TableId) -> Result<Further, FibError> {
    match table.further() {
        Some(number) if tables.further(number).is_none() => Err(FibError::NoSuchTable(number)),
        further => Ok(further),
    }
}

impl FibWriter {
    pub(crate) fn new(
        shared: Arc<Shared>,
        config: &FibConfig,
        map: Option<ProgramMap<'_>>,
    ) -> Result<Self, FibError> {
        let limits = [config.max_bytes4, config.max_bytes6];
        let refused = FibError::NoAddressSpace(limits[0] + limits[1]);
        let program = map.map(|map| ProgramHops::new(map).ok_or(refused));
        let mut program = program.transpose()?;
        if let Some(program) = &mut program {
            let no_route = shared.next_hops().get(NextHopId::NO_ROUTE);
            let none = program.set(0, Some(no_route));
            debug_assert!(none.is_none());
        }
        Ok(Self {
            v4: Table::new(&shared, limits[0]).ok_or(refused)?,
            v6: Table::new(&shared, limits[1]).ok_or(refused)?,
            limits,
            reclaimed: 0,
            ids: Ids::new(config.max_next_hops),
            max_next_hops: config.max_next_hops,
            next_hops: 0,
            uses: vec![Use {
                count: 1,
                taken: true,
            }],
            group_octets: 0,
            retired: VecDeque::new(),
            program,
            shared,
        })
    }

    family!(
        Prefix4,
        v4,
        0,
        96,
        u32,
        [
            insert4_in,
            remove4_in,
            load4_in,
            get4_in,
            part4_in,
            len4_in,
            longest_match4_in
        ],
        [
            insert4,
            remove4,
            load4,
            get4,
            iter4,
            part4,
            len4,
            longest_match4
        ],
        [add_table4, remove_table4]
    );
    family!(
        Prefix6,
        v6,
        1,
        0,
        u128,
        [
            insert6_in,
            remove6_in,
            load6_in,
            get6_in,
            part6_in,
            len6_in,
            longest_match6_in
        ],
        [
            insert6,
            remove6,
            load6,
            get6,
            iter6,
            part6,
            len6,
            longest_match6
        ],
        [add_table6, remove_table6]
    );

    /// Whether a longer prefix lies within this one. This is quick for prefixes longer than the
    /// root's bits; for others it may check every prefix.
    pub fn has_more_specific4(&self, prefix: Prefix4) -> bool {
        let addr = u128::from(prefix.addr()) << 96;
        self.v4.has_more_specific(addr, prefix.len().into())
    }

    /// A prefix or group no longer refers to this id.
    fn release(&mut self, id: Option<NextHopId>) {
        if let Some(id) = id {
            self.uses[id.0 as usize].count -= 1;
        }
    }

    /// Frees what no reader can hold any more; returns how many objects. Call it often.
    pub fn reclaim(&mut self) -> usize {
        let passed = self.shared.epochs.passed();
        let mut count = self.v4.reclaim(&self.shared) + self.v6.reclaim(&self.shared);
        while self
            .retired
            .front()
            .is_some_and(|&(epoch, _)| epoch <= passed)
        {
            if let Some((_, retired)) = self.retired.pop_front() {
                self.free(retired);
                count += 1;
            }
        }
        if count > 0 {
            self.reclaimed = self.shared.epochs.now();
        }
        count
    }

    /// Whether something that was replaced waits for [`crate::ProgramReader::wait`].
    pub fn awaits_program(&self) -> bool {
        let (epochs, program) = (&self.shared.epochs, self.shared.program);
        program.is_some_and(|slot| epochs.seen(slot) != epochs.now())
    }

    /// Sizes and counters.
    pub fn stats(&self) -> FibStats {
        let ipv4 = self.v4.stats(&self.shared, self.limits[0]);
        let ipv6 = self.v6.stats(&self.shared, self.limits[1]);
        FibStats {
            prefixes4: self.v4.len,
            prefixes6: self.v6.len,
            next_hops: self.next_hops,
            next_hop_bytes: self.next_hop_bytes(),
            table_bytes: ipv4.table_bytes + ipv6.table_bytes,
            control_bytes: ipv4.control_bytes + ipv6.control_bytes,
            retired: self.retired.len() + ipv4.retired + ipv6.retired,
            ipv4,
            ipv6,
            epoch: self.shared.epochs.now(),
            passed: self.shared.epochs.passed(),
            reclaimed: self.reclaimed,
        }
    }

    /// Sets the object of an id for all readers.
    #[must_use]
    pub(crate) fn put(&mut self, id: u32, object: Option<NextHop>) -> Retired {
        let program = self.program.as_mut();
        let adjacency = program.and_then(|program| program.set(id, object.as_ref()));
        Retired {
            object: self.shared.set_next_hop(id, object),
            adjacency,
            id: None,
        }
    }

    /// What was replaced is freed when readers have passed this moment; the id, too, if it is given.
    pub(crate) fn retire(&mut self, replaced: Retired, id: Option<u32>) {
        let retired = Retired { id, ..replaced };
        self.retired
            .push_back((self.shared.epochs.advance(), retired));
    }

    fn free(&mut self, retired: Retired) {
        drop(retired.object);
        retired.id.into_iter().for_each(|id| self.ids.give(id));
        if let (Some(program), Some(adjacency)) = (&mut self.program, retired.adjacency) {
            program.give(adjacency);
        }
    }

    pub(crate) fn check(&self, id: NextHopId) -> Result<(), FibError> {
        let taken = self.uses.get(id.0 as usize).is_some_and(|uses| uses.taken);
        taken.then_some(()).ok_or(FibError::NoSuchNextHop(id.0))
    }
}
