//! The interface of a subject.

use std::hint::black_box;

use crate::{Prefix, Route};

/// Octets in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory that readers may touch.
    pub readers: u64,
    /// All memory: what readers may touch, and the writer's lists.
    pub total: u64,
}

/// The writer's side of a FIB. Next hops are numbers from 1 to the limit given at its creation.
pub trait Fib<P: Prefix> {
    /// Adds a prefix or changes its next hop.
    ///
    /// # Errors
    /// If the FIB refuses.
    fn insert(&mut self, prefix: P, next_hop: u32) -> anyhow::Result<()>;

    /// Removes a prefix.
    ///
    /// # Errors
    /// If the FIB refuses or does not have it.
    fn remove(&mut self, prefix: P) -> anyhow::Result<()>;

    /// Loads a table into the empty FIB, in its fastest way.
    ///
    /// # Errors
    /// If the FIB refuses.
    fn load(&mut self, routes: &[Route<P>]) -> anyhow::Result<()> {
        routes
            .iter()
            .try_for_each(|route| self.insert(route.prefix, route.next_hop))
    }

    /// Memory in use.
    fn memory(&self) -> Memory;

    /// Names of the look-up methods. Each is a subject of look-up measurements; the first is also
    /// the name of the FIB.
    fn paths(&self) -> Vec<&'static str>;

    /// A reader that uses one of [`Fib::paths`].
    ///
    /// # Errors
    /// If there is no room for another reader.
    fn reader(&self, path: usize) -> anyhow::Result<Box<dyn Reader<P::Key>>>;
}

/// A worker's side of a FIB.
pub trait Reader<K>: Send {
    /// Looks a vector up into the subject's own buffer, in its own form.
    fn look_up(&mut self, keys: &[K]);

    /// The next-hop number of a key of the last vector; 0 if there is no route.
    fn answer(&self, index: usize) -> u32;
}

/// Most keys of one vector.
pub const MAX_VECTOR: usize = 256;

/// The ends of a look-up: reads the keys, and looks nothing up.
#[derive(Clone, Debug, Default)]
pub struct KeysAlone<K>(Vec<K>);

impl<K: Copy + Send> Reader<K> for KeysAlone<K> {
    fn look_up(&mut self, keys: &[K]) {
        self.0.clear();
        self.0.extend_from_slice(keys);
        black_box(&self.0);
    }

    fn answer(&self, _: usize) -> u32 {
        0
    }
}
