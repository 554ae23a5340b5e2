//! Free frames: a last-in-first-out list for each worker, over a shared reserve.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::{Frame, Region};

/// The shared reserve: free frames that are on no worker's list.
#[derive(Clone, Debug)]
pub struct SharedFrames(Arc<ArrayQueue<Frame>>);

impl SharedFrames {
    /// All frames of a region that was just made.
    pub fn of_new_region(region: &Region) -> Self {
        let queue = ArrayQueue::new(region.frames().max(1) as usize);
        for index in 0..region.frames() {
            // SAFETY: the region is new, so nobody owns any frame, and each index occurs once.
            let frame = unsafe { Frame::from_index(region, index) };
            queue.push(frame).expect("there is a place for each frame");
        }
        Self(Arc::new(queue))
    }

    /// Gives a frame back to the reserve (from a punt, or a port taken down).
    pub fn give(&self, frame: Frame) {
        self.0.push(frame).expect("there is a place for each frame");
    }

    /// Frames in the reserve now.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the reserve is used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How a pool was used.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolStats {
    /// Frames taken from the worker's own list.
    pub hits: u64,
    /// Frames fetched from the reserve.
    pub refilled: u64,
    /// Frames given back to the reserve.
    pub spilled: u64,
    /// Requests that found list and reserve empty.
    pub exhausted: u64,
}

/// One worker's free frames: the frame freed last is used next, because it is still in the cache
/// (the recycling list of Bianco05).
#[derive(Debug)]
pub struct Pool {
    free: Vec<Frame>,
    limit: usize,
    /// Frames moved between list and reserve at once.
    exchange: usize,
    shared: SharedFrames,
    stats: PoolStats,
}

impl Pool {
    /// Most frames moved between list and reserve at once.
    const EXCHANGE: usize = 64;

    /// A pool that keeps at most `limit` frames on its list, at least one. With a small limit
    /// nearly every frame comes from the reserve, which is first in, first out.
    pub fn new(shared: SharedFrames, limit: usize) -> Self {
        let limit = limit.max(1);
        Self {
            free: Vec::with_capacity(limit),
            limit,
            exchange: limit.div_ceil(2).min(Self::EXCHANGE),
            shared,
            stats: PoolStats::default(),
        }
    }

    /// A free frame, or `None` if list and reserve are empty.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        if let Some(frame) = self.free.pop() {
            self.stats.hits += 1;
            return Some(frame);
        }
        self.refill();
        let frame = self.free.pop();
        self.stats.exhausted += u64::from(frame.is_none());
        frame
    }

    /// Moves up to `count` free frames to the end of `out`.
    #[inline]
    pub fn take_many(&mut self, count: usize, out: &mut Vec<Frame>) {
        let own = count.min(self.free.len());
        out.extend(self.free.drain(self.free.len() - own..));
        self.stats.hits += own as u64;
        for _ in own..count {
            let Some(frame) = self.take() else { break };
            out.push(frame);
        }
    }

    /// Puts frames back.
    #[inline]
    pub fn give_many(&mut self, frames: impl ExactSizeIterator<Item = Frame>) {
        if self.free.len() + frames.len() <= self.limit {
            self.free.extend(frames);
        } else {
            frames.for_each(|frame| self.give(frame));
        }
    }

    /// Puts a frame back.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        if self.free.len() >= self.limit {
            self.spill();
        }
        self.free.push(frame);
    }

    /// Frames on the worker's own list.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether the worker's own list is empty.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// How it was used so far.
    pub fn stats(&self) -> PoolStats {
        self.stats
    }

    #[cold]
    fn refill(&mut self) {
        while self.free.len() < self.exchange {
            let Some(frame) = self.shared.0.pop() else {
                break;
            };
            self.stats.refilled += 1;
            self.free.push(frame);
        }
    }

    #[cold]
    fn spill(&mut self) {
        for frame in self.free.drain(..self.exchange) {
            self.stats.spilled += 1;
            self.shared.give(frame);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for frame in self.free.drain(..) {
            self.shared.give(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_list_the_frame_freed_first_is_used_first() {
        let region = Region::new(8, 2048).unwrap();
        let mut pool = Pool::new(SharedFrames::of_new_region(&region), 1);
        let held: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        let mut order: Vec<u32> = held.iter().map(Frame::index).collect();
        held.into_iter().for_each(|frame| pool.give(frame));
        assert_eq!(pool.len(), 1);
        let again: Vec<u32> = std::iter::from_fn(|| pool.take())
            .map(|frame| frame.index())
            .collect();
        order.rotate_right(1); // the one frame on the list, then the others in order
        assert_eq!(again, order);
    }

    #[test]
    fn last_freed_is_used_next_and_none_is_lost() {
        let region = Region::new(1024, 2048).unwrap();
        let shared = SharedFrames::of_new_region(&region);
        let mut pool = Pool::new(shared.clone(), 128);
        let mut held: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(held.len(), 1024);
        assert_eq!(pool.stats().exhausted, 1);
        let last = held.pop().unwrap();
        let index = last.index();
        pool.give(last);
        assert_eq!(pool.take().unwrap().index(), index);
        held.drain(..).for_each(|frame| pool.give(frame));
        assert!(pool.len() <= 128 && pool.stats().spilled > 0);
        drop(pool);
        // the frame taken last was dropped by the test itself
        assert_eq!(shared.len(), 1023);
    }
}
