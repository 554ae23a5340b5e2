use std::time::Duration;

use super::decide::{Decider, Fate};
use super::hold::Hold;
use super::*;

const MS: u64 = 1_000_000;

/// Fates of `count` packets, `interval` ns apart.
fn fates(faults: &Faults, count: u64, interval: u64) -> Vec<Fate> {
    faults.check().unwrap();
    let mut decider = Decider::new(faults.clone());
    let arrivals = (0..count).map(|at| 7 * MS + at * interval);
    arrivals.map(|at| decider.decide(at)).collect()
}

fn count(fates: &[Fate], which: impl Fn(&Fate) -> bool) -> u64 {
    fates.iter().filter(|fate| which(fate)).count() as u64
}

#[test]
fn a_seed_says_it_all_and_faults_do_not_touch_each_other() {
    let lossy = Faults {
        seed: 5,
        loss: Some(Loss::random(0.1)),
        ..Faults::default()
    };
    let more = Faults {
        delay: Duration::from_millis(1),
        jitter: Some(Jitter::Exponential(Duration::from_millis(1))),
        duplication: 0.5,
        ..lossy.clone()
    };
    let lost = |faults: &Faults| -> Vec<bool> {
        let all = fates(faults, 10_000, 1000);
        all.iter().map(|fate| *fate == Fate::Lost).collect()
    };
    assert_eq!(lost(&lossy), lost(&more));
    let other = Faults { seed: 6, ..lossy };
    assert_ne!(lost(&other), lost(&more));
    assert_eq!(fates(&more, 1000, 10), fates(&more, 1000, 10));
}

#[test]
fn losses_are_as_many_and_as_long_as_they_were_set() {
    let random = Faults {
        loss: Some(Loss::random(0.05)),
        ..Faults::default()
    };
    let lost = count(&fates(&random, 100_000, 1), |fate| *fate == Fate::Lost);
    assert!((4_700..5_300).contains(&lost), "{lost}");
    let bursts = Faults {
        seed: 1,
        loss: Some(Loss {
            good: 0.0,
            bad: 1.0,
            to_bad: 0.01,
            to_good: 0.2,
        }),
        ..Faults::default()
    };
    let all = fates(&bursts, 200_000, 1);
    let lost = count(&all, |fate| *fate == Fate::Lost);
    let runs = all
        .windows(2)
        .filter(|pair| pair[0] != Fate::Lost && pair[1] == Fate::Lost);
    let length = lost as f64 / runs.count() as f64;
    // 0.01 / (0.01 + 0.2) of the time in the bad state, 1 / 0.2 packets at a time
    assert!((9_000..10_100).contains(&lost), "{lost}");
    assert!((4.7..5.3).contains(&length), "{length}");
}

#[test]
fn a_server_keeps_its_rate_and_its_buffer() {
    let faults = |rate, buffer| Faults {
        capacity: Some(Capacity { rate, buffer }),
        ..Faults::default()
    };
    // 1000 at once: 64 find room, and are served 10 us apart
    let all = fates(&faults(100_000.0, 64), 1000, 0);
    assert_eq!(count(&all, |fate| *fate == Fate::BufferFull), 936);
    for (at, fate) in all[..64].iter().enumerate() {
        let due = 7 * MS + 10_000 * (at as u64 + 1);
        assert!(matches!(fate, Fate::Passes { due: it, .. } if *it == due));
    }
    // a packet more than it serves a second, for a second: one is lost as soon as the buffer is full
    let at_rate = fates(&faults(3_000_000.0, 2), 3_000_000, 334);
    assert_eq!(count(&at_rate, |fate| *fate == Fate::BufferFull), 0);
    let above = fates(&faults(50_000.0, 100), 60_000, 16_667);
    let lost = count(&above, |fate| *fate == Fate::BufferFull);
    assert!((9_895..9_905).contains(&lost), "{lost}");
}

#[test]
fn delay_and_jitter_have_their_distributions() {
    let delays = |jitter| -> Vec<u64> {
        let faults = Faults {
            delay: Duration::from_millis(2),
            jitter,
            ..Faults::default()
        };
        let mut all: Vec<u64> = fates(&faults, 100_000, 0)
            .iter()
            .map(|fate| match fate {
                Fate::Passes { due, .. } => due - 7 * MS,
                other => panic!("{other:?}"),
            })
            .collect();
        all.sort_unstable();
        all
    };
    let near = |value: u64, expected: f64| {
        let error = value as f64 / expected - 1.0;
        assert!(error.abs() < 0.02, "{value}, not {expected}");
    };
    assert!(delays(None).iter().all(|delay| *delay == 2 * MS));
    let millisecond = Duration::from_millis(1);
    let uniform = delays(Some(Jitter::Uniform(millisecond)));
    assert!(uniform.iter().all(|delay| (2 * MS..3 * MS).contains(delay)));
    near(uniform[50_000], 2.5e6);
    near(uniform[99_000], 2.99e6);
    let exponential = delays(Some(Jitter::Exponential(millisecond)));
    near(exponential[50_000], (2.0 + 2f64.ln()) * 1e6);
    near(exponential[99_000], (2.0 + 100f64.ln()) * 1e6);
}

#[test]
fn what_is_held_back_comes_behind_as_many_as_it_should() {
    let mut hold = Hold::new();
    hold.put(0, 10);
    hold.put_behind(1, 20, 2);
    hold.put_behind(2, 30, 1);
    hold.put(3, 40);
    hold.put(4, 50);
    hold.put_behind(5, 60, 9);
    let all =
        |hold: &mut Hold<i32>, now| -> Vec<i32> { std::iter::from_fn(|| hold.take(now)).collect() };
    assert_eq!(all(&mut hold, 45), [0, 3, 2]);
    assert_eq!(all(&mut hold, 1000), [4, 1]);
    assert_eq!((hold.len(), hold.reordered()), (1, 2));
    // nothing came behind the last: late, but in its place
    let late = 60 + LONGEST_HOLD.as_nanos() as u64;
    assert!(all(&mut hold, late - 1).is_empty());
    assert_eq!(all(&mut hold, late), [5]);
    assert_eq!((hold.len(), hold.reordered()), (0, 2));
}

#[test]
fn impossible_faults_are_refused() {
    let refused = |faults: Faults| faults.check().unwrap_err().to_string();
    let none = Faults::default;
    let share = Faults {
        duplication: 1.5,
        ..none()
    };
    assert_eq!(
        refused(share),
        "duplication is 1.5, which is not between 0 and 1"
    );
    let nan = Faults {
        loss: Some(Loss::random(f64::NAN)),
        ..none()
    };
    assert!(refused(nan).contains("loss in the good state is NaN"));
    let capacity = |rate, buffer| Faults {
        capacity: Some(Capacity { rate, buffer }),
        ..none()
    };
    assert!(refused(capacity(0.0, 1)).contains("above 0"));
    assert!(refused(capacity(1e9, 0)).contains("1 at least"));
    let reordering = Some(Reordering {
        share: 0.1,
        packets: 0,
    });
    assert!(
        refused(Faults {
            reordering,
            ..none()
        })
        .contains("0 packets")
    );
    let corruption = Some(Corruption {
        share: 0.1,
        whole: 0,
        bits: 0,
    });
    assert!(
        refused(Faults {
            corruption,
            ..none()
        })
        .contains("0 bits")
    );
}
