//! Divides the queues of a port among the workers.

use std::sync::Arc;

use anyhow::Context;
use bora_fib::PortId;
use bora_forward::schedule::OutputConfig;
use bora_port::Queue;
use bora_worker::{Bell, Reception, Share, share, spread};

/// One worker's part of a port.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) queues: Vec<Queue>,
    pub(crate) reception: Reception,
    pub(crate) share: Share,
}

/// Divides a port's queues among the workers, which are named by their bells. Where there are enough, each
/// worker gets its own: worker `n` queue `n`, and every queue that is a multiple of the number of workers
/// further on. Where there are not, queue `n` belongs to worker `n`, which spreads what comes by it over the
/// workers that are a multiple of the number of queues further on, and sends for them. An output with rates
/// has one sender for all.
pub(crate) fn divide(
    port: PortId,
    queues: Vec<Queue>,
    output: &OutputConfig,
    bells: &[Arc<Bell>],
) -> anyhow::Result<Vec<Part>> {
    let (workers, owners) = (bells.len(), queues.len().min(bells.len()));
    let mut parts: Vec<Part> = bells.iter().map(|_| Part::default()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        parts[number % workers].queues.push(queue);
    }
    let group = |owner: usize| {
        (owner + owners..workers)
            .step_by(owners)
            .collect::<Vec<_>>()
    };
    for owner in 0..owners {
        receive_for(owner, &group(owner), &mut parts, bells);
    }
    if owners > 0 && output.has_rates() {
        let owner = usize::from(port.0) % owners; // not all ports' on one worker
        let members: Vec<_> = (0..workers).filter(|&worker| worker != owner).collect();
        send_for(owner, &members, &mut parts, output, bells)?;
    } else {
        for owner in 0..owners {
            send_for(owner, &group(owner), &mut parts, output, bells)?;
        }
    }
    Ok(parts)
}

fn bells_of(members: &[usize], bells: &[Arc<Bell>]) -> Vec<Arc<Bell>> {
    let bells = members.iter().map(|&member| bells[member].clone());
    bells.collect()
}

/// Has one worker receive for others.
fn receive_for(owner: usize, members: &[usize], parts: &mut [Part], bells: &[Arc<Bell>]) {
    if members.is_empty() {
        return;
    }
    let (spreader, rings) = spread(&bells_of(members, bells));
    parts[owner].reception = Reception::Spread(Box::new(spreader));
    for (&member, ring) in members.iter().zip(rings) {
        parts[member].queues = vec![Queue::Memory(ring)];
        parts[member].reception = Reception::Ring;
    }
}

/// Has one worker send for others.
fn send_for(
    owner: usize,
    members: &[usize],
    parts: &mut [Part],
    output: &OutputConfig,
    bells: &[Arc<Bell>],
) -> anyhow::Result<()> {
    if members.is_empty() {
        return Ok(());
    }
    let shared = share(output, &bells[owner], &bells_of(members, bells));
    let (side, others) = shared.context("a shared port")?;
    parts[owner].share = Share::Owner(Box::new(side));
    for (&member, side) in members.iter().zip(others) {
        parts[member].share = Share::Member(Box::new(side));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bora_forward::schedule::Shaping;
    use bora_port::memory;

    use super::*;

    fn kinds(queues: usize, workers: usize, output: &OutputConfig) -> Vec<(usize, char, char)> {
        let queues = (0..queues)
            .map(|_| Queue::Memory(memory::pair(1).0))
            .collect();
        let bells: Vec<_> = (0..workers)
            .map(|_| Arc::new(Bell::new().unwrap()))
            .collect();
        let parts = divide(PortId(1), queues, output, &bells).unwrap();
        let received = |part: &Part| match part.reception {
            Reception::Own => '-',
            Reception::Spread(_) => 's',
            Reception::Ring => 'r',
        };
        let sent = |part: &Part| match part.share {
            Share::Alone => '-',
            Share::Owner(_) => 'o',
            Share::Member(_) => 'm',
        };
        parts
            .iter()
            .map(|part| (part.queues.len(), received(part), sent(part)))
            .collect()
    }

    #[test]
    fn every_worker_has_a_way_to_every_port() {
        let kinds = |queues, workers| kinds(queues, workers, &OutputConfig::default());
        assert_eq!(kinds(1, 1), [(1, '-', '-')]);
        assert_eq!(kinds(5, 2), [(3, '-', '-'), (2, '-', '-')]);
        assert_eq!(kinds(1, 3), [(1, 's', 'o'), (1, 'r', 'm'), (1, 'r', 'm')]);
        assert_eq!(kinds(2, 3), [(1, 's', 'o'), (1, '-', '-'), (1, 'r', 'm')]);
    }

    #[test]
    fn an_output_with_rates_has_one_sender() {
        let shaping = Some(Shaping {
            rate: 1_000_000,
            burst: 10_000,
        });
        let output = OutputConfig {
            shaping,
            ..OutputConfig::default()
        };
        let kinds = |queues, workers| kinds(queues, workers, &output);
        assert_eq!(kinds(2, 1), [(2, '-', '-')]);
        assert_eq!(kinds(5, 2), [(3, '-', 'm'), (2, '-', 'o')]);
        assert_eq!(kinds(1, 2), [(1, 's', 'o'), (1, 'r', 'm')]);
        assert_eq!(kinds(2, 3), [(1, 's', 'm'), (1, '-', 'o'), (1, 'r', 'm')]);
    }
}
