//! A plan carried out: ports, calibration, tests, report.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;

use crate::calibrate::{OwnLinks, calibrate, joined};
use crate::environment::{environment, notes};
use crate::plan::{Calibrate, Case, Length, Plan, TestSection};
use crate::ports::PortSpec;
use crate::rate::line_rate;
use crate::report;
use crate::result::{self, Report};
use crate::router::Device;
use crate::trial::Bench;

/// How a plan is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Short or full times.
    pub length: Length,
    /// CPU on which virtual links receive, so that the calibration does the same; `None`: the sender's.
    pub receive_cpu: Option<u32>,
    /// Set by Ctrl-C: the run ends, and what was measured is kept.
    pub stop: Arc<AtomicBool>,
    /// Tells the user what to do, and waits until it is done.
    pub ask: fn(&str) -> anyhow::Result<()>,
}

/// Open ports: what carries out trials, and what reports say of them.
pub struct Opened {
    /// Carries out trials.
    pub bench: Box<dyn Bench>,
    /// Ports in the order in which they were asked for.
    pub ports: Vec<result::Port>,
}

/// Opens ports.
pub type Open<'a> = dyn Fn(&[PortSpec]) -> anyhow::Result<Opened> + 'a;

/// One test to be done.
#[derive(Debug)]
pub struct Job<'a> {
    /// The section of the plan.
    pub test: &'a TestSection,
    /// What is sent.
    pub case: &'a Case,
    /// Short or full times.
    pub length: Length,
    /// Frames a second of each sending port that its link carries; `None` on virtual links.
    pub line_rate: Option<f64>,
    /// Most frames a second of each sending port that may be reported: what the tester was
    /// calibrated to, and the line rate.
    pub limit: Option<f64>,
    /// Nominal bits a second of the slowest port.
    pub speed: f64,
    /// Pause between trials.
    pub settle: Duration,
    /// Names of the ports.
    pub ports: &'a [String],
    /// The router's next hop towards each port: the tester's address there.
    pub via: Vec<Option<IpAddr>>,
    /// Set when the user asks to stop.
    pub stop: &'a AtomicBool,
}

/// Carries out one test; what it finds is in the last argument, also if it fails.
pub type Measure<'a> =
    dyn FnMut(&mut dyn Bench, &Device, &Job<'_>, &mut result::Test) -> anyhow::Result<()> + 'a;

/// Takes routes off the router when it is dropped.
struct Installed<'a>(&'a Device);

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.remove_routes() {
            report::remark(format_args!(
                "the tester's routes are still on the router: {error:#}"
            ));
        }
    }
}

/// Carries out all tests of a plan, as [`Plan::cases`] has them for these ports. A test that fails is
/// noted in the report, and the next one is done.
///
/// # Errors
/// If the ports cannot be opened or calibrated.
pub fn run(
    plan: &Plan,
    specs: &[PortSpec],
    (cases, left_out): (Vec<Case>, Vec<String>),
    device: &Device,
    options: &Options,
    open: &Open<'_>,
    measure: &mut Measure<'_>,
) -> anyhow::Result<Report> {
    let mut report = begun(plan, device);
    report.notes.extend(left_out);
    if plan.calibration == Calibrate::Cable {
        (options.ask)("Join the ports in pairs by cables, the first to the second …")?;
        let ports = without_gateways(specs);
        calibrate_all(&ports, "loopback cable", &cases, open, &mut report)?;
        (options.ask)("Now connect the ports to the router.")?;
    }
    let Opened { mut bench, ports } = open(specs)?;
    let is_virtual = ports.iter().all(|port| port.is_virtual);
    if plan.calibration == Calibrate::Auto && is_virtual {
        let links = OwnLinks::new(specs, options.receive_cpu)?;
        let how = "own links (veth or memif)";
        calibrate_all(&links.ports, how, &cases, open, &mut report)?;
    }
    if report.calibration.is_empty() {
        let note = "The tester was not calibrated: a limit of its own may look like the router's.";
        report.notes.push(note.into());
    }
    report.ports = ports;
    let mut run = Run {
        plan,
        specs,
        device,
        options,
        report,
        installed: None,
        routed: None,
    };
    let complete = run.tests(&cases, bench.as_mut(), measure);
    let mut report = run.report;
    report.complete = complete;
    report.ended = now();
    Ok(report)
}

/// A report without results yet.
fn begun(plan: &Plan, device: &Device) -> Report {
    let environment = environment();
    Report {
        format: report::FORMAT,
        bora: env!("CARGO_PKG_VERSION").into(),
        title: plan.title.clone(),
        seed: plan.seed,
        started: now(),
        notes: notes(&environment),
        environment,
        subject: device.facts(),
        ..Report::default()
    }
}

struct Run<'a> {
    plan: &'a Plan,
    specs: &'a [PortSpec],
    device: &'a Device,
    options: &'a Options,
    report: Report,
    installed: Option<Installed<'a>>,
    /// What is installed now.
    routed: Option<Routing>,
}

/// Routes that a test needs: IP version, test networks, ports with a share of many routes.
type Routing = (
    bool,
    Vec<(crate::prefix::Prefix, usize)>,
    Option<Vec<usize>>,
);

impl Run<'_> {
    /// Whether all were done.
    fn tests(&mut self, cases: &[Case], bench: &mut dyn Bench, measure: &mut Measure<'_>) -> bool {
        let mut complete = true;
        let names: Vec<String> = self.specs.iter().map(|spec| spec.name.clone()).collect();
        for case in cases {
            if self.options.stop.load(Ordering::Relaxed) {
                self.report.notes.push("Interrupted by the user.".into());
                return false;
            }
            let test = &self.plan.tests[case.test];
            let mut found = self.begin(test, case);
            let done = self.install(case).and_then(|()| {
                let job = self.job(test, case, &names);
                found.line_rate = job.line_rate;
                measure(bench, self.device, &job, &mut found)
            });
            if let Err(error) = done {
                complete = false;
                let frames = &case.traffic.frames.name;
                let note = format!("{}, {frames}: {error:#}", test.name());
                self.report.notes.push(note);
            }
            if !found.trials.is_empty() {
                self.report.tests.push(found);
            }
        }
        complete && !self.options.stop.load(Ordering::Relaxed)
    }

    /// Brings the router's routes to what the test needs.
    fn install(&mut self, case: &Case) -> anyhow::Result<()> {
        let wanted = (case.v6, case.networks.clone(), case.routed.clone());
        if !self.device.installs() || self.routed.as_ref() == Some(&wanted) {
            anyhow::ensure!(
                self.device.installs() || case.routed.is_none(),
                "[router] routes need `shell`, so that they can be installed"
            );
            return Ok(());
        }
        // the old ones go
        self.installed = None;
        self.routed = None;
        let via = |port: usize| {
            let via = self.via(case.v6)[port];
            via.with_context(|| format!("port {} has no address", self.specs[port].name))
        };
        if case.networks.is_empty() && case.routed.is_none() {
            return Ok(());
        }
        let networks: anyhow::Result<Vec<_>> = case
            .networks
            .iter()
            .map(|(prefix, port)| Ok((*prefix, via(*port)?)))
            .collect();
        let routed = case.routed.iter().flatten().map(|&port| via(port));
        let routed: anyhow::Result<Vec<IpAddr>> = routed.collect();
        let (networks, routed) = (networks?, routed?);
        self.installed = Some(Installed(self.device));
        self.device.add_networks(&networks)?;
        if !routed.is_empty() {
            self.device.add_routes(case.v6, self.plan.seed, &routed)?;
        }
        self.routed = Some(wanted);
        Ok(())
    }

    fn via(&self, v6: bool) -> Vec<Option<IpAddr>> {
        self.specs.iter().map(|spec| spec.address(v6)).collect()
    }

    fn job<'b>(&'b self, test: &'b TestSection, case: &'b Case, names: &'b [String]) -> Job<'b> {
        let senders = case.traffic.senders();
        let ports = senders
            .iter()
            .filter_map(|&port| self.report.ports.get(port));
        let speed = ports.map(|port| port.speed).fold(f64::INFINITY, f64::min);
        let is_virtual = self.report.ports.iter().any(|port| port.is_virtual);
        let line = (!is_virtual).then(|| line_rate(speed, case.traffic.frames.mean()));
        let (frames, family, senders) = calibration_of(case);
        let mut calibrations = self.report.calibration.iter();
        let calibrated = calibrations.find(|one| {
            one.frames == frames && one.family == family && one.senders as usize == senders
        });
        let calibrated = calibrated.map(|one| one.rate);
        Job {
            test,
            case,
            length: self.options.length,
            settle: self.plan.settle.pick(self.options.length).0,
            line_rate: line,
            limit: match (line, calibrated) {
                (Some(line), Some(calibrated)) => Some(line.min(calibrated)),
                (line, calibrated) => line.or(calibrated),
            },
            speed,
            ports: names,
            via: self.via(case.v6),
            stop: &self.options.stop,
        }
    }

    /// The record of a test that has not begun.
    fn begin(&self, test: &TestSection, case: &Case) -> result::Test {
        let frames = &case.traffic.frames;
        result::Test {
            name: test.name(),
            frames: frames.name.clone(),
            frame_length: frames.mean(),
            family: family(case).into(),
            pattern: case.pattern.to_string(),
            senders: case.traffic.senders().len() as u32,
            ..result::Test::default()
        }
    }
}

/// Ports that are joined by cables: no router between.
fn without_gateways(specs: &[PortSpec]) -> Vec<PortSpec> {
    let mut specs = specs.to_vec();
    for spec in &mut specs {
        if let Some(v4) = &mut spec.v4 {
            v4.gateway = None;
        }
        if let Some(v6) = &mut spec.v6 {
            v6.gateway = None;
        }
    }
    specs
}

fn family(case: &Case) -> &'static str {
    if case.v6 { "ipv6" } else { "ipv4" }
}

/// Tests with the same frames, family and number of senders need one calibration.
fn calibration_of(case: &Case) -> (&str, &'static str, usize) {
    let traffic = &case.traffic;
    (&traffic.frames.name, family(case), traffic.senders().len())
}

/// Measures what the tester can do with each frame mix of the tests, on ports joined in pairs.
fn calibrate_all(
    specs: &[PortSpec],
    how: &str,
    cases: &[Case],
    open: &Open<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut kinds: BTreeMap<_, &Case> = BTreeMap::new();
    for case in cases {
        kinds.entry(calibration_of(case)).or_insert(case);
    }
    let Opened { mut bench, ports } = open(specs).context("calibration")?;
    let speeds = ports.iter().map(|port| port.speed);
    let speed = speeds.fold(f64::INFINITY, f64::min);
    for ((_, family, senders), case) in kinds {
        let traffic = joined(&case.traffic, specs)?;
        let limit = match ports.iter().any(|port| port.is_virtual) {
            true => f64::INFINITY,
            false => line_rate(speed, traffic.frames.mean()),
        };
        let (found, note) = calibrate(bench.as_mut(), traffic, limit, how)?;
        report.calibration.push(result::Calibration {
            family: family.into(),
            senders: senders as u32,
            ..found
        });
        report.notes.extend(note);
    }
    Ok(())
}

/// RFC 3339.
fn now() -> String {
    let seconds = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |now| now.to_string())
}

/// Writes `DIRECTORY/PLAN-DATE.json` and `.html`; their paths.
///
/// # Errors
/// If they cannot be written.
pub fn save(report: &Report, directory: &Path, plan: &str) -> anyhow::Result<[PathBuf; 2]> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let stem = Path::new(plan).file_stem().unwrap_or(plan.as_ref());
    let date = report.started.replace(':', "");
    let file =
        |extension: &str| directory.join(format!("{}-{date}.{extension}", stem.to_string_lossy()));
    let paths = ["json", "html"].map(file);
    report::write(report, &paths[0])?;
    report::write_html(report, &paths[1])?;
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RouterSection;
    use crate::ports::{Attached, Kind};
    use crate::trial::{StreamOutcome, Trial, TrialSpec};

    struct Perfect;

    impl Bench for Perfect {
        fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
            let sent = (spec.steps[0].rate.min(1e6) * spec.time().as_secs_f64()) as u64;
            let outcome = StreamOutcome::of(sent, sent);
            let streams = vec![outcome; spec.traffic.streams.len()];
            Ok(Trial::of(streams, spec.time()))
        }
    }

    fn specs() -> Vec<PortSpec> {
        let port = |n: u8| PortSpec {
            name: format!("p{n}"),
            kind: Kind::af_packet("e0".into()),
            netns: None,
            v4: Some(Attached {
                address: [10, 1, n, 2].into(),
                prefix_length: 24,
                gateway: Some([10, 1, n, 1].into()),
            }),
            v6: None,
            speed: None,
            cpu: None,
        };
        vec![port(0), port(1)]
    }

    fn open(specs: &[PortSpec]) -> anyhow::Result<Opened> {
        let port = |spec: &PortSpec| result::Port {
            name: spec.name.clone(),
            speed: 1e9,
            is_virtual: true,
            ..result::Port::default()
        };
        Ok(Opened {
            bench: Box::new(Perfect),
            ports: specs.iter().map(port).collect(),
        })
    }

    fn carry_out(text: &str, stop: bool, measure: &mut Measure<'_>) -> anyhow::Result<Report> {
        let options = Options {
            length: Length::Short,
            receive_cpu: None,
            stop: Arc::new(AtomicBool::new(stop)),
            ask: |_| Ok(()),
        };
        let device = Device::new(RouterSection::default(), None, None);
        let (plan, specs) = (Plan::parse(text)?, specs());
        run(
            &plan,
            &specs,
            plan.cases(&specs, options.length)?,
            &device,
            &options,
            &open,
            measure,
        )
    }

    const PLAN: &str = "title = \"t\"\nsizes = [64, 128]\n[[test]]\nmethod = \"throughput\"\n";

    #[test]
    fn every_case_is_measured_below_the_testers_limit() {
        let mut limits = Vec::new();
        let report = carry_out(PLAN, false, &mut |_, _, job, test| {
            limits.push(job.limit.unwrap());
            assert_eq!(job.line_rate, None, "virtual links have none");
            test.trials.push(result::TrialRecord::default());
            Ok(())
        });
        let report = report.unwrap();
        assert!(report.complete);
        assert_eq!(report.calibration.len(), 2);
        assert!(
            limits.iter().all(|limit| (0.95e6..=1e6).contains(limit)),
            "{limits:?}"
        );
        let names: Vec<&str> = report.tests.iter().map(|test| &*test.frames).collect();
        assert_eq!(names, ["64", "128"]);
    }

    #[test]
    fn what_fails_or_is_stopped_leaves_the_rest() {
        let report = carry_out(PLAN, false, &mut |_, _, job, test| {
            anyhow::ensure!(job.case.traffic.frames.name == "128", "no luck");
            test.trials.push(result::TrialRecord::default());
            Ok(())
        });
        let report = report.unwrap();
        assert!(!report.complete && report.tests.len() == 1);
        assert!(
            report
                .notes
                .iter()
                .any(|note| note == "throughput, 64: no luck")
        );

        let report = carry_out(PLAN, true, &mut |_, _, _, _| panic!("stopped before"));
        let report = report.unwrap();
        assert!(!report.complete && report.tests.is_empty());
    }

    #[test]
    fn routes_need_a_way_to_the_router() {
        let text = PLAN.replace("[[test]]", "[router]\nroutes = {count = 9}\n[[test]]");
        let report = carry_out(&text, false, &mut |_, _, _, _| panic!("not without routes"));
        let note = report.unwrap().notes.join("\n");
        assert!(note.contains("need `shell`"), "{note}");
    }
}
