//! The ids of next hops: which are free, and how often the others are used.

use crate::node::FAR;

/// The state of an id.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    /// Prefixes and groups that refer to it.
    pub(crate) count: u32,
    pub(crate) taken: bool,
}

/// Ids that are free.
#[derive(Debug)]
pub(crate) struct Ids {
    /// `near`: ids that fit into 16-bit entries, so that IPv4 look-ups can end in the first node.
    /// `far`: the others.
    near: Range,
    far: Range,
}

#[derive(Debug)]
struct Range {
    /// Ids from here on have never been used.
    next: u32,
    end: u32,
    /// Free ids below `next`.
    free: Vec<u32>,
}

impl Range {
    fn new(next: u32, end: u32) -> Self {
        Self {
            next,
            end: end.max(next),
            free: vec![],
        }
    }

    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            self.next = (self.next < self.end).then_some(self.next + 1)?;
            Some(self.next - 1)
        })
    }

    fn room(&self) -> usize {
        self.free.len() + (self.end - self.next) as usize
    }
}

impl Ids {
    /// 1 to `most`; 0 is [`crate::NextHopId::NO_ROUTE`].
    pub(crate) fn new(most: u32) -> Self {
        let first_far = u32::from(FAR) - 1; // a leaf is the id plus one
        Self {
            near: Range::new(1, first_far.min(most + 1)),
            far: Range::new(first_far, most + 1),
        }
    }

    pub(crate) fn take(&mut self, host: bool) -> Option<u32> {
        let Self { near, far } = self;
        if host {
            far.take().or_else(|| near.take())
        } else {
            near.take().or_else(|| far.take())
        }
    }

    pub(crate) fn give(&mut self, id: u32) {
        let range = if id + 1 < FAR.into() {
            &mut self.near
        } else {
            &mut self.far
        };
        range.free.push(id);
    }

    pub(crate) fn room(&self) -> usize {
        self.near.room() + self.far.room()
    }
}
