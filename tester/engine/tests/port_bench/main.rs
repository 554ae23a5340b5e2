//! Trials over real ports: memory, memif, packet sockets, AF_XDP; cables and a router (as root).

mod net;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bora_buffer::{Region, SharedFrames};
use bora_port::memif::Role;
use bora_port::{Queue, memory};
use bora_tester::port_bench::PortBench;
use bora_tester::ports::{Kind, PortSpec, Side, open};
use bora_tester::traffic::FrameMix;
use bora_tester::trial::{Action, Bench, Trial, TrialSpec};
use net::{Net, both_ways, is_busy, lay_cable, quick, quiet, space, spec};

const SHORT: Duration = Duration::from_millis(300);
/// Trials in which the tester may be late.
const TRIALS: usize = 30;

/// What an attempt gives that was in time. The tester needs CPUs for itself, so one of several attempts is enough, and
/// none where the machine is busy beside most of them.
fn in_time<T>(mut attempt: impl FnMut() -> (T, bool)) -> T {
    let mut quiet = 0;
    for _ in 1..TRIALS {
        let (outcome, is_in_time) = attempt();
        if is_in_time {
            return outcome;
        }
        quiet += usize::from(!is_busy());
    }
    let (outcome, is_in_time) = attempt();
    assert!(
        is_in_time || quiet < TRIALS / 2,
        "none of {TRIALS} attempts was in time, and the machine was quiet after {quiet} of them"
    );
    outcome
}

/// A trial that loses nothing, to the frame; and that sends all frames if the tester has its CPUs.
fn whole(wire: &mut PortBench, v6: bool, frames: FrameMix, rate: f64, time: Duration) -> Trial {
    let spec = TrialSpec::steady(both_ways(v6, frames), rate, time);
    let expected = (rate * time.as_secs_f64()).round() as u64;
    in_time(|| {
        let trial = lossless(wire, &spec);
        let sent = trial.streams.iter().map(|stream| stream.counts.sent);
        assert!(sent.clone().all(|sent| sent <= expected), "{trial:?}");
        let is_whole = sent.min() == Some(expected);
        (trial, is_whole)
    })
}

fn lossless(wire: &mut PortBench, spec: &TrialSpec) -> Trial {
    let trial = wire.trial(spec).unwrap();
    for stream in &trial.streams {
        let counts = &stream.counts;
        assert_eq!(
            counts.received, counts.sent,
            "{counts:?}, missed {}",
            trial.missed
        );
        let others = counts.duplicated + counts.corrupted + counts.misrouted;
        assert_eq!((others, counts.reordered), (0, 0), "{counts:?}");
        assert_eq!(stream.latency.len(), counts.received);
    }
    assert_eq!((trial.missed, trial.unknown_damaged), (0, 0));
    trial
}

fn memory_wire() -> PortBench {
    let region = Arc::new(Region::new(8192, 2048).unwrap());
    let frames = SharedFrames::of_new_region(&region);
    let (left, right) = memory::pair(2048);
    let side =
        |queue| Side::new(vec![Queue::Memory(queue)], region.clone(), frames.clone()).unwrap();
    let sides = vec![side(left), side(right)];
    let specs = [0, 1].map(|port| spec(port, Kind::Memory(port), false));
    PortBench::new(open(&specs, sides, Default::default()).unwrap(), quick())
}

#[test]
fn memory_ports_lose_nothing_at_any_rate() {
    let mut wire = memory_wire();
    for rate in [1e3, 1e4, 1e5] {
        let trial = whole(
            &mut wire,
            false,
            FrameMix::of(64),
            rate,
            Duration::from_millis(200),
        );
        let error = trial.sent_rate() / (2.0 * rate) - 1.0;
        // a busy machine is late with the last frames; nothing makes them early
        assert!(error < 0.01, "{rate}: {error}");
    }
    whole(
        &mut wire,
        true,
        FrameMix::of(1518),
        1e3,
        Duration::from_millis(100),
    );
}

#[test]
fn as_fast_as_it_goes_and_then_a_burst_of_so_many() {
    let mut wire = memory_wire();
    let traffic = both_ways(false, FrameMix::of(64));
    let time = Duration::from_millis(100);
    let mut spec = TrialSpec::steady(traffic, f64::INFINITY, time);
    in_time(|| {
        let trial = wire.trial(&spec).unwrap();
        let counts = trial.counts();
        assert_eq!((counts.lost(), trial.missed), (0, 0), "{counts:?}");
        let whole = time.mul_f64(0.9)..time.mul_f64(1.5);
        ((), counts.sent > 10_000 && whole.contains(&trial.elapsed))
    });
    spec.limit = Some(777);
    in_time(|| {
        let trial = wire.trial(&spec).unwrap();
        let all = trial.elapsed < time;
        for stream in &trial.streams {
            let (sent, received) = (stream.counts.sent, stream.counts.received);
            assert!(received == sent && sent <= 777 && (sent == 777 || !all));
        }
        ((), all)
    });
}

#[test]
fn an_action_that_panics_ends_the_trial_with_an_error() {
    let mut wire = memory_wire();
    let traffic = both_ways(false, FrameMix::of(64));
    let mut spec = TrialSpec::steady(traffic, 1e3, Duration::from_millis(50));
    spec.action = Some(Action {
        after: Duration::from_millis(10),
        run: Arc::new(|| panic!("for the test")),
    });
    let start = Instant::now();
    let error = wire.trial(&spec).unwrap_err();
    assert!(format!("{error:#}").contains("panicked"), "{error:#}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_memif_server_and_a_client() {
    let socket = std::env::temp_dir().join(format!("bora-wire-{}", std::process::id()));
    let kind = |role| Kind::memif(socket.clone(), role);
    let specs = [
        spec(0, kind(Role::Server), false),
        spec(1, kind(Role::Client), false),
    ];
    let ports = open(&specs, Vec::new(), Default::default()).unwrap();
    let mut wire = PortBench::new(ports, quick());
    whole(&mut wire, false, FrameMix::of(64), 1e4, SHORT);
    whole(
        &mut wire,
        true,
        FrameMix::of(512),
        5e4,
        Duration::from_millis(100),
    );
}

fn cable(kind: fn(String) -> Kind) {
    let Some(net) = Net::cable() else { return };
    let mut wire = net.wire(kind, quick());
    let mix = FrameMix {
        name: "imix".into(),
        lengths: vec![64, 64, 576, 1518],
    };
    for (rate, frames) in [(1e3, FrameMix::of(64)), (1e4, mix)] {
        let trial = whole(&mut wire, false, frames, rate, SHORT);
        let error = trial.sent_rate() / (2.0 * rate) - 1.0;
        // a busy machine is late with the last frames; nothing makes them early
        assert!(error < 0.01, "{rate}: {error}");
    }
}

#[test]
fn a_cable_between_packet_sockets() {
    cable(Kind::af_packet);
}

#[test]
fn a_cable_between_af_xdp_sockets() {
    cable(Kind::AfXdp);
}

#[test]
fn a_cable_between_xdp_ports() {
    cable(Kind::Xdp);
}

/// GRO that was turned on before the interface was up shows as on, and Linux refuses XDP frames. What the
/// error says to do helps.
#[test]
fn a_veth_whose_peer_takes_no_frames_is_told_how() {
    let (Some(left), Some(right)) = (space("a"), space("b")) else {
        return;
    };
    lay_cable(&left, &right, "e0");
    right.run("ethtool -K e0 gro on").unwrap();
    quiet(&right, "e0");
    let features = right.run("ethtool -k e0").unwrap();
    assert!(
        features.contains("generic-receive-offload: on"),
        "{features}"
    );
    let hosts = [left, right];
    let kinds = [Kind::Xdp("e0".into()), Kind::af_packet("e0".into())];
    let specs = [0, 1].map(|port| PortSpec {
        netns: Some(hosts[port].to_string()),
        ..spec(port, kinds[port].clone(), false)
    });
    let mut wire = PortBench::new(
        open(&specs, Vec::new(), Default::default()).unwrap(),
        quick(),
    );
    let mut traffic = (*both_ways(false, FrameMix::of(64))).clone();
    traffic.streams.truncate(1);
    let spec = TrialSpec::steady(Arc::new(traffic), 1e3, SHORT);
    let error = format!("{:#}", wire.trial(&spec).unwrap_err());
    let (_, cure) = error.split_once("Turn it on now: `").expect("a cure");
    let cure = cure
        .trim_end_matches('`')
        .replace("PEER", "e0")
        .replace(';', " &&");
    hosts[1].run(&cure).unwrap();
    assert!(wire.trial(&spec).unwrap().counts().received > 0);
}

/// A veth counts at the receiving end what XDP frames its ring had no room for.
#[test]
fn what_is_lost_in_front_of_an_xdp_port_is_the_testers() {
    let Some(net) = Net::cable() else { return };
    let mut wire = net.wire(Kind::Xdp, quick());
    let traffic = both_ways(false, FrameMix::of(64));
    let spec = TrialSpec::steady(traffic, f64::INFINITY, Duration::from_millis(100));
    let trial = wire.trial(&spec).unwrap();
    assert_eq!(trial.missed, trial.counts().lost(), "{:?}", trial.counts());
}

#[test]
fn two_xdp_ports_in_one_namespace() {
    let Some(host) = space("one") else {
        return;
    };
    lay_cable(&host, &host, "e1");
    quiet(&host, "e1");
    let specs = [0, 1].map(|port| PortSpec {
        netns: Some(host.to_string()),
        ..spec(port, Kind::Xdp(format!("e{port}")), false)
    });
    let ports = open(&specs, Vec::new(), Default::default()).unwrap();
    let traffic = both_ways(false, FrameMix::of(64));
    let mut wire = PortBench::new(ports, quick());
    let spec = TrialSpec::steady(traffic, 1e4, SHORT);
    in_time(|| ((), lossless(&mut wire, &spec).counts().sent > 600));
}

fn router(kind: fn(String) -> Kind) {
    let Some(net) = Net::router() else { return };
    let mut wire = net.wire(kind, quick());
    whole(&mut wire, false, FrameMix::of(64), 1e4, SHORT);
    whole(&mut wire, true, FrameMix::of(84), 1e4, SHORT);
}

#[test]
fn linux_between_packet_sockets() {
    router(Kind::af_packet);
}

#[test]
fn linux_between_af_xdp_sockets() {
    router(Kind::AfXdp);
}

#[test]
fn linux_between_xdp_ports() {
    router(Kind::Xdp);
}

#[test]
fn a_router_that_does_not_answer_is_named() {
    let Some(net) = Net::router() else { return };
    let mut specs = net.specs(Kind::af_packet);
    if let Some(v4) = &mut specs[1].v4 {
        v4.gateway = Some("198.18.1.77".parse().unwrap());
    }
    let ports = open(&specs, Vec::new(), Default::default()).unwrap();
    let mut options = quick();
    options.patience = Some(Duration::from_millis(300));
    let mut wire = PortBench::new(ports, options);
    let spec = TrialSpec::steady(both_ways(false, FrameMix::of(64)), 1e3, SHORT);
    let error = format!("{:#}", wire.trial(&spec).unwrap_err());
    for part in ["198.18.1.77", "right", "packet sockets on e0"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("left"), "{error}");
}

#[test]
fn bad_ports_are_named() {
    let Some(net) = Net::cable() else { return };
    let failed = |change: &dyn Fn(&mut bora_tester::ports::PortSpec)| {
        let mut specs = net.specs(Kind::AfXdp);
        change(&mut specs[1]);
        format!(
            "{:#}",
            open(&specs, Vec::new(), Default::default()).unwrap_err()
        )
    };
    let error = failed(&|spec| spec.kind = Kind::AfXdp("e7".into()));
    assert!(
        error.contains("port right") && error.contains("no interface e7"),
        "{error}"
    );
    let error = failed(&|spec| spec.netns = Some("nowhere".into()));
    assert!(error.contains("no network namespace nowhere"), "{error}");
    let error = failed(&|spec| spec.netns = Some(net.hosts[0].to_string()));
    assert!(error.contains("already has an XDP program"), "{error}");
    let error = failed(&|spec| spec.kind = Kind::Memory(3));
    assert!(error.contains("number 3"), "{error}");
    let host = &net.hosts[1];
    host.run("ip addr add 198.18.1.2/24 dev e0 && ip route add default via 198.18.1.1")
        .unwrap();
    let error = failed(&|_| ());
    assert!(
        error.contains(&format!("the default route of namespace {host}")),
        "{error}"
    );
    let force = bora_tester::ports::Options { force: true };
    drop(open(&net.specs(Kind::AfXdp), Vec::new(), force).unwrap());
    host.run("ip addr flush dev e0").unwrap();
    // all that was opened is closed again
    net.wire(Kind::AfXdp, quick());
    let mut wire = net.wire(Kind::AfXdp, quick());
    let spec = TrialSpec::steady(both_ways(false, FrameMix::of(1800)), 1e3, SHORT);
    let error = format!("{:#}", wire.trial(&spec).unwrap_err());
    assert!(
        error.contains("frames of 1800 octets") && error.contains("MTU"),
        "{error}"
    );
}

#[test]
fn a_trial_that_is_stopped_keeps_what_it_counted() {
    let mut wire = memory_wire();
    in_time(|| {
        let options = quick();
        let (stop, start) = (options.stop.clone(), Instant::now());
        wire.set_options(options);
        let mut spec = TrialSpec::steady(
            both_ways(false, FrameMix::of(64)),
            1e4,
            Duration::from_secs(60),
        );
        spec.action = Some(Action {
            after: Duration::from_millis(100),
            run: Arc::new(move || {
                stop.store(true, Ordering::Relaxed);
                Ok(())
            }),
        });
        let trial = wire.trial(&spec).unwrap();
        assert!(start.elapsed() < Duration::from_secs(2));
        let counts = trial.counts();
        assert!(
            trial.interrupted && counts.sent > 0 && counts.lost() == 0,
            "{counts:?}"
        );
        let error = trial.sent_rate() / 2e4 - 1.0;
        ((), error.abs() < 0.05 && counts.sent >= 1000)
    });
}

#[test]
fn an_action_that_fails_fails_the_trial() {
    let mut wire = memory_wire();
    let mut spec = TrialSpec::steady(both_ways(false, FrameMix::of(64)), 1e3, SHORT);
    spec.action = Some(Action {
        after: Duration::from_millis(10),
        run: Arc::new(|| anyhow::bail!("the router is on fire")),
    });
    let error = format!("{:#}", wire.trial(&spec).unwrap_err());
    assert!(error.contains("the router is on fire"), "{error}");
}

#[test]
fn foreign_frames_are_counted_and_do_no_harm() {
    let Some(net) = Net::router() else { return };
    let mut wire = net.wire(Kind::af_packet, quick());
    let router = net.router.as_ref().unwrap();
    // datagrams of the router's own to an address of the tester
    let mut spec = TrialSpec::steady(both_ways(false, FrameMix::of(64)), 1e3, SHORT);
    let name = router.to_string();
    spec.action = Some(Action {
        after: Duration::from_millis(20),
        run: Arc::new(move || {
            let script = "for n in 1 2 3; do echo $n > /dev/udp/198.18.1.2/4000; done";
            let mut command = std::process::Command::new("ip");
            let done = command
                .args(["netns", "exec", &name, "bash", "-c", script])
                .output()?;
            anyhow::ensure!(done.status.success(), "{done:?}");
            Ok(())
        }),
    });
    let trial = wire.trial(&spec).unwrap();
    assert!(trial.foreign > 0);
    assert_eq!(trial.counts().lost(), 0);
}
