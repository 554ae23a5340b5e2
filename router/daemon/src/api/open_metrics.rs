//! What `/metrics` says, one line a metric. Names follow Prometheus' conventions: base units, and `_total` is added to counters.

use std::borrow::Cow;
use std::time::SystemTime;

use bora_contract::{Counts, Reason};
use bora_worker::WorkerCounters;

use crate::engine::Engine;
use crate::live::class_counts::{QueueSample, queues};
use crate::ports::totals::Totals;
use crate::ports::{Port, mode_name, path_name};
use crate::process::clock::since_1970;
use crate::reports::rules;
use crate::router::Router;
use crate::sampling::Collected;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// Names and values of the labels of a sample.
pub(crate) type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// A metric with its samples.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) samples: Vec<(Labels, f64)>,
}

/// Everything, as it is now. The cost grows with ports, classes, workers and rules, not with routes.
pub(crate) fn collect(router: &Router) -> Vec<Metric> {
    let mut metrics = of_router(router);
    let ports: Vec<(&Port, Totals)> = router
        .plane
        .ports()
        .iter()
        .map(|port| (port, router.plane.totals_of(port)))
        .collect();
    metrics.extend(of_ports(&ports));
    metrics.extend(of_reasons(&ports));
    metrics.extend(of_fib(router));
    metrics.extend(of_answers(router));
    metrics.extend(of_sflow(router));
    if let Some(engine) = router.plane.engine() {
        metrics.extend(of_workers(engine));
        metrics.extend(of_classes(router, engine));
        metrics.extend(of_rules(router, engine));
    }
    metrics
}

fn metric(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = (Labels, f64)>,
) -> Metric {
    Metric {
        name,
        help,
        kind,
        samples: samples.into_iter().collect(),
    }
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Metric {
    metric(Kind::Gauge, name, help, [(Vec::new(), value)])
}

fn of_router(router: &Router) -> Vec<Metric> {
    let mirror = router.plane.mirror();
    let status = mirror.status();
    let holding = router
        .plane
        .express()
        .holding(mirror.guard(), &router.plane.names());
    let version = vec![("version", env!("CARGO_PKG_VERSION").into())];
    let held = router.plane.engine().map_or(0, Engine::held);
    let signs = router.vitals.signs();
    let stuck = signs.iter().filter(|sign| sign.is_stuck()).count();
    let started = SystemTime::now() - router.live.started.elapsed();
    vec![
        gauge(
            "process_start_time_seconds",
            "When Bora was started.",
            since_1970(started).as_secs_f64(),
        ),
        metric(
            Kind::Gauge,
            "bora_build_info",
            "Bora's version.",
            [(version, 1.0)],
        ),
        gauge(
            "bora_in_sync",
            "Whether Bora agrees with Linux about all routes.",
            f64::from(u8::from(status.in_sync)),
        ),
        gauge(
            "bora_in_sync_changed_timestamp_seconds",
            "When bora_in_sync last changed.",
            since_1970(status.since).as_secs_f64(),
        ),
        gauge(
            "bora_guard_reasons",
            "What keeps traffic with Linux: firewall rules, policies, hooks.",
            holding.len() as f64,
        ),
        gauge(
            "bora_stuck_threads",
            "Threads without progress; while there are some, Linux forwards.",
            stuck as f64,
        ),
        gauge("bora_held_packets", "Packets in Bora's rings.", held as f64),
        metric(
            Kind::Counter,
            "bora_netlink_events",
            "Events from Linux.",
            [(Vec::new(), status.events as f64)],
        ),
        metric(
            Kind::Counter,
            "bora_netlink_overflows",
            "Times that Linux dropped events, and Bora read all again.",
            [(Vec::new(), status.overflows as f64)],
        ),
        metric(
            Kind::Counter,
            "bora_mended_entries",
            "Entries that background checks have corrected.",
            [(Vec::new(), status.mended as f64)],
        ),
    ]
}

type OfPort = (&'static str, &'static str, fn(&Totals) -> u64);

const PORT_COUNTERS: &[OfPort] = &[
    ("bora_port_receive_packets", "Packets received.", |it| {
        it.rx_packets
    }),
    ("bora_port_receive_bytes", "Octets received.", |it| {
        it.rx_bytes
    }),
    ("bora_port_transmit_packets", "Packets sent.", |it| {
        it.tx_packets
    }),
    ("bora_port_transmit_bytes", "Octets sent.", |it| it.tx_bytes),
    (
        "bora_port_from_linux_packets",
        "Packets from Linux by the port's twin.",
        |it| it.from_linux,
    ),
    (
        "bora_port_flow_packets",
        "Packets received that flows of Linux's flowtables have forwarded.",
        |it| it.flows,
    ),
    (
        "bora_port_asked_packets",
        "Packets received for which Linux's FIB was asked.",
        |it| it.asked,
    ),
];

fn name_of(port: &Port) -> Labels {
    vec![("port", port.name.clone().into())]
}

fn of_ports(ports: &[(&Port, Totals)]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for &(name, help, of) in PORT_COUNTERS {
        let samples = ports
            .iter()
            .map(|(port, total)| (name_of(port), of(total) as f64));
        metrics.push(metric(Kind::Counter, name, help, samples));
    }
    let up = ports
        .iter()
        .map(|(port, _)| (name_of(port), f64::from(u8::from(port.is_up()))));
    metrics.push(metric(
        Kind::Gauge,
        "bora_port_up",
        "Whether the port is up.",
        up,
    ));
    let info = ports.iter().map(|(port, _)| {
        let more = [
            ("path", path_name(port.path).into()),
            ("xdp", mode_name(port.mode()).into()),
            ("af_xdp", port.sockets.mode().name().into()),
        ];
        (name_of(port).into_iter().chain(more).collect(), 1.0)
    });
    metrics.push(metric(
        Kind::Gauge,
        "bora_port_info",
        "Tier and driver modes of the port.",
        info,
    ));
    metrics
}

/// Zeros, too: without them the first packets of a reason would be no increase.
fn of_reasons(ports: &[(&Port, Totals)]) -> [Metric; 2] {
    let samples = |of: fn(&Totals) -> &Counts, may_be: fn(Reason) -> bool| {
        let of_port = move |(port, total): &(&Port, Totals)| {
            let counts = of(total).iter();
            let counts = counts.filter(|&(reason, count)| count > 0 || may_be(reason));
            let named = counts.map(|(reason, count)| {
                let labels = vec![
                    ("port", port.name.clone().into()),
                    ("reason", reason.name().into()),
                ];
                (labels, count as f64)
            });
            named.collect::<Vec<_>>()
        };
        ports.iter().flat_map(of_port).collect::<Vec<_>>()
    };
    [
        metric(
            Kind::Counter,
            "bora_to_linux_packets",
            "Packets handed to Linux, by reason (docs/reasons.md).",
            samples(|it| &it.passed, Reason::may_pass),
        ),
        metric(
            Kind::Counter,
            "bora_dropped_packets",
            "Packets dropped, by reason (docs/reasons.md).",
            samples(|it| &it.dropped, Reason::may_drop),
        ),
    ]
}

/// What Linux itself says.
fn of_answers(router: &Router) -> Vec<Metric> {
    let watched = router.linux.watched();
    let counter =
        |name, help, value: u64| metric(Kind::Counter, name, help, [(Vec::new(), value as f64)]);
    vec![
        counter(
            "bora_linux_answers_compared",
            "Answers of Linux compared with Bora's.",
            watched.compared,
        ),
        counter(
            "bora_linux_answers_different",
            "Answers of Linux that were not Bora's; each is in the log.",
            watched.differ,
        ),
        gauge(
            "bora_distrusted_prefixes",
            "Prefixes left to Linux because it does something else there.",
            watched.distrusted.len() as f64,
        ),
    ]
}

fn of_fib(router: &Router) -> Vec<Metric> {
    let mirror = router.plane.mirror();
    let (stats, missing) = (mirror.fib().stats(), mirror.refused());
    let families = |values: [u64; 2]| {
        let names = ["ipv4", "ipv6"].map(|name| vec![("family", name.into())]);
        names.into_iter().zip(values.map(|value| value as f64))
    };
    let sizes = |of: [usize; 2]| of.map(|size| size as u64);
    vec![
        metric(
            Kind::Gauge,
            "bora_fib_prefixes",
            "Prefixes in the FIB.",
            families(sizes([stats.prefixes4, stats.prefixes6])),
        ),
        metric(
            Kind::Gauge,
            "bora_fib_missing_prefixes",
            "Prefixes that found no room; Linux forwards that IP version then.",
            families(sizes(missing)),
        ),
        metric(
            Kind::Gauge,
            "bora_fib_bytes",
            "Octets of the tables.",
            families(sizes([stats.ipv4.table_bytes, stats.ipv6.table_bytes])),
        ),
        metric(
            Kind::Counter,
            "bora_fib_updates",
            "Changes of prefixes.",
            families([stats.ipv4.updates, stats.ipv6.updates]),
        ),
        gauge(
            "bora_fib_next_hops",
            "Next hops in the FIB.",
            stats.next_hops as f64,
        ),
    ]
}

/// Nothing without collectors.
fn of_sflow(router: &Router) -> Vec<Metric> {
    let Some(exported) = router.sampling.exported() else {
        return Vec::new();
    };
    let single =
        |name, help, value: u64| metric(Kind::Counter, name, help, [(Vec::new(), value as f64)]);
    let collectors = |of: fn(&Collected) -> u64| {
        let samples = exported.collectors.iter().map(move |one| {
            let labels = vec![("collector", one.address.to_string().into())];
            (labels, of(one) as f64)
        });
        samples.collect::<Vec<_>>()
    };
    vec![
        single(
            "bora_sflow_samples",
            "Packets sampled for sFlow collectors.",
            exported.samples,
        ),
        single(
            "bora_sflow_lost_samples",
            "Packets that were to be sampled and were not.",
            exported.lost_samples,
        ),
        metric(
            Kind::Counter,
            "bora_sflow_datagrams",
            "Datagrams sent to sFlow collectors.",
            collectors(|one| one.sent),
        ),
        metric(
            Kind::Counter,
            "bora_sflow_failed_datagrams",
            "Datagrams that could not be sent to sFlow collectors.",
            collectors(|one| one.failed),
        ),
        metric(
            Kind::Counter,
            "bora_sflow_refused_datagrams",
            "Datagrams sent that a collector's machine has refused, at least.",
            collectors(|one| one.refused),
        ),
    ]
}

type OfWorker = (Kind, &'static str, &'static str, fn(&WorkerCounters) -> u64);

const WORKER_METRICS: &[OfWorker] = &[
    (
        Kind::Counter,
        "bora_worker_receive_packets",
        "Packets received.",
        |it| it.ports.iter().map(|port| port.rx_packets.get()).sum(),
    ),
    (
        Kind::Counter,
        "bora_worker_transmit_packets",
        "Packets sent.",
        |it| it.ports.iter().map(|port| port.tx_packets.get()).sum(),
    ),
    (
        Kind::Counter,
        "bora_worker_loops",
        "Times round the loop.",
        |it| it.loops.get(),
    ),
    (Kind::Counter, "bora_worker_sleeps", "Times asleep.", |it| {
        it.sleeps.get()
    }),
    (
        Kind::Counter,
        "bora_worker_exhausted",
        "Requests that found no packet buffer.",
        |it| it.pool_exhausted.get(),
    ),
    (
        Kind::Gauge,
        "bora_worker_held_packets",
        "Packets in its transmit rings.",
        |it| it.held.get(),
    ),
];

fn of_workers(engine: &Engine) -> Vec<Metric> {
    let metrics = WORKER_METRICS.iter().map(|&(kind, name, help, of)| {
        let samples = engine.workers.iter().enumerate().map(|(index, worker)| {
            let core = worker
                .core
                .map_or("any".into(), |core| core.to_string().into());
            let labels = vec![("worker", index.to_string().into()), ("cpu", core)];
            (labels, of(&worker.counters) as f64)
        });
        metric(kind, name, help, samples)
    });
    metrics.collect()
}

/// What rules have matched since they were last changed.
fn of_rules(router: &Router, engine: &Engine) -> [Metric; 2] {
    let rules = &router.in_force.file().rules;
    let counted = rules::counted(engine, rules);
    let samples = |of: fn(&(u64, u64)) -> u64| {
        let rules = rules.iter().zip(&counted).enumerate();
        let samples = rules.map(move |(index, (rule, counted))| {
            let labels = vec![
                ("rule", (index + 1).to_string().into()),
                ("name", rule.name.clone().unwrap_or_default().into()),
            ];
            (labels, of(counted) as f64)
        });
        samples.collect::<Vec<_>>()
    };
    [
        metric(
            Kind::Counter,
            "bora_rule_packets",
            "Packets that a rule has matched since the rules were changed.",
            samples(|counted| counted.0),
        ),
        metric(
            Kind::Counter,
            "bora_rule_bytes",
            "Octets of these packets.",
            samples(|counted| counted.1),
        ),
    ]
}

type OfClass = (Kind, &'static str, &'static str, fn(&QueueSample) -> u64);

const CLASS_METRICS: &[OfClass] = &[
    (
        Kind::Counter,
        "bora_class_enqueued_packets",
        "Packets taken into the queues of a class.",
        |it| it.enqueued,
    ),
    (
        Kind::Counter,
        "bora_class_sent_packets",
        "Packets taken out of them.",
        |it| it.sent,
    ),
    (
        Kind::Counter,
        "bora_class_dropped_packets",
        "Packets refused because they were full.",
        |it| it.dropped,
    ),
    (
        Kind::Gauge,
        "bora_class_held_packets",
        "Packets in them.",
        |it| it.held,
    ),
];

fn of_classes(router: &Router, engine: &Engine) -> Vec<Metric> {
    let classes = queues(engine, &router.plane, router.in_force.file());
    let metrics = CLASS_METRICS.iter().map(|&(kind, name, help, of)| {
        let samples = classes.iter().map(|one| {
            let labels = vec![
                ("port", one.port.clone().into()),
                ("class", one.class.to_string().into()),
            ];
            (labels, of(one) as f64)
        });
        metric(kind, name, help, samples)
    });
    metrics.collect()
}
