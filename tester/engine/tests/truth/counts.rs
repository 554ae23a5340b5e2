//! What the tester counts, against a router whose faults count themselves, and against the plainest
//! offline computation from the order in which packets came out. All counts must be equal.

use std::sync::Arc;
use std::time::Duration;

use bora_apparatus::fault::{
    Capacity, Corruption, FaultCounters, Faults, Jitter, Loss, Reordering,
};
use bora_tester::clock;
use bora_tester::traffic::Traffic;
use bora_tester::trial::{Action, Bench, Counts, Trial, TrialSpec};

use super::model::{Model, testbed::Testbed, traffic, truth};

const TIME: Duration = Duration::from_millis(200);

/// Sends 20 000 packets/s a port for a tenth of a second through faults. The analyser must agree
/// with the order in which packets came out, whatever else a test expects.
fn trial(faults: Faults, traffic: &Arc<Traffic>) -> (Trial, FaultCounters) {
    let model = Model {
        faults: Faults { seed: 7, ..faults },
        ..Model::default()
    };
    let mut testbed = Testbed::new(2, &model);
    let trial = run(&mut testbed, traffic, None);
    (trial, testbed.router.counters())
}

fn run(testbed: &mut Testbed, traffic: &Arc<Traffic>, action: Option<Action>) -> Trial {
    let spec = TrialSpec {
        action,
        ..TrialSpec::steady(traffic.clone(), 20_000.0, TIME)
    };
    let trial = testbed.trial(&spec).unwrap();
    let expected = truth::count(traffic, &testbed.router.take_seen());
    for (outcome, expected) in trial.streams.iter().zip(&expected) {
        let sent = outcome.counts.sent;
        assert_eq!(outcome.counts, Counts { sent, ..*expected });
    }
    assert_eq!((trial.unknown_damaged, trial.missed), (0, 0));
    trial
}

#[test]
fn a_router_without_faults() {
    let streams = vec![
        traffic::ipv4(0, 1, 1),
        traffic::ipv4(1, 0, 100),
        traffic::ipv6(0, 1, 7),
        traffic::ipv6(1, 0, 1),
    ];
    let (trial, truth) = trial(Faults::default(), &traffic::of(streams, 128));
    let counts = trial.counts();
    assert_eq!((truth.came, truth.passed), (counts.sent, counts.received));
    // a busy machine may not let the tester send all of it
    for stream in &trial.streams {
        assert!(
            stream.counts.sent.abs_diff(counts.sent / 4) <= 64,
            "{counts:?}"
        );
        assert!(stream.counts.sent > 500, "{counts:?}");
    }
    assert_eq!(counts.lost() + counts.reordered + counts.duplicated, 0);
}

#[test]
fn losses_single_and_in_bursts() {
    let bursts = Loss {
        good: 0.001,
        bad: 0.9,
        to_bad: 0.01,
        to_good: 0.2,
    };
    for loss in [Loss::random(0.05), bursts] {
        let faults = Faults {
            loss: Some(loss),
            ..Faults::default()
        };
        let (trial, truth) = trial(faults, &traffic::one_way());
        assert_eq!(trial.counts().lost(), truth.lost);
        assert!(truth.lost > 20, "{truth:?}");
    }
}

#[test]
fn what_a_full_buffer_loses() {
    let faults = Faults {
        capacity: Some(Capacity {
            rate: 15_000.0,
            buffer: 50,
        }),
        ..Faults::default()
    };
    let (trial, truth) = trial(faults, &traffic::one_way());
    let counts = trial.counts();
    assert_eq!(counts.lost(), truth.buffer_full);
    // three quarters are served while they come, and those in the buffer afterwards
    let served = counts.sent * 3 / 4 + 50;
    assert!(counts.received.abs_diff(served) <= 2, "{counts:?}");
    // the last has waited for all of the buffer: 3.3 ms
    assert!(trial.latency().max() > 3_200_000);
}

#[test]
fn copies() {
    let faults = Faults {
        duplication: 0.1,
        ..Faults::default()
    };
    let (trial, truth) = trial(faults, &traffic::one_way());
    let counts = trial.counts();
    assert_eq!(counts.duplicated, truth.duplicated);
    assert_eq!((counts.lost(), counts.reordered), (0, 0));
    assert!(truth.duplicated > 20, "{truth:?}");
}

#[test]
fn damage_behind_the_signature() {
    let faults = Faults {
        corruption: Some(Corruption {
            share: 0.1,
            whole: 60,
            bits: 1,
        }),
        ..Faults::default()
    };
    let (trial, truth) = trial(faults, &traffic::one_way());
    let counts = trial.counts();
    assert_eq!(counts.corrupted, truth.corrupted);
    assert_eq!(counts.lost(), truth.corrupted);
    assert!(truth.corrupted > 20, "{truth:?}");
}

#[test]
fn damage_of_the_signature() {
    let faults = Faults {
        seed: 7,
        corruption: Some(Corruption {
            share: 0.2,
            whole: 40,
            bits: 1,
        }),
        ..Faults::default()
    };
    let model = Model {
        faults,
        ..Model::default()
    };
    let mut testbed = Testbed::new(2, &model);
    let traffic = traffic::of(vec![traffic::ipv4(0, 1, 1)], 64);
    let spec = TrialSpec::steady(traffic, 20_000.0, TIME);
    let trial = testbed.trial(&spec).unwrap();
    let (counts, truth) = (trial.counts(), testbed.router.counters());
    assert_eq!(counts.corrupted + trial.unknown_damaged, truth.corrupted);
    assert_eq!(counts.lost(), truth.corrupted);
    assert_eq!(
        (counts.reordered, counts.duplicated, trial.foreign),
        (0, 0, 0)
    );
    assert!(truth.corrupted > 200, "{truth:?}");
}

#[test]
fn packets_that_others_overtake() {
    for (flows, packets) in [(1, 5), (1, 100), (16, 5), (16, 40)] {
        let faults = Faults {
            reordering: Some(Reordering {
                share: 0.05,
                packets,
            }),
            ..Faults::default()
        };
        let traffic = traffic::of(vec![traffic::ipv4(0, 1, flows)], 64);
        let (trial, truth) = trial(faults, &traffic);
        let counts = trial.counts();
        assert_eq!(counts.lost() + counts.duplicated, 0);
        if flows == 1 {
            assert_eq!(counts.reordered, truth.reordered);
        } else {
            // those that only packets of other flows overtook are in order
            assert_eq!(packets > flows, counts.reordered > 0);
        }
        assert!(truth.reordered > 20, "{truth:?}");
    }
}

#[test]
fn jitter_that_reorders() {
    let faults = Faults {
        jitter: Some(Jitter::Exponential(Duration::from_micros(200))),
        ..Faults::default()
    };
    let (trial, _) = trial(faults, &traffic::of(vec![traffic::ipv6(0, 1, 3)], 128));
    // packets that a busy machine sends late leave the router in order
    assert!(trial.counts().reordered > 20, "{:?}", trial.counts());
    assert_eq!(trial.counts().lost(), 0);
}

#[test]
fn packets_out_of_the_wrong_port() {
    let model = Model {
        misrouted: 40,
        ..Model::default()
    };
    let mut testbed = Testbed::new(3, &model);
    let streams = vec![traffic::ipv4(0, 1, 1), traffic::ipv6(1, 2, 4)];
    let trial = run(&mut testbed, &traffic::of(streams, 128), None);
    let counts = trial.counts();
    assert_eq!(counts.misrouted, testbed.router.misrouted());
    assert_eq!(counts.misrouted, counts.lost());
    assert!(counts.misrouted > 20, "{counts:?}");
}

#[test]
fn an_outage() {
    let mut testbed = Testbed::new(2, &Model::default());
    let link = testbed.router.handles[0].clone();
    let action = Action {
        after: Duration::ZERO,
        run: Arc::new(move || {
            // later than now, so that none of its packets is through already, on a busy machine too
            let start = clock::now() + 30_000_000;
            link.take_down(start..start + 40_000_000);
            Ok(())
        }),
    };
    let trial = run(&mut testbed, &traffic::one_way(), Some(action));
    let truth = testbed.router.counters();
    assert_eq!(trial.counts().lost(), truth.outage);
    assert_eq!(truth.outage, 800);
    // from the last that came before it to the first that came after it
    let gap = trial.streams[0].longest_gap;
    assert!(gap.abs_diff(40_050_000) < 1_000, "{gap}");
    assert!(trial.streams[0].last_loss.is_some());
    assert!(!trial.streams[0].tail_lost);
}

#[test]
fn an_outage_that_does_not_end() {
    let mut testbed = Testbed::new(2, &Model::default());
    let link = testbed.router.handles[0].clone();
    let action = Action {
        after: Duration::ZERO,
        run: Arc::new(move || {
            link.take_down(clock::now() + 30_000_000..u64::MAX);
            Ok(())
        }),
    };
    let trial = run(&mut testbed, &traffic::one_way(), Some(action));
    let stream = &trial.streams[0];
    assert!(stream.tail_lost, "{:?}", stream.counts);
    assert!(stream.counts.received > 0);
    // each frame lost is one spacing
    let expected = stream.counts.lost() * 50_000;
    assert!(
        stream.longest_gap.abs_diff(expected) < 1_000,
        "{}",
        stream.longest_gap
    );
}

#[test]
fn everything_at_once() {
    let faults = Faults {
        seed: 0,
        loss: Some(Loss::random(0.02)),
        capacity: Some(Capacity {
            rate: 18_000.0,
            buffer: 20,
        }),
        delay: Duration::from_millis(1),
        jitter: Some(Jitter::Uniform(Duration::from_micros(200))),
        reordering: Some(Reordering {
            share: 0.02,
            packets: 3,
        }),
        duplication: 0.02,
        corruption: Some(Corruption {
            share: 0.02,
            whole: 80,
            bits: 1,
        }),
    };
    let streams = vec![
        traffic::ipv4(0, 1, 1),
        traffic::ipv4(1, 0, 100),
        traffic::ipv6(0, 1, 7),
    ];
    let (trial, truth) = trial(faults, &traffic::of(streams, 128));
    let counts = trial.counts();
    assert_eq!(counts.sent, truth.came);
    assert_eq!(counts.corrupted, truth.corrupted);
    assert_eq!(
        counts.received + counts.duplicated + counts.corrupted,
        truth.passed
    );
    assert!(truth.buffer_full > 50 && truth.lost > 50, "{truth:?}");
}
