//! Shares of receive queues under load are the ones water-filling gives.

use bora_forward::PollList;
use proptest::prelude::*;

/// Max-min fair shares in proportion to `weights`: nobody gets more than it asks for, and what one
/// leaves is divided among the others.
fn water_filling(demands: &[f64], weights: &[f64], capacity: f64) -> Vec<f64> {
    let mut shares = vec![0.0; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    let mut left = capacity;
    while !open.is_empty() {
        let total: f64 = open.iter().map(|&queue| weights[queue]).sum();
        let level = left / total;
        let (full, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|&&queue| demands[queue] <= level * weights[queue]);
        if full.is_empty() {
            for queue in rest {
                shares[queue] = level * weights[queue];
            }
            break;
        }
        for queue in full {
            shares[queue] = demands[queue];
            left -= demands[queue];
        }
        open = rest;
    }
    shares
}

/// Packets each queue brings a tick when `capacity` packets a tick are served, rings of 512.
fn measure(demands: &[f64], quotas: &[u32], budget: u32, capacity: f64) -> Vec<f64> {
    const TICKS: u32 = 4000;
    let mut list = PollList::new(quotas, budget);
    let mut rings = vec![0u32; quotas.len()];
    let mut arrived = vec![0.0; quotas.len()];
    let mut served = vec![0u64; quotas.len()];
    let mut time = 0.0; // in packets the router could have served
    for tick in 0..TICKS {
        let end = f64::from(tick + 1) * capacity;
        for (queue, ring) in rings.iter_mut().enumerate() {
            arrived[queue] += demands[queue];
            let whole = f64::floor(arrived[queue]);
            arrived[queue] -= whole;
            *ring = (*ring + whole as u32).min(512.max(quotas[queue] * 2));
        }
        while time < end && rings.iter().any(|&ring| ring > 0) {
            list.start_round();
            let mut left = budget;
            while let Some(turn) = list.next_turn() {
                assert!(turn.allowance <= quotas[turn.queue] && turn.allowance <= left);
                let received = rings[turn.queue].min(turn.allowance);
                rings[turn.queue] -= received;
                served[turn.queue] += u64::from(received);
                left -= received;
                time += f64::from(received);
                list.finish(turn, received);
                if time >= end {
                    break;
                }
            }
        }
        time = time.max(end); // idle time is gone
    }
    served
        .iter()
        .map(|&packets| packets as f64 / f64::from(TICKS))
        .collect()
}

fn agree(demands: &[f64], quotas: &[u32], budget: u32, capacity: f64) {
    let weights: Vec<f64> = quotas.iter().map(|&quota| f64::from(quota)).collect();
    let ideal = water_filling(demands, &weights, capacity);
    let got = measure(demands, quotas, budget, capacity);
    for (queue, (ideal, got)) in ideal.iter().zip(&got).enumerate() {
        let error = (got - ideal).abs() / ideal.max(1.0);
        assert!(error < 0.05, "queue {queue}: {got} packets, ideal {ideal}");
    }
}

#[test]
fn the_papers_shares() {
    // Bianco05 Fig. 8 and 9: load 10:1, one fast and one slow port, overloaded
    agree(&[1000.0, 100.0], &[64, 64], 300, 500.0);
    agree(&[1000.0, 100.0], &[64, 64], 300, 150.0);
    agree(&[1000.0, 100.0], &[270, 27], 300, 500.0);
    agree(&[1000.0, 100.0], &[270, 27], 300, 150.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equal_quotas_are_max_min_fair(
        demands in prop::collection::vec(1.0..400.0f64, 1..8),
        quota in 1u32..128,
        budget in 1u32..400,
        load in 0.2..4.0f64,
    ) {
        let quotas = vec![quota; demands.len()];
        let capacity = demands.iter().sum::<f64>() / load;
        agree(&demands, &quotas, budget, capacity);
    }

    #[test]
    fn different_quotas_are_weights(
        queues in prop::collection::vec((1.0..400.0f64, 1u32..256), 1..8),
        budget in 1u32..400,
        load in 0.2..4.0f64,
    ) {
        let (demands, quotas): (Vec<f64>, Vec<u32>) = queues.into_iter().unzip();
        let capacity = demands.iter().sum::<f64>() / load;
        agree(&demands, &quotas, budget, capacity);
    }
}

#[test]
fn a_drained_queue_ends_its_turn_and_a_spent_budget_does_not() {
    let mut list = PollList::new(&[4, 4], 6);
    list.start_round();
    let turn = list.next_turn().unwrap();
    assert_eq!((turn.queue, turn.allowance), (0, 4));
    list.finish(turn, 4);
    let turn = list.next_turn().unwrap();
    assert_eq!(
        (turn.queue, turn.allowance),
        (1, 2),
        "what the budget leaves"
    );
    list.finish(turn, 2);
    assert_eq!(list.next_turn(), None, "the budget is spent");
    list.start_round();
    let turn = list.next_turn().unwrap();
    assert_eq!((turn.queue, turn.allowance), (1, 2), "its turn goes on");
    list.finish(turn, 2);
    let turn = list.next_turn().unwrap();
    assert_eq!((turn.queue, turn.allowance), (0, 4));
    list.finish(turn, 1);
    assert_eq!(list.next_turn(), None, "one turn a round each");
    list.start_round();
    let turn = list.next_turn().unwrap();
    assert_eq!(turn.queue, 1, "queue 0 was drained, so its turn is over");
}
