//! The packet memory as devices see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bora_buffer::Region;
use bora_linux::lock;

use crate::c;
use crate::eal::check;
use crate::error::Why;

/// How many cards have each memory, by its address.
static MAPPED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A region, with the addresses by which a device reaches it.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) region: Arc<Region>,
    /// Physical address of each page, where the device knows no others.
    iovas: Option<Vec<u64>>,
    page: u64,
    /// The card that it is mapped for.
    card: Option<u16>,
}

impl Memory {
    /// Memory for a device that is only software, in this process.
    pub(crate) fn of_software(region: Arc<Region>) -> Self {
        let page = if region.huge_pages() { 2 << 20 } else { 4096 };
        Self {
            region,
            iovas: None,
            page,
            card: None,
        }
    }

    /// Memory for a card; `None` if it knows physical addresses only, and the pages may move.
    pub(crate) fn of_card(region: Arc<Region>, card: u16) -> Option<Result<Self, Why>> {
        let mut memory = Self::of_software(region);
        // SAFETY: asks for a number.
        if unsafe { c::bora_dpdk_is_physical() } != 0 {
            if !memory.region.huge_pages() {
                return None;
            }
            let (start, length) = memory.region.raw_parts();
            let pages = (0..length).step_by(memory.page as usize);
            // SAFETY: every address is inside the region, which is mapped; nothing is read there.
            let iova = |at| unsafe { c::bora_dpdk_iova(start.as_ptr().add(at)) };
            memory.iovas = Some(pages.map(iova).collect());
        }
        let mut mapped = lock(&MAPPED);
        // SAFETY: the memory is as described, and stays until `drop` has taken it away from the card.
        let done = check(unsafe { c::bora_dpdk_map(card, &memory.describe()) });
        if let Err(why) = done {
            return Some(Err(why));
        }
        *mapped.entry(memory.key()).or_default() += 1;
        memory.card = Some(card);
        Some(Ok(memory))
    }

    fn key(&self) -> usize {
        self.region.raw_parts().0.as_ptr() as usize
    }

    /// Describes the memory to shim.c. The pointers are good as long as `self`.
    pub(crate) fn describe(&self) -> c::Memory {
        let (start, length) = self.region.raw_parts();
        let iovas = self.iovas.as_ref();
        c::Memory {
            start: start.as_ptr(),
            length: length as u64,
            frame_size: self.region.frame_size(),
            iovas: iovas.map_or(std::ptr::null(), |iovas| iovas.as_ptr()),
            page: self.page,
        }
    }

    /// Takes the memory away from the card, which must have been stopped and must not be gone yet.
    pub(crate) fn unmap(&mut self) {
        let Some(card) = self.card.take() else { return };
        let mut mapped = lock(&MAPPED);
        // SAFETY: as it was mapped in `of_card`.
        unsafe { c::bora_dpdk_unmap(card, &self.describe()) };
        let cards = mapped.entry(self.key()).or_default();
        *cards = cards.saturating_sub(1);
        if *cards == 0 {
            mapped.remove(&self.key());
            // SAFETY: no card has it any more.
            unsafe { c::bora_dpdk_forget(&self.describe()) };
        }
    }
}
