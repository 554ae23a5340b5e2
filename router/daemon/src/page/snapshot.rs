//! The event `now`, from the running router and its last two samples.

use std::time::{Duration, Instant};

use bora_contract::Counts;
use bora_fib::FamilyStats;
use bora_worker::Mode;

use crate::config::RuleSection;
use crate::data_plane::DataPlane;
use crate::engine::Engine;
use crate::guard::rates::GuardWatch;
use crate::live::class_counts::QueueSample;
use crate::live::report::{
    ByReason, DeviceNow, FibNow, FlowNow, GuardNow, Now, Packets, PortNow, QueueNow, RuleNow,
    SyncNow, WorkerNow,
};
use crate::live::{PortSample, Sample, WorkerSample, milliseconds, per_second, rates};
use crate::ports::twin::Twin;
use crate::ports::{Port, mode_name, path_name};
use crate::process::clock::age;
use crate::process::lease::{Sign, Vitals};
use crate::reports::rules::counted;
use crate::reports::trace;
use crate::reports::{by_name, guard};
use crate::router::Router;

/// Rules that are shown; `bora show rules` has all.
const MOST_RULES: usize = 200;

/// Everything an operator sees, but the history.
pub(super) fn now(router: &mut Router) -> Now {
    router.look_at_flows();
    let router = &*router;
    let (plane, live) = (&router.plane, &router.live);
    let (before, now) = (&live.samples.0, &live.samples.1);
    Now {
        time: milliseconds(now.time),
        uptime: live.started.elapsed().as_secs(),
        version: env!("CARGO_PKG_VERSION").into(),
        host: host(),
        confirm_seconds: router.in_force.confirmation_due().map(|due| due.as_secs()),
        ports: ports(plane, before, now),
        devices: devices(plane),
        rules: rules(router),
        total: total(now),
        rate: rate(before, now),
        workers: workers(plane.engine(), before, now),
        queues: queues(before, now),
        sync: sync(plane, &router.vitals),
        guard: GuardNow {
            // how many packets that concerns is among the reasons
            lines: guard(plane, &GuardWatch::default()),
            flows: plane.flows().lines,
        },
        fib: fib(plane, router.fib_rates.updates_per_second()),
        flows: flows(router),
        flows_one_in: router.sampling.one_in().unwrap_or(0),
        events: live.events.all(),
    }
}

fn flows(router: &Router) -> Vec<FlowNow> {
    let Some(top) = router.sampling.top() else {
        return Vec::new();
    };
    let names = router.plane.names_by_number();
    top.report(|number| trace::name(&names, number), Instant::now())
}

fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Ports that came after the last sample have no rates yet.
fn ports(plane: &DataPlane, before: &Sample, now: &Sample) -> Vec<PortNow> {
    let time = now.since(before);
    let one = |port: &Port| {
        let sample = now.ports.iter().find(|sample| sample.name == port.name);
        let nothing = PortSample::default();
        let sample = sample.unwrap_or(&nothing);
        PortNow {
            rates: rates(before.port(&port.name), &sample.totals, time),
            ..port_now(plane, port, sample)
        }
    };
    plane.ports().iter().map(one).collect()
}

fn addresses(plane: &DataPlane, ifindex: u32) -> Vec<String> {
    let all = plane.mirror().addresses();
    let own = all.filter(|address| address.device == ifindex);
    own.map(|one| format!("{}/{}", one.address, one.len))
        .collect()
}

fn devices(plane: &DataPlane) -> Vec<DeviceNow> {
    let forwarded = plane.devices().iter().map(|device| DeviceNow {
        name: device.name.clone(),
        kind: format!("{:?}", device.kind).to_lowercase(),
        addresses: addresses(plane, device.ifindex),
        left: None,
    });
    let left = plane.devices().left_alone().iter();
    let left = left.map(|device| DeviceNow {
        name: device.name.clone(),
        left: Some(device.why.clone()),
        ..DeviceNow::default()
    });
    forwarded.chain(left).collect()
}

fn rules(router: &Router) -> Vec<RuleNow> {
    let rules = &router.in_force.file().rules;
    let engine = router.plane.engine();
    let counted = engine.map(|engine| counted(engine, rules));
    let counted = counted.unwrap_or_else(|| vec![(0, 0); rules.len()]);
    let rules = (1..).zip(rules).zip(counted).take(MOST_RULES);
    let one = |((number, rule), (packets, _)): ((usize, &RuleSection), (u64, u64))| RuleNow {
        number,
        name: rule.name.clone().unwrap_or_default(),
        rule: rule.to_string(),
        packets,
    };
    rules.map(one).collect()
}

fn port_now(plane: &DataPlane, port: &Port, sample: &PortSample) -> PortNow {
    let is_up = port.is_up() && !port.is_gone;
    let refusals = port.refusals.iter().map(ToString::to_string);
    PortNow {
        name: port.name.clone(),
        state: if is_up { "up" } else { "down" }.into(),
        path: path_name(port.path).into(),
        why: port.why.clone(),
        addresses: addresses(plane, port.ifindex),
        kind: port.twin().map_or("interface", Twin::kind).into(),
        xdp: mode_name(port.mode()).into(),
        notices: refusals.chain(port.notices()).collect(),
        rx_packets: sample.totals.rx_packets,
        tx_packets: sample.totals.tx_packets,
        dropped: by_name(&sample.totals.dropped),
        passed: by_name(&sample.totals.passed),
        ..PortNow::default()
    }
}

fn total(now: &Sample) -> Packets {
    Packets {
        received: now.all.received(),
        sent: now.all.tx_packets,
        flows: now.all.flows,
        held: now.held,
        passed: by_name(&now.all.passed),
        dropped: by_name(&now.all.dropped),
    }
}

fn rate(before: &Sample, now: &Sample) -> Packets {
    let time = now.since(before);
    let (was, is) = (&before.all, &now.all);
    Packets {
        received: per_second(was.received(), is.received(), time),
        sent: per_second(was.tx_packets, is.tx_packets, time),
        flows: per_second(was.flows, is.flows, time),
        held: now.held,
        passed: rate_by_name(&was.passed, &is.passed, time),
        dropped: rate_by_name(&was.dropped, &is.dropped, time),
    }
}

fn rate_by_name(before: &Counts, now: &Counts, time: Duration) -> ByReason {
    let rates = now.iter().map(|(reason, count)| {
        let rate = per_second(before[reason], count, time);
        (reason.name().to_string(), rate)
    });
    rates.filter(|&(_, rate)| rate > 0).collect()
}

fn workers(engine: Option<&Engine>, before: &Sample, now: &Sample) -> Vec<WorkerNow> {
    let running = engine.into_iter().flat_map(|engine| {
        let workers = engine.workers.iter().enumerate();
        workers.map(|(index, worker)| (worker.core, engine.tables().mode_of(index)))
    });
    let samples = now.workers.iter().enumerate().zip(running);
    let time = now.since(before);
    let one = |((index, is), (core, mode)): ((usize, &WorkerSample), (Option<usize>, Mode))| {
        let was = before.workers.get(index).copied().unwrap_or_default();
        WorkerNow {
            index,
            core,
            mode: mode.to_string(),
            busy: busy(&was, is),
            pps: per_second(was.received, is.received, time),
            sleeps: per_second(was.sleeps, is.sleeps, time),
            held: is.held,
            pool_exhausted: is.pool_exhausted,
        }
    };
    samples.map(one).collect()
}

/// The share of loops that found something to do.
fn busy(was: &WorkerSample, is: &WorkerSample) -> f64 {
    let loops = is.loops.saturating_sub(was.loops);
    let idle = is.idle_loops.saturating_sub(was.idle_loops).min(loops);
    match loops {
        0 => 0.0,
        loops => (1000.0 * (loops - idle) as f64 / loops as f64).round() / 1000.0,
    }
}

fn queues(before: &Sample, now: &Sample) -> Vec<QueueNow> {
    let time = now.since(before);
    let one = |is: &QueueSample| {
        let mut was = before.queues.iter();
        let was = was.find(|was| (&was.port, was.class) == (&is.port, is.class));
        let was = was.cloned().unwrap_or_default();
        QueueNow {
            port: is.port.clone(),
            class: is.class,
            held: is.held,
            sent_pps: per_second(was.sent, is.sent, time),
            drop_pps: per_second(was.dropped, is.dropped, time),
        }
    };
    now.queues.iter().map(one).collect()
}

fn sync(plane: &DataPlane, vitals: &Vitals) -> SyncNow {
    let status = plane.mirror().status();
    let stuck = vitals.signs().into_iter();
    let stuck = stuck.filter(Sign::is_stuck);
    let left = status.unsupported.iter();
    SyncNow {
        in_sync: status.in_sync,
        since: age(status.since).as_secs(),
        routes: [status.v4.kernel_routes, status.v6.kernel_routes],
        neighbours: status.neighbours,
        events_per_second: status.events_per_second,
        reconciliations: status.reconciliations,
        mended: status.mended,
        overflows: status.overflows,
        left: left.map(|left| (left.reason.into(), left.routes)).collect(),
        stuck: stuck.map(|sign| sign.name).collect(),
        stuck_times: vitals.times_stuck(),
    }
}

fn fib(plane: &DataPlane, updates_per_second: [u64; 2]) -> FibNow {
    let stats = plane.mirror().fib().stats();
    let both = |of: fn(&FamilyStats) -> usize| [of(&stats.ipv4), of(&stats.ipv6)];
    FibNow {
        prefixes: [stats.prefixes4, stats.prefixes6],
        missing: plane.mirror().refused(),
        node_bytes: both(|family| family.node_bytes),
        max_bytes: both(|family| family.max_bytes),
        table_bytes: stats.table_bytes,
        next_hops: stats.next_hops,
        updates_per_second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_busy_as_its_loops_are() {
        let at = |loops, idle_loops| WorkerSample {
            loops,
            idle_loops,
            ..WorkerSample::default()
        };
        assert_eq!(busy(&at(10, 5), &at(30, 10)), 0.75);
        assert_eq!(busy(&at(10, 5), &at(10, 5)), 0.0);
        assert_eq!(
            busy(&at(100, 90), &at(4, 4)),
            0.0,
            "others have replaced it"
        );
    }
}
