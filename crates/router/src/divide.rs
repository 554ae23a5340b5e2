//! Which worker gets which queue.

use std::sync::Arc;

use anyhow::Context;
use bora_forward::schedule::OutputConfig;
use bora_port::Queue;
use bora_worker::{Bell, Share, share};

/// One worker's part of a port.
pub(crate) type Part = (Vec<Queue>, Share);

/// Divides a port's queues among the workers, which are named by their bells. Where there are
/// enough, each worker gets its own: worker `n` queue `n`, and every so-many-th after it. Where
/// there are not, queue `n` belongs to worker `n`, which shares it.
pub(crate) fn divide(
    queues: Vec<Queue>,
    output: &OutputConfig,
    bells: &[Arc<Bell>],
) -> anyhow::Result<Vec<Part>> {
    let (owners, workers) = (queues.len(), bells.len());
    let mut parts: Vec<Part> = bells.iter().map(|_| Part::default()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        parts[number % workers].0.push(queue);
    }
    for owner in 0..owners.min(workers) {
        let members: Vec<usize> = (owner + owners..workers).step_by(owners).collect();
        if members.is_empty() {
            continue;
        }
        let named: Vec<_> = members
            .iter()
            .map(|&member| bells[member].clone())
            .collect();
        let (side, others) = share(output, &bells[owner], &named).context("a shared port")?;
        parts[owner].1 = Share::Owner(Box::new(side));
        for (member, (side, ring)) in members.into_iter().zip(others) {
            parts[member] = (vec![Queue::Memory(ring)], Share::Member(Box::new(side)));
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use bora_port::memory;

    use super::*;

    fn kinds(queues: usize, workers: usize) -> Vec<(usize, char)> {
        let queues = (0..queues)
            .map(|_| Queue::Memory(memory::pair(1).0))
            .collect();
        let bells: Vec<_> = (0..workers)
            .map(|_| Arc::new(Bell::new().unwrap()))
            .collect();
        let parts = divide(queues, &OutputConfig::default(), &bells).unwrap();
        let kind = |part: &Part| match part.1 {
            Share::Alone => 'a',
            Share::Owner(_) => 'o',
            Share::Member(_) => 'm',
        };
        parts
            .iter()
            .map(|part| (part.0.len(), kind(part)))
            .collect()
    }

    #[test]
    fn every_worker_has_a_way_to_every_port() {
        assert_eq!(kinds(1, 1), [(1, 'a')]);
        assert_eq!(kinds(5, 2), [(3, 'a'), (2, 'a')]);
        assert_eq!(kinds(1, 3), [(1, 'o'), (1, 'm'), (1, 'm')]);
        assert_eq!(kinds(2, 3), [(1, 'o'), (1, 'a'), (1, 'm')]);
    }
}
