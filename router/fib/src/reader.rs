//! The workers' side: look-ups.

use std::sync::Arc;

use crate::lookup::{Kernel, Simd, scalar};
use crate::marks::UseMark;
use crate::nexthop::{NextHop, NextHopId};
use crate::publish::{NextHops, Shared};
use crate::writer::TableId;
use crate::{FibError, MAX_TABLES};

/// Makes readers.
#[derive(Clone, Debug)]
pub struct FibHandle(Arc<Shared>);

impl FibHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The XDP program's place; `None` if it does not read this FIB. To be called once.
    pub fn program(&self) -> Option<ProgramReader> {
        Some(ProgramReader {
            slot: self.0.program?,
            shared: self.0.clone(),
        })
    }

    /// Registers a reader. It must call [`FibReader::quiesce`] often or be offline.
    ///
    /// # Errors
    /// [`FibError::ReadersFull`].
    pub fn reader(&self) -> Result<FibReader, FibError> {
        Ok(FibReader {
            slot: self.0.register()?,
            shared: self.0.clone(),
            notes_uses: true,
        })
    }
}

/// The XDP program's place among the readers: what it may read is used again only after
/// [`ProgramReader::wait`].
#[derive(Debug)]
pub struct ProgramReader {
    shared: Arc<Shared>,
    slot: usize,
}

impl ProgramReader {
    /// Waits until all programs that may read what has been replaced so far have ended, if there is such.
    /// `grace_period` waits for an RCU grace period.
    ///
    /// # Errors
    /// `grace_period` fails; nothing is used again then.
    pub fn wait<E>(&mut self, grace_period: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let epochs = &self.shared.epochs;
        let epoch = epochs.now();
        if epochs.seen(self.slot) != epoch {
            grace_period()?;
            epochs.pass(self.slot, epoch);
        }
        Ok(())
    }
}

/// One worker's access to the tables.
#[derive(Debug)]
pub struct FibReader {
    shared: Arc<Shared>,
    slot: usize,
    notes_uses: bool,
}

impl FibReader {
    /// Longest match of IPv4 addresses in host order.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn lookup4(&self, keys: &[u32], out: &mut [NextHopId]) {
        assert_eq!(keys.len(), out.len());
        let shared = &*self.shared;
        shared.simd.lookup4(&shared.v4, keys, out);
    }

    /// Longest match of IPv6 addresses in network order.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn lookup6(&self, keys: &[[u8; 16]], out: &mut [NextHopId]) {
        assert_eq!(keys.len(), out.len());
        let shared = &*self.shared;
        shared.simd.lookup6(&shared.v6, keys, out);
    }

    /// What [`FibReader::lookup4`] finds with these instructions, so that they can be compared.
    ///
    /// # Errors
    /// [`FibError::NoSimd`] if the CPU lacks them.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup4_with(
        &self,
        simd: Simd,
        keys: &[u32],
        out: &mut [NextHopId],
    ) -> Result<(), FibError> {
        assert_eq!(keys.len(), out.len());
        Kernel::new(simd)?.lookup4(&self.shared.v4, keys, out);
        Ok(())
    }

    /// What [`FibReader::lookup6`] finds with these instructions, so that they can be compared.
    ///
    /// # Errors
    /// [`FibError::NoSimd`] if the CPU lacks them.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn lookup6_with(
        &self,
        simd: Simd,
        keys: &[[u8; 16]],
        out: &mut [NextHopId],
    ) -> Result<(), FibError> {
        assert_eq!(keys.len(), out.len());
        Kernel::new(simd)?.lookup6(&self.shared.v6, keys, out);
        Ok(())
    }

    /// Longest match of an IPv4 address in host order in one table; `None` if it has no prefix for it.
    #[inline]
    pub fn find4(&self, table: TableId, key: u32) -> Option<NextHopId> {
        match table.further() {
            Some(number) if number < MAX_TABLES => scalar::further4(&self.shared.v4, number, key),
            Some(_) => None,
            None => {
                let mut found = [NextHopId::NO_ROUTE];
                self.lookup4(&[key], &mut found);
                Some(found[0]).filter(|&found| found != NextHopId::NO_ROUTE)
            }
        }
    }

    /// Longest match of an IPv6 address in one table; `None` if it has no prefix for it.
    #[inline]
    pub fn find6(&self, table: TableId, key: [u8; 16]) -> Option<NextHopId> {
        let address = u128::from_be_bytes(key);
        match table.further() {
            Some(number) if number < MAX_TABLES => {
                scalar::further6(&self.shared.v6, number, address)
            }
            Some(_) => None,
            None => {
                let mut found = [NextHopId::NO_ROUTE];
                self.lookup6(&[key], &mut found);
                Some(found[0]).filter(|&found| found != NextHopId::NO_ROUTE)
            }
        }
    }

    /// Two next hops for an IPv4 address in one table: that of the longest prefix but the one of length 0,
    /// and that of length 0.
    #[inline]
    pub fn find4_longer(&self, table: TableId, key: u32) -> (Option<NextHopId>, Option<NextHopId>) {
        let [longer, default] = match table.further() {
            Some(number) if number < MAX_TABLES => scalar::longer4(&self.shared.v4, number, key),
            Some(_) => [None; 2],
            None => scalar::main_longer4(&self.shared.v4, key),
        };
        (longer, default)
    }

    /// What [`FibReader::find4_longer`] says, for an IPv6 address; in the main table only if that has no
    /// prefixes of length 1 to 3 that cover 2000::/3.
    #[inline]
    pub fn find6_longer(
        &self,
        table: TableId,
        key: [u8; 16],
    ) -> (Option<NextHopId>, Option<NextHopId>) {
        let key = u128::from_be_bytes(key);
        let [longer, default] = match table.further() {
            Some(number) if number < MAX_TABLES => scalar::longer6(&self.shared.v6, number, key),
            Some(_) => [None; 2],
            None => scalar::main_longer6(&self.shared.v6, key),
        };
        (longer, default)
    }

    /// The object behind an id; the borrow ends before the next quiescent point.
    #[inline]
    pub fn next_hop(&self, id: NextHopId) -> &NextHop {
        self.next_hops().get(id)
    }

    /// All objects; the borrow ends before the next quiescent point.
    #[inline]
    pub fn next_hops(&self) -> NextHops<'_> {
        self.shared.next_hops()
    }

    /// Records that packets were sent to an unconfirmed neighbour.
    #[inline]
    pub fn note_use(&self, neighbour: UseMark) {
        if self.notes_uses {
            self.shared.marks.note(neighbour);
        }
    }

    /// This reader sends nothing: [`FibReader::note_use`] does nothing from now on.
    pub fn only_look(&mut self) {
        self.notes_uses = false;
    }

    /// Marks a quiescent point: this reader holds nothing that it has read before.
    #[inline]
    pub fn quiesce(&mut self) {
        self.shared.epochs.quiesce(self.slot);
    }

    /// Call it before a sleep: this reader will not read until [`FibReader::online`].
    pub fn offline(&mut self) {
        self.shared.epochs.offline(self.slot);
    }

    /// Call it after a sleep.
    pub fn online(&mut self) {
        self.shared.epochs.online(self.slot);
    }
}

impl Drop for FibReader {
    fn drop(&mut self) {
        self.shared.epochs.unregister(self.slot);
    }
}
