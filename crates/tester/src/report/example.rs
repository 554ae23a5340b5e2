//! A report made up for tests: plausible, but measured nowhere.

use crate::rate::line_rate;
use crate::result::{
    Calibration, Environment, Finding, Latency, Port, Report, StreamRecord, Test, TrialRecord,
};

const SIZES: [(&str, f64); 8] = [
    ("64", 64.0),
    ("128", 128.0),
    ("256", 256.0),
    ("512", 512.0),
    ("1024", 1024.0),
    ("1280", 1280.0),
    ("1518", 1518.0),
    ("imix", 361.8),
];
/// Frames a second of all ports that the router of the example forwards.
const CAPACITY: f64 = 2.1e6;

/// The example.
pub(super) fn report() -> Report {
    let mut tests: Vec<Test> = SIZES.iter().map(throughput).collect();
    tests.extend(SIZES.iter().step_by(3).map(latency));
    tests.extend(SIZES.iter().map(frame_loss));
    tests.extend(SIZES.iter().map(back_to_back));
    tests.extend(SIZES.iter().take(4).map(saturation));
    tests.push(outage());
    Report {
        format: super::FORMAT,
        bora: "0.1.0".into(),
        title: "RFC 2544, example".into(),
        plan: "title = \"RFC 2544, example\"\nsizes = [64, 128, 256, 512, 1024, 1280, 1518, \"imix\"]\n\n\
               [[test]]\nmethod = \"throughput\"\n".into(),
        seed: 42,
        started: "2026-01-02T08:00:00Z".into(),
        ended: "2026-01-02T09:17:30Z".into(),
        complete: true,
        stopped: false,
        environment: Environment {
            host: "example".into(),
            processor: "Example CPU, 8 cores at 3 GHz".into(),
            cpus: 8,
            memory: 16 << 30,
            kernel: "6.12.0".into(),
            clock: "tsc".into(),
            hypervisor: Some("kvm".into()),
        },
        subject: vec![
            ("router".into(), "an example that does not exist".into()),
            ("version".into(), "1.0".into()),
        ],
        ports: [("a", false), ("b", true)].map(|(name, is_virtual)| port(name, is_virtual)).to_vec(),
        calibration: SIZES.iter().map(calibration).collect(),
        tests,
        notes: vec!["The clock source of the machine is checked every trial.".into()],
    }
}

/// The example as of a plan with `family = "both"`.
pub(super) fn both_versions() -> Report {
    let mut report = report();
    for mut test in report.tests.clone() {
        test.family = "ipv6".into();
        report.tests.push(test);
    }
    for mut found in report.calibration.clone() {
        found.family = "ipv6".into();
        report.calibration.push(found);
    }
    report
}

fn port(name: &str, is_virtual: bool) -> Port {
    Port {
        name: name.into(),
        kind: format!("af_xdp eth-{name}"),
        details: vec![
            ("driver".into(), "example".into()),
            ("mode".into(), "zero-copy".into()),
        ],
        speed: 1e9,
        is_virtual,
    }
}

fn calibration((frames, length): &(&str, f64)) -> Calibration {
    Calibration {
        frames: (*frames).into(),
        family: "ipv4".into(),
        senders: 2,
        rate: line_rate(1e9, *length),
        latency: (2_100, 4_800),
        how: "loopback cable".into(),
    }
}

fn test(name: &str, reference: &str, (frames, length): &(&str, f64)) -> Test {
    Test {
        name: name.into(),
        method: name.into(),
        reference: reference.into(),
        frames: (*frames).into(),
        frame_length: *length,
        family: "ipv4".into(),
        pattern: "both ways".into(),
        senders: 2,
        line_rate: Some(line_rate(1e9, *length)),
        ..Test::default()
    }
}

fn finding(metric: &str, goal: &str, unit: &str, value: f64, width: f64) -> Finding {
    Finding {
        metric: metric.into(),
        goal: goal.into(),
        unit: unit.into(),
        value: Some(value),
        low: (width > 0.0).then_some(value),
        high: (width > 0.0).then_some(value * (1.0 + width)),
        samples: Vec::new(),
        more_is_better: Some(unit.starts_with("frames")),
    }
}

/// A trial at a rate of each port, with what a router of this capacity would lose.
fn trial(purpose: &str, rate: f64, time: f64, capacity: f64) -> TrialRecord {
    let sent = (2.0 * rate * time) as u64;
    let received = sent.min((capacity * time) as u64);
    let stream = |from: &str, to: &str| StreamRecord {
        from: from.into(),
        to: to.into(),
        sent: sent / 2,
        received: received / 2,
        ..StreamRecord::default()
    };
    TrialRecord {
        purpose: purpose.into(),
        rate: Some(rate),
        time,
        sent_rate: 2.0 * rate,
        received_rate: received as f64 / time,
        sent,
        received,
        lost: sent - received,
        valid: true,
        latency: Some((12_000, 31_000)),
        lateness: 900,
        streams: match purpose {
            "sweep" => vec![stream("a", "b"), stream("b", "a")],
            _ => Vec::new(),
        },
        ..TrialRecord::default()
    }
}

fn throughput(size: &(&str, f64)) -> Test {
    let mut test = test("throughput", "RFC 2544, 26.1; RFC 9971", size);
    let most = line_rate(1e9, size.1);
    let (mut low, mut high) = (0.0, most);
    let mut rate = most;
    for (n, time) in [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0]
        .into_iter()
        .enumerate()
    {
        let trial = trial("search", rate, time, CAPACITY);
        match trial.lost {
            0 => low = rate,
            _ => high = rate,
        }
        test.trials.push(trial);
        if n > 0 && low == most {
            break;
        }
        rate = if low == most {
            most
        } else {
            (low + high) / 2.0
        };
    }
    let value = if low == 0.0 { high } else { low };
    let more = (value * 2.06).min(most * 2.0);
    test.findings = vec![
        finding("throughput", "loss 0 %", "frames/s", value * 2.0, 0.005),
        finding("throughput", "loss 0.5 %", "frames/s", more, 0.005),
    ];
    if size.0 == "1024" {
        test.findings[0].value = None;
        test.notes = vec!["throughput, loss 0 %: at least the tester's own limit".into()];
        test.trials[1].missed = 17;
    }
    test
}

fn latency(size: &(&str, f64)) -> Test {
    let mut test = test("latency", "RFC 2544, 26.2; RFC 8219", size);
    for (load, scale) in [("10 %", 1.0), ("50 %", 1.4), ("90 %", 3.0), ("100 %", 9.0)] {
        let curve = |quantile: f64| {
            let nines = -(1.0 - quantile).log10();
            (8_000.0 * scale * (1.0 + nines * 0.5 + (nines / 3.0).powi(4))) as u64
        };
        let quantiles: Vec<f64> = (0..=50)
            .map(|n| 1.0 - 10f64.powf(f64::from(n) / -10.0))
            .collect();
        let quantiles: Vec<(f64, u64)> = quantiles.into_iter().map(|q| (q, curve(q))).collect();
        let p99 = curve(0.99) as f64 / 1e3;
        test.findings.push(finding(
            "latency, 99 %",
            &format!("load {load}"),
            "us",
            p99,
            0.03,
        ));
        test.latencies.push(Latency {
            load: format!("{load} of throughput"),
            rate: 1e5 * scale,
            count: 1_000_000,
            min: curve(0.0),
            mean: curve(0.5) as f64,
            max: curve(0.999_999),
            pdv: curve(0.999) - curve(0.0),
            quantiles: quantiles
                .into_iter()
                .chain([(1.0, curve(0.999_999))])
                .collect(),
        });
        test.trials.push(trial(load, 1e5 * scale, 10.0, CAPACITY));
    }
    test
}

fn frame_loss(size: &(&str, f64)) -> Test {
    let mut test = test("frame-loss", "RFC 2544, 26.3", size);
    let capacity = CAPACITY.min(line_rate(2e9 - 300.0 * size.1 * size.1, size.1));
    for share in (1..=10).rev() {
        let rate = line_rate(1e9, size.1) * f64::from(share) / 10.0;
        let trial = trial("loss curve", rate, 10.0, capacity);
        let loss = trial.lost as f64 / trial.sent as f64 * 100.0;
        let goal = format!("load {} % of line rate", share * 10);
        test.findings
            .push(finding("frame loss", &goal, "%", loss, 0.0));
        test.trials.push(trial);
    }
    test
}

fn back_to_back(size: &(&str, f64)) -> Test {
    let mut test = test("back-to-back", "RFC 9004", size);
    let longest = 4096.0 * (1.0 + 256.0 / size.1);
    let samples: Vec<f64> = (0..10).map(|n| longest + f64::from(n % 4) * 8.0).collect();
    let mut burst = finding("longest burst", "", "frames", longest, 0.01);
    burst.samples = samples;
    test.findings = vec![burst];
    for n in 0..10 {
        let mut trial = trial("burst", line_rate(1e9, size.1), 0.01, CAPACITY);
        trial.rate = None;
        trial.time = 0.01 + f64::from(n) * 0.001;
        test.trials.push(trial);
    }
    test
}

fn saturation(size: &(&str, f64)) -> Test {
    let mut test = test("saturation", "Bianco et al., 2005", size);
    test.line_rate = None;
    let mut forwarded = finding("saturation throughput", "", "frames/s", CAPACITY, 0.0);
    forwarded.samples = [-1.0, 0.4, 0.2, -0.3, 0.7]
        .map(|n| CAPACITY * (1.0 + n / 100.0))
        .to_vec();
    forwarded.low = Some(CAPACITY * 0.985);
    forwarded.high = Some(CAPACITY * 1.015);
    test.findings = vec![forwarded];
    for load in 1..=8 {
        let rate = f64::from(load) * 0.25e6;
        let mut trial = trial(
            "sweep",
            rate,
            10.0,
            CAPACITY - 2e5 * f64::from(load - 4).max(0.0),
        );
        trial.reordered = 3;
        test.trials.push(trial);
    }
    test
}

fn outage() -> Test {
    let mut test = test("restart", "outage of a restart", &SIZES[0]);
    test.findings = vec![
        finding("outage", "longest gap", "ms", 812.0, 0.01),
        finding("outage", "frames lost", "ms", 806.5, 0.01),
    ];
    test.trials.push(trial("restart", 1e5, 10.0, 1.9e5));
    test
}
