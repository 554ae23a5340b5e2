//! Frames that a device holds.

use crate::tag::Tag;
use crate::{Frame, Region};

/// A set that owns frames of one region. A device returns frames by index and in any order.
#[derive(Debug)]
pub struct FrameSet {
    /// A bit for each frame.
    words: Vec<u64>,
    len: u32,
    tag: Tag,
}

const BITS: u32 = u64::BITS;

impl FrameSet {
    /// An empty set for frames of `region`.
    pub fn new(region: &Region) -> Self {
        Self {
            words: vec![0; region.frames().div_ceil(BITS) as usize],
            len: 0,
            tag: region.tag(),
        }
    }

    /// Adds a frame.
    #[inline]
    pub fn insert(&mut self, frame: Frame) {
        frame.tag().is_of(self.tag);
        let index = frame.index();
        self.words[(index / BITS) as usize] |= 1 << (index % BITS);
        self.len += 1;
    }

    /// Removes the frame with this index, if it is in the set.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<Frame> {
        let word = self.words.get_mut((index / BITS) as usize)?;
        let bit = 1 << (index % BITS);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.len -= 1;
        // SAFETY: the set owned the frame, and does not own it any more.
        Some(unsafe { Frame::of(self.tag, index) })
    }

    /// How many frames are in it.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no frame is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes all frames out.
    pub fn drain(&mut self) -> impl Iterator<Item = Frame> + '_ {
        (0..self.words.len() as u32 * BITS).filter_map(|index| self.remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedFrames;

    #[test]
    fn only_inserted_frames_come_out() {
        let region = Region::new(130, 2048).unwrap();
        let frames = SharedFrames::of_new_region(&region);
        let mut pool = crate::Pool::new(frames.clone(), 0);
        let mut set = FrameSet::new(&region);
        std::iter::from_fn(|| pool.take()).for_each(|frame| set.insert(frame));
        assert_eq!((set.len(), frames.len()), (130, 0));
        for index in [0, 63, 64, 129] {
            frames.give(set.remove(index).unwrap());
            assert!(set.remove(index).is_none(), "{index} twice");
        }
        assert!(set.remove(130).is_none() && set.remove(u32::MAX).is_none());
        set.drain().for_each(|frame| frames.give(frame));
        assert!(set.is_empty());
        assert_eq!(frames.len(), 130);
    }
}
