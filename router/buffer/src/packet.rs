//! Frames and the packets in them.

use crate::region::{HEADROOM, Region};
use crate::tag::Tag;

/// Octets.
const CACHE_LINE: u32 = 64;

/// An empty frame: the right to use one slot of a [`Region`].
///
/// Neither `Copy` nor `Clone`: the holder of the value owns the memory behind it.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    index: u32,
    tag: Tag,
}

impl Frame {
    /// Takes ownership of the frame with this index.
    ///
    /// # Safety
    /// `index` must be below [`Region::frames`], the frame may be used with this region only, and
    /// nobody else (pool, packet or kernel ring) may own it.
    pub unsafe fn from_index(region: &Region, index: u32) -> Self {
        // SAFETY: as above.
        unsafe { Self::of(region.tag(), index) }
    }

    /// Takes ownership of the frame with this index in the region with this tag.
    ///
    /// # Safety
    /// See [`Frame::from_index`].
    pub(crate) unsafe fn of(tag: Tag, index: u32) -> Self {
        Self { index, tag }
    }

    /// Its region's tag.
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// Position in the region, counted in frames.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Offset of the frame's first octet in the region.
    pub fn offset(&self, region: &Region) -> u64 {
        self.tag.is_of(region.tag());
        u64::from(self.index) * u64::from(region.frame_size())
    }

    /// Offset in the region of a packet that this process or a peer writes to the frame;
    /// [`Region::capacity`] octets follow. It takes up to 192 octets of the headroom: frames are a
    /// power of two apart, so otherwise all headers would compete for two sets of the first-level cache.
    #[inline]
    pub fn start(&self, region: &Region) -> u64 {
        const STARTS: u32 = 4;
        // frames that follow each other differ in the set already
        let lines = self.index / 2 % STARTS;
        self.offset(region) + u64::from(HEADROOM - lines * CACHE_LINE)
    }

    /// Makes a packet of `length` octets at [`Frame::start`]; its contents are what the frame held
    /// before. Returns the frame if the packet does not fit.
    #[inline]
    pub fn into_packet(self, region: &Region, length: usize) -> Result<Packet, Frame> {
        if length > region.capacity() {
            return Err(self);
        }
        Ok(Packet {
            offset: self.start(region) as u32,
            length: length as u16,
            mark: 0,
            tag: self.tag,
        })
    }

    /// Makes the frame hold the packet that a device has written to it: `length` octets from
    /// `offset` of the region on. Returns the frame if they are not all inside it.
    #[inline]
    pub fn into_packet_at(
        self,
        region: &Region,
        offset: u64,
        length: u32,
    ) -> Result<Packet, Frame> {
        let start = self.offset(region);
        let end = start + u64::from(region.frame_size());
        if offset < start || offset > end || u64::from(length) > end - offset {
            return Err(self);
        }
        Ok(Packet {
            offset: offset as u32,
            length: length as u16,
            mark: 0,
            tag: self.tag,
        })
    }

    /// Makes a packet as [`Frame::into_packet`] does, over more sets of the cache if the packet is short.
    #[inline]
    pub fn into_packet_spread(self, region: &Region, length: usize) -> Result<Packet, Frame> {
        /// Starts are this many cache lines apart at most.
        const LINES: u32 = 24;
        let lines = self.index % LINES * CACHE_LINE;
        let mut packet = self.into_packet(region, length)?;
        if length + (LINES * CACHE_LINE) as usize <= region.capacity() {
            packet.offset += lines;
        }
        Ok(packet)
    }
}

/// A frame that holds a packet: where its octets are in the region.
#[derive(Debug)]
pub struct Packet {
    offset: u32,
    length: u16,
    mark: u8,
    tag: Tag,
}

impl Packet {
    /// Offset of the first octet in the region.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Octets from the destination MAC address to the end, without FCS.
    #[inline]
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// The mark set with [`Packet::set_mark`]; 0 at first.
    #[inline]
    pub fn mark(&self) -> u8 {
        self.mark
    }

    /// Sets a mark, which stays with the packet while this process holds it; Bora uses it for the
    /// class.
    #[inline]
    pub fn set_mark(&mut self, mark: u8) {
        self.mark = mark;
    }

    /// Cuts the packet to this length; a packet that is shorter stays as it is.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length().min(length) as u16;
    }

    /// Appends zeros up to `length` octets (Ethernet padding); false if the frame has no room.
    pub fn pad(&mut self, region: &Region, length: usize) -> bool {
        let old = self.length();
        if length <= old {
            return true;
        }
        let room = region.frame_size() - (self.offset & (region.frame_size() - 1));
        if length > room as usize {
            return false;
        }
        self.length = length as u16;
        region.octets_mut(self)[old..].fill(0);
        true
    }

    /// Takes octets from the front, as Linux's skb_pull(); false if there are fewer.
    #[inline]
    pub fn pull(&mut self, octets: usize) -> bool {
        if octets > self.length() {
            return false;
        }
        self.offset += octets as u32;
        self.length -= octets as u16;
        true
    }

    /// Octets of the frame in front of the packet.
    #[inline(always)]
    pub fn headroom(&self, region: &Region) -> usize {
        (self.offset & (region.frame_size() - 1)) as usize
    }

    /// Adds octets in front, as skb_push(): what the frame held there. If the headroom is too short, the
    /// packet is moved. False if the frame has no room.
    #[inline]
    pub fn push(&mut self, region: &Region, octets: usize) -> bool {
        if octets > self.headroom(region) {
            return self.move_and_push(region, octets);
        }
        self.offset -= octets as u32;
        self.length += octets as u16;
        true
    }

    #[cold]
    fn move_and_push(&mut self, region: &Region, octets: usize) -> bool {
        let length = self.length();
        if !self.pad(region, length + octets) {
            return false;
        }
        region.octets_mut(self).copy_within(..length, octets);
        true
    }

    /// Turns the packet into an empty frame.
    #[inline]
    pub fn into_frame(self, region: &Region) -> Frame {
        self.tag.is_of(region.tag());
        Frame {
            index: region.frame_at(self.offset.into()),
            tag: self.tag,
        }
    }
}

/// What a cache line is fetched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is only read.
    Read,
    /// It will be written: other CPUs lose their copies of it now instead of then.
    Write,
}

/// Fetches the cache line at an address, whatever is there, where the CPU can be told to.
#[inline]
pub fn prefetch(address: *const u8, purpose: Purpose) {
    #[cfg(target_arch = "x86_64")]
    match purpose {
        Purpose::Read => {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        }
        // For the baseline of the architecture compilers make a read of `_MM_HINT_ET0`. A CPU that cannot do it takes
        // it for no instruction.
        Purpose::Write => {
            // SAFETY: a prefetch changes no value and faults at no address.
            unsafe {
                core::arch::asm!(
                    "prefetchw byte ptr [{}]",
                    in(reg) address.addr(), // no pointer, because it is not followed
                    options(nomem, nostack, preserves_flags)
                );
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, purpose);
}

/// Access to the octets of packets.
impl Region {
    /// The packet's octets.
    #[inline]
    pub fn octets<'a>(&'a self, packet: &'a Packet) -> &'a [u8] {
        packet.tag.is_of(self.tag());
        let (offset, length) = (packet.offset() as usize, packet.length());
        let (memory, end) = self.raw_parts();
        assert!(offset + length <= end, "packet of another region");
        // SAFETY: in bounds by the check above; the packet owns its frame, and while it is
        // borrowed nobody can get a `&mut` to the same octets.
        unsafe { std::slice::from_raw_parts(memory.as_ptr().add(offset), length) }
    }

    /// Fetches the packet's headers into the cache.
    #[inline]
    pub fn prefetch(&self, packet: &Packet, purpose: Purpose) {
        let (memory, _) = self.raw_parts();
        let address = memory.as_ptr().wrapping_add(packet.offset() as usize);
        prefetch(address, purpose);
    }

    /// The packet's octets, to write.
    #[inline]
    #[allow(clippy::mut_from_ref)] // unique through `packet`, not through `self`
    pub fn octets_mut<'a>(&'a self, packet: &'a mut Packet) -> &'a mut [u8] {
        packet.tag.is_of(self.tag());
        let (offset, length) = (packet.offset() as usize, packet.length());
        let (memory, end) = self.raw_parts();
        assert!(offset + length <= end, "packet of another region");
        // SAFETY: in bounds by the check above; the packet owns its frame and is borrowed
        // exclusively, so this is the only reference to these octets.
        unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().add(offset), length) }
    }
}
