//! A queue of a device, and the frames that the device has through it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bora_buffer::{Frame, FrameSet, MAX_BATCH, Packet, Pool};

use crate::c::{self, BURST, SPARE};
use crate::shared::{Inner, Raw};

/// Received packets that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// More octets than a frame holds.
    pub too_long: u64,
    /// Empty, or not in a frame that the device has to receive into.
    pub malformed: u64,
}

/// One queue in each direction, for one thread at a time. When it is dropped, the frames that the device has
/// go home as soon as the device is stopped.
#[derive(Debug)]
pub struct Queue {
    raw: Raw,
    device: Arc<Inner>,
    /// Frames that the device may receive into, and those that it sends from.
    receiving: FrameSet,
    sending: FrameSet,
    /// Packets of a burst that have not been taken yet.
    ready: Vec<Packet>,
    /// Frames on their way to the device, and from it.
    free: Vec<Frame>,
    lost: Lost,
}

impl Queue {
    /// A queue without frames.
    ///
    /// # Safety
    /// `raw` is of this device, and used by no other queue.
    pub(crate) unsafe fn new(raw: Raw, device: Arc<Inner>) -> Self {
        let region = &device.memory.region;
        Self {
            receiving: FrameSet::new(region),
            sending: FrameSet::new(region),
            ready: Vec::with_capacity(BURST),
            free: Vec::with_capacity(MAX_BATCH + SPARE as usize),
            lost: Lost::default(),
            raw,
            device,
        }
    }

    /// Frames that it could still have to receive into.
    pub(crate) fn missing(&self) -> u32 {
        // SAFETY: the queue is ours alone.
        unsafe { c::bora_dpdk_missing(self.raw.0.as_ptr()) }
    }

    /// Moves up to `max` received packets to `out`; returns how many.
    pub fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let before = out.len();
        while out.len() - before < max {
            // some drivers find nothing when they are asked for few packets, so we ask for a burst
            if self.ready.is_empty() && self.burst() == 0 {
                break;
            }
            let wanted = max - (out.len() - before);
            out.extend(self.ready.drain(..wanted.min(self.ready.len())));
        }
        out.len() - before
    }

    /// Received packets that are here, at most a burst.
    pub fn waiting(&mut self) -> usize {
        if self.ready.is_empty() {
            self.burst();
        }
        self.ready.len()
    }

    /// Receives a burst; returns how many packets are ready.
    fn burst(&mut self) -> usize {
        if self.device.is_closing.load(Relaxed) {
            return 0;
        }
        let mut packets = [c::Packet::default(); BURST];
        let mut lost = c::Lost::default();
        // SAFETY: the queue is ours alone, and there is room for a burst.
        let count = unsafe {
            c::bora_dpdk_receive(self.raw.0.as_ptr(), packets.as_mut_ptr(), &raw mut lost)
        };
        self.lost.too_long += u64::from(lost.too_long);
        self.lost.malformed += u64::from(lost.malformed);
        let region = &self.device.memory.region;
        for packet in &packets[..count as usize] {
            let offset = u64::from(packet.offset);
            let Some(frame) = self.receiving.remove(region.frame_at(offset)) else {
                self.lost.malformed += 1;
                continue;
            };
            match frame.into_packet_at(region, offset, packet.length) {
                Ok(packet) => self.ready.push(packet),
                Err(frame) => {
                    self.lost.malformed += 1;
                    self.free.push(frame);
                }
            }
        }
        self.ready.len()
    }

    /// What was lost since the last call.
    pub fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    /// Gives the device the frames that it needs to receive.
    pub fn refill(&mut self, pool: &mut Pool) {
        let missing = self.missing() as usize;
        let wanted = missing.saturating_sub(self.free.len());
        pool.take_many(wanted, &mut self.free);
        let mut left = missing.min(self.free.len());
        let mut frames = [0; BURST];
        while left > 0 {
            let count = left.min(BURST);
            let given = self.free.drain(self.free.len() - count..);
            for (place, frame) in frames.iter_mut().zip(given) {
                *place = frame.index();
                self.receiving.insert(frame);
            }
            // SAFETY: the queue is ours alone; at least `count` frames are missing, and these are the
            // device's now.
            unsafe { c::bora_dpdk_refill(self.raw.0.as_ptr(), frames.as_ptr(), count as u32) };
            left -= count;
        }
    }

    /// Moves packets from the front of `packets` to the device while it takes some; returns how many.
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let region = &self.device.memory.region;
        let mut burst = [c::Packet::default(); BURST];
        let mut done = 0;
        while done < packets.len() {
            let offered = packets[done..].iter().take(BURST);
            let mut count = 0;
            for (place, packet) in burst.iter_mut().zip(offered) {
                *place = c::Packet {
                    offset: packet.offset(),
                    length: packet.length() as u32,
                };
                count += 1;
            }
            // SAFETY: the queue is ours alone; each packet owns its frame, and those that the device takes
            // are its own from here on, which `sending` says below.
            let sent = unsafe { c::bora_dpdk_transmit(self.raw.0.as_ptr(), burst.as_ptr(), count) };
            done += sent as usize;
            if sent < count {
                break;
            }
        }
        for packet in packets.drain(..done) {
            self.sending.insert(packet.into_frame(region));
        }
        done
    }

    /// Takes packets that the device shall not have; their frames come back by [`Queue::reclaim`].
    pub fn discard(&mut self, packets: &mut Vec<Packet>) -> usize {
        let region = &self.device.memory.region;
        let count = packets.len();
        self.free
            .extend(packets.drain(..).map(|packet| packet.into_frame(region)));
        count
    }

    /// Asks the device to look for what it has sent.
    pub fn clean(&mut self) {
        if !self.sending.is_empty() {
            // SAFETY: the queue is ours alone.
            unsafe { c::bora_dpdk_clean(self.raw.0.as_ptr()) };
        }
    }

    /// Takes frames back that were sent.
    pub fn reclaim(&mut self, pool: &mut Pool) {
        let mut frames = [0; BURST];
        while !self.sending.is_empty() {
            // SAFETY: the queue is ours alone, and there is room for a burst.
            let count = unsafe { c::bora_dpdk_reclaim(self.raw.0.as_ptr(), frames.as_mut_ptr()) };
            let sent = frames[..count as usize].iter();
            self.free
                .extend(sent.filter_map(|&index| self.sending.remove(index)));
            if (count as usize) < BURST {
                break;
            }
        }
        pool.give_many(self.free.drain(..));
    }

    /// Packets given to [`Queue::transmit`] or [`Queue::discard`] whose frames are not back yet.
    pub fn in_flight(&self) -> u32 {
        self.sending.len() + self.free.len() as u32
    }

    /// Frames that it has.
    pub fn frames(&self) -> u32 {
        self.receiving.len() + self.in_flight() + self.ready.len() as u32
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let region = self.device.memory.region.clone();
        let ready = self.ready.drain(..);
        let mine = ready.map(|packet| packet.into_frame(&region));
        let all = mine
            .chain(self.free.drain(..))
            .chain(self.receiving.drain())
            .chain(self.sending.drain());
        self.device.leave(all);
    }
}
