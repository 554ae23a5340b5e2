//! A hash table from what frames have to the device that they belong to: tags and address, or the ends of a tunnel.

use bora_fib::PortId;

/// No device has this number.
const FREE: PortId = PortId(u16::MAX);

/// A hash table with linear probing, at most half full.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Keys and devices; a power of two of them, or none.
    slots: Vec<(u128, PortId)>,
}

impl Places {
    /// A table of these devices by key; of several with one key the first one.
    pub(crate) fn new(devices: &[(u128, PortId)]) -> Self {
        let count = match devices.len() {
            0 => 0,
            some => (2 * some).next_power_of_two(),
        };
        let mut table = Self {
            slots: vec![(0, FREE); count],
        };
        for &(key, device) in devices {
            if let Some(at) = table.probe(key)
                && table.slots[at].1 == FREE
            {
                table.slots[at] = (key, device);
            }
        }
        table
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The device with this key.
    #[inline]
    pub(crate) fn find(&self, key: u128) -> Option<PortId> {
        let (_, found) = self.slots[self.probe(key)?];
        (found != FREE).then_some(found)
    }

    /// The slot where it is, or would be.
    #[inline]
    fn probe(&self, key: u128) -> Option<usize> {
        // two odd numbers without a pattern (those of SplitMix64)
        let high = ((key >> 64) as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (high ^ key as u64).wrapping_mul(0x94d0_49bb_1331_11eb);
        let (first, last) = ((hash >> 32) as usize, self.slots.len().wrapping_sub(1));
        (first..first + self.slots.len()).find_map(|at| {
            let &(found, device) = self.slots.get(at & last)?;
            (found == key || device == FREE).then_some(at & last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_found_and_nothing_else() {
        for count in [0, 1, 2, 63, 64, 4094] {
            let key = |number: u16| u128::from(number % 3) << 70 | u128::from(number / 3) << 33;
            let devices: Vec<_> = (0..count)
                .map(|number| (key(number), PortId(number)))
                .collect();
            let table = Places::new(&devices);
            assert_eq!(table.is_empty(), count == 0);
            for &(key, device) in &devices {
                assert_eq!(table.find(key), Some(device));
                assert_eq!(table.find(key + 1), None);
            }
        }
        let twice = Places::new(&[(0, PortId(1)), (0, PortId(2))]);
        assert_eq!(twice.find(0), Some(PortId(1)));
    }
}
