use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// RFC 4737 and copies by the book: all numbers that came are kept.
struct Naive {
    came: HashSet<u64>,
    order: Vec<u64>,
    flows: u64,
    reach: u64,
}

impl Naive {
    fn note(&mut self, n: u64) -> Arrival {
        let next = self.came.iter().max().map_or(0, |highest| highest + 1);
        // the window reaches back in words of 64
        if n < (next.div_ceil(64) * 64).saturating_sub(self.reach) {
            return Arrival::TooLate;
        }
        let overtaken = |later: &&u64| **later > n && (**later - n).is_multiple_of(self.flows);
        let reordered = self.came.iter().any(|later| overtaken(&later));
        if !self.came.insert(n) {
            return Arrival::Copy;
        }
        let first_later = self.order.iter().position(|&other| other > n);
        self.order.push(n);
        match (reordered, first_later) {
            (true, Some(place)) => Arrival::Reordered((self.order.len() - 1 - place) as u64),
            _ => Arrival::InOrder,
        }
    }
}

/// Numbers that go up, with steps forth and back of all sizes.
fn any_numbers() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![
        6 => Just(1i64),
        2 => -5i64..5,
        1 => -70i64..70,
        1 => -400i64..400,
    ];
    proptest::collection::vec(step, 1..200).prop_map(|steps| {
        let mut at = 0i64;
        let numbers = steps.iter().map(|step| {
            at = (at + step).max(0);
            at as u64
        });
        numbers.collect()
    })
}

proptest! {
    #[test]
    fn window_is_as_by_the_book(numbers in any_numbers(), flows in prop_oneof![Just(1), 2u32..5, 20u32..300, Just(NOTED_FLOWS + 1)]) {
        let mut window = Window::new(256, flows);
        let mut naive = Naive { came: HashSet::new(), order: Vec::new(), flows: flows.into(), reach: 256 };
        for (place, &n) in numbers.iter().enumerate() {
            prop_assert_eq!(window.note(n, 0), naive.note(n), "{} at {}", n, place);
        }
        prop_assert_eq!(window.next(), numbers.iter().max().unwrap() + 1);
    }

    #[test]
    fn very_many_flows_are_judged_as_few_are(numbers in any_numbers()) {
        // the bitmap alone, as with very many flows
        let mut noted = Window::new(1024, 3);
        let mut searched = Window::new(1024, 3);
        searched.latest.clear();
        for &n in &numbers {
            prop_assert_eq!(noted.note(n, 0), searched.note(n, 0));
        }
    }
}

fn last_hole(numbers: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut window = Window::new(256, 1);
    for n in numbers {
        window.note(n, n * 10);
    }
    window.last_hole()
}

#[test]
fn the_last_hole_is_one_that_stayed_open() {
    assert_eq!(last_hole([0, 1, 2]), None);
    assert_eq!(last_hole([3]), Some(30), "the first are missing");
    assert_eq!(last_hole([0, 2, 3, 6, 7]), Some(60));
    assert_eq!(
        last_hole([0, 2, 3, 6, 5, 4]),
        Some(20),
        "the second was filled"
    );
    assert_eq!(last_hole([0, 2, 1, 3]), None);
    // late by one, again and again, after a hole of one
    let swapped = (1..200).flat_map(|pair| [2 * pair + 1, 2 * pair]);
    assert_eq!(last_hole([0].into_iter().chain(swapped)), Some(30));
}

#[test]
fn holes_beyond_the_remembered_are_forgotten() {
    let swapped = (0..1000).flat_map(|pair| [2 * pair + 1, 2 * pair]);
    let holes = [0, 2]
        .into_iter()
        .chain((0..10).map(|n| 4 + 2 * n))
        .chain(swapped.map(|n| n + 30));
    let mut window = Window::new(1 << 14, 1);
    for n in holes {
        window.note(n, n);
    }
    assert_eq!(window.holes.len(), HOLES);
    assert_eq!(window.last_hole(), None);
    window.note(1_000_000, 7);
    assert_eq!(window.last_hole(), Some(7));
}

#[test]
fn a_jump_over_the_whole_window_leaves_nothing_behind() {
    let mut window = Window::new(128, 1);
    for n in 0..128 {
        window.note(n, 0);
    }
    assert_eq!(window.note(1 << 47, 0), Arrival::InOrder);
    assert_eq!(window.note((1 << 47) - 1, 0), Arrival::Reordered(1));
    assert_eq!(window.note(0, 0), Arrival::TooLate);
}
