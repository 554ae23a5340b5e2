//! Bora's own FIB as a subject.

use std::marker::PhantomData;

use anyhow::{Context, ensure};
use bora_fib::{
    FamilyStats, FibConfig, FibError, FibHandle, FibReader, FibStats, FibWriter, NextHop,
    NextHopId, Prefix4, Prefix6,
};

use crate::subject::{Fib, MAX_VECTOR, Memory, Reader};
use crate::{Prefix, Route};

/// Updates between two calls of [`FibWriter::reclaim`], whose time counts as update time.
const RECLAIM_EVERY: u32 = 64;

/// The functions of Bora's FIB for a family.
pub trait Family: Prefix {
    /// `insert4`, `insert6`.
    ///
    /// # Errors
    /// The writer's.
    fn insert(self, writer: &mut FibWriter, id: NextHopId) -> Result<(), FibError>;
    /// `load4`, `load6`; returns how many prefixes found no room.
    ///
    /// # Errors
    /// The writer's.
    fn load(writer: &mut FibWriter, routes: &[(Self, NextHopId)]) -> Result<usize, FibError>;
    /// `remove4`, `remove6`; returns whether the prefix existed.
    fn remove(self, writer: &mut FibWriter) -> bool;
    /// `lookup4`, `lookup6`.
    fn look_up(reader: &FibReader, keys: &[Self::Key], out: &mut [NextHopId]);
    /// The statistics of the family.
    fn stats(stats: &FibStats) -> &FamilyStats;
}

macro_rules! family {
    ($prefix:ty, $insert:ident, $load:ident, $remove:ident, $lookup:ident, $stats:ident) => {
        impl Family for $prefix {
            fn insert(self, writer: &mut FibWriter, id: NextHopId) -> Result<(), FibError> {
                writer.$insert(self, id).map(|_| ())
            }

            fn load(
                writer: &mut FibWriter,
                routes: &[(Self, NextHopId)],
            ) -> Result<usize, FibError> {
                writer.$load(routes).map(|loaded| loaded.refused.len())
            }

            fn remove(self, writer: &mut FibWriter) -> bool {
                writer.$remove(self).is_some()
            }

            fn look_up(reader: &FibReader, keys: &[Self::Key], out: &mut [NextHopId]) {
                reader.$lookup(keys, out);
            }

            fn stats(stats: &FibStats) -> &FamilyStats {
                &stats.$stats
            }
        }
    };
}
family!(Prefix4, insert4, load4, remove4, lookup4, ipv4);
family!(Prefix6, insert6, load6, remove6, lookup6, ipv6);

/// A FIB of one family.
pub struct Bora<P> {
    writer: FibWriter,
    handle: FibHandle,
    name: &'static str,
    /// The FIB's ids of next hops 1, 2, ...
    next_hops: Vec<NextHopId>,
    /// Updates since the last reclaim.
    updates: u32,
    family: PhantomData<P>,
}

impl<P: Family> Bora<P> {
    /// An empty FIB with next hops 1 to `next_hops`, and a name for it.
    ///
    /// # Errors
    /// If there are more next hops than it can hold.
    pub fn new(name: &'static str, next_hops: u32, config: FibConfig) -> anyhow::Result<Self> {
        let (mut writer, handle) = bora_fib::new(config)?;
        let next_hops: Result<Vec<_>, _> = (0..next_hops)
            .map(|_| writer.add_next_hop(NextHop::Blackhole))
            .collect();
        Ok(Self {
            writer,
            handle,
            name,
            next_hops: next_hops?,
            updates: 0,
            family: PhantomData,
        })
    }

    fn updated(&mut self) {
        self.updates += 1;
        if self.updates.is_multiple_of(RECLAIM_EVERY) {
            self.writer.reclaim();
        }
    }
}

impl<P: Family> Fib<P> for Bora<P> {
    fn insert(&mut self, prefix: P, next_hop: u32) -> anyhow::Result<()> {
        prefix.insert(&mut self.writer, self.next_hops[next_hop as usize - 1])?;
        self.updated();
        Ok(())
    }

    fn remove(&mut self, prefix: P) -> anyhow::Result<()> {
        let removed = prefix.remove(&mut self.writer);
        removed
            .then_some(())
            .with_context(|| format!("{prefix} is not in the table"))?;
        self.updated();
        Ok(())
    }

    fn load(&mut self, routes: &[Route<P>]) -> anyhow::Result<()> {
        let id = |route: &Route<P>| (route.prefix, self.next_hops[route.next_hop as usize - 1]);
        let routes: Vec<_> = routes.iter().map(id).collect();
        let refused = P::load(&mut self.writer, &routes)?;
        ensure!(refused == 0, "no room for {refused} prefixes");
        Ok(())
    }

    fn memory(&self) -> Memory {
        let stats = self.writer.stats();
        let stats = P::stats(&stats);
        Memory {
            readers: stats.table_bytes as u64,
            total: (stats.table_bytes + stats.control_bytes) as u64,
        }
    }

    fn paths(&self) -> Vec<&'static str> {
        vec![self.name]
    }

    fn reader(&self, _: usize) -> anyhow::Result<Box<dyn Reader<P::Key>>> {
        let ids = self.next_hops.iter().map(|id| id.get()).max().unwrap_or(0);
        let mut numbers = vec![0; ids as usize + 1];
        for (number, id) in (1..).zip(&self.next_hops) {
            numbers[id.get() as usize] = number;
        }
        Ok(Box::new(Worker::<P> {
            reader: self.handle.reader()?,
            found: [NextHopId::NO_ROUTE; MAX_VECTOR],
            numbers,
            family: PhantomData,
        }))
    }
}

/// A worker with its output buffer.
struct Worker<P> {
    reader: FibReader,
    found: [NextHopId; MAX_VECTOR],
    /// The next-hop number of each id.
    numbers: Vec<u32>,
    family: PhantomData<P>,
}

impl<P: Family> Reader<P::Key> for Worker<P> {
    fn look_up(&mut self, keys: &[P::Key]) {
        P::look_up(&self.reader, keys, &mut self.found[..keys.len()]);
        // once a vector, as workers do
        self.reader.quiesce();
    }

    fn answer(&self, index: usize) -> u32 {
        self.numbers[self.found[index].get() as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bora_fib::Simd;

    use super::*;
    use crate::churn::{Stream, concurrent, latencies};
    use crate::keys::{Pattern, generate};
    use crate::measure::{Disturbance, disturbed, warm};
    use crate::{check, tables};

    fn loaded<P: Family>(routes: &[Route<P>], simd: Simd) -> Box<dyn Fib<P>> {
        let config = FibConfig {
            simd,
            ..FibConfig::default()
        };
        let mut fib = Bora::new("bora", tables::last_next_hop(routes), config).unwrap();
        fib.load(routes).unwrap();
        Box::new(fib)
    }

    fn run<P: Family>() {
        let routes = tables::scattered(&tables::synthetic::<P>(1, 2000), 9, 2);
        let keys = generate(Pattern::Inside, &routes, 4096, 3);
        let mut fibs = vec![loaded(&routes, Simd::Auto), loaded(&routes, Simd::Scalar)];
        check::agree(&fibs, &keys).unwrap();
        for fib in &mut fibs {
            let times = latencies(&mut **fib, &mut Stream::new(&routes, 4), 300).unwrap();
            assert_eq!((times.delete.len(), times.modify.len()), (100, 100));
        }
        check::agree(&fibs, &keys).unwrap();

        let mut reader = fibs[0].reader(0).unwrap();
        assert!(warm(&mut *reader, &keys, 64) > 0.0);
        assert!(disturbed(&mut *reader, &keys, 64, &mut Disturbance::new(1)) > 0.0);
        drop(reader);
        let (stream, time) = (&mut Stream::new(&routes, 5), Duration::from_millis(20));
        let seen = concurrent(&mut *fibs[0], stream, &keys, 64, 1000, time).unwrap();
        assert!(seen.p999 >= seen.p50 && seen.updates > 0.0);
    }

    #[test]
    fn the_methods_work_on_bora() {
        run::<Prefix4>();
        run::<Prefix6>();
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let routes = [(0, 0, 1), (10 << 24, 8, 2)].map(|(addr, len, next_hop)| Route {
            prefix: Prefix4::masked(addr, len),
            next_hop,
        });
        let keys = generate(Pattern::Inside, &routes, 1024, 3);
        let mut fibs = vec![loaded(&routes, Simd::Auto), loaded(&routes, Simd::Auto)];
        check::agree(&fibs, &keys).unwrap();
        fibs[1].insert(routes[0].prefix, 2).unwrap();
        assert!(check::agree(&fibs, &keys).is_err());
    }
}
