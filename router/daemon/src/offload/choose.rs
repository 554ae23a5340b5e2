//! Which destinations get the slots of the fast path.

/// Packets a second below which a destination is not worth a slot.
pub(super) const WORTH_IT: u64 = 10;

/// A destination that wants a slot takes the one of another only if it is busier by a quarter, so that two
/// equals do not take turns.
fn is_clearly_busier(challenger: u64, holder: u64) -> bool {
    challenger > holder + holder / 4
}

/// A slot, and the packets a second of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: usize,
    pub(super) rate: Option<u64>,
}

/// Gives slots to destinations, by packets a second: free ones first, then those of the least busy.
/// Returns pairs of slot number and index of the destination.
pub(super) fn choose(mut slots: Vec<Slot>, wanting: &[u64]) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..wanting.len()).collect();
    order.retain(|&index| wanting[index] >= WORTH_IT);
    order.sort_by_key(|&index| std::cmp::Reverse(wanting[index]));
    // free ones, then the least busy; the last is taken first
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.rate));
    let mut given = Vec::new();
    for index in order {
        let Some(slot) = slots.pop() else { break };
        let taken = slot
            .rate
            .is_none_or(|rate| is_clearly_busier(wanting[index], rate));
        if !taken {
            break;
        }
        given.push((slot.number, index));
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(rates: &[Option<u64>]) -> Vec<Slot> {
        let slot = |(number, &rate)| Slot { number, rate };
        rates.iter().enumerate().map(slot).collect()
    }

    #[test]
    fn the_busiest_get_free_slots() {
        let given = choose(
            slots(&[None, Some(50), None]),
            &[20, 500, 100, WORTH_IT - 1],
        );
        assert_eq!(given.len(), 2);
        let mut busiest: Vec<usize> = given.iter().map(|&(_, index)| index).collect();
        busiest.sort_unstable();
        assert_eq!(busiest, [1, 2]);
        assert!(
            given.iter().all(|&(slot, _)| slot != 1),
            "it holds more than 20"
        );
    }

    #[test]
    fn the_least_busy_gives_way_and_equals_stay() {
        assert_eq!(choose(slots(&[Some(80), Some(40)]), &[60]), [(1, 0)]);
        assert_eq!(choose(slots(&[Some(80), Some(40)]), &[200, 90]), [(1, 0)]);
        assert_eq!(
            choose(slots(&[Some(80), Some(40)]), &[200, 120]),
            [(1, 0), (0, 1)]
        );
        assert_eq!(choose(slots(&[Some(100)]), &[125]), []);
        assert_eq!(choose(slots(&[Some(0)]), &[WORTH_IT]), [(0, 0)]);
        assert_eq!(choose(slots(&[]), &[1000]), []);
    }
}
